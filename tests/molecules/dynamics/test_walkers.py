from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from lobal.molecules.dynamics.motion import BOLTZMANN, Motion
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.dynamics.walkers import (
    EQUILIBRATION,
    HOTTEST,
    Simulated,
    SimulationOptions,
    moves_soundly,
    simulate_pool,
)
from lobal.molecules.geometry.bonds import Bonds
from tests.molecules.setting import morse_potential

SPECIES = torch.tensor([8, 1, 1])
REST = torch.tensor([[0.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.8, 0.6, 0.0]], dtype=torch.float64)
LABELS = REST + 0.03 * torch.randn(60, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
BONDS = Bonds.of(REST, SPECIES)
REGION = KnownRegion.of(LABELS, torch.tensor([[0, 1, 2], [0, 2, 1]]))
EVERYWHERE = replace(REGION, threshold=0.0)
UNBREAKABLE = replace(BONDS, nearest=torch.zeros(3), farthest=torch.full((3,), torch.inf))
SETTINGS: dict[str, Any] = {"temperature": 300.0, "configurations": 100, "walkers": 10}


def simulated(forces: Any = morse_potential, **changes: Any) -> Simulated:
    """A pool of water; `changes` are of arguments or options."""
    generator = torch.Generator().manual_seed(changes.pop("seed", 0))
    arguments = {"starts": LABELS, "region": REGION, "bonds": BONDS, "report": None}
    arguments |= {name: changes.pop(name) for name in arguments.keys() & changes.keys()}
    options = SimulationOptions(**SETTINGS | changes)
    return simulate_pool(forces, species=SPECIES, options=options, generator=generator, **arguments)


def stretched(R: Tensor) -> Tensor:
    """Which configurations have a longer first bond than most."""
    return (R[:, 0] - R[:, 1]).norm(dim=1) > 1.03


def broken_model(change: Any) -> Any:
    """The true forces, but changed where the first bond is stretched."""

    def forces(R: Tensor) -> tuple[Tensor, Tensor]:
        assert R.isfinite().all()  # as force fields ask for
        return change(*morse_potential(R), stretched(R))

    return forces


def test_a_pool_holds_as_many_configurations_as_wanted_all_of_them_known_and_whole() -> None:
    pool = simulated(configurations=105)
    assert len(pool.R) == len(pool.energies) == len(pool.walker) == 105
    assert REGION.contains(pool.R).all()
    assert BONDS.are_whole(pool.R).all()
    torch.testing.assert_close(pool.energies, morse_potential(pool.R)[0])
    assert set(pool.walker.tolist()) == set(range(10))


def test_walkers_of_a_good_model_are_hardly_ever_started_again() -> None:
    pool = simulated(region=EVERYWHERE, configurations=500)
    assert pool.resets <= 0.01 * pool.checks


def test_the_same_seed_simulates_the_same_pool() -> None:
    first, same, other = (simulated(seed=seed, configurations=20) for seed in (3, 3, 4))
    assert torch.equal(first.R, same.R)
    assert not torch.equal(first.R, other.R)


def test_pools_have_the_potential_energy_of_the_temperature() -> None:
    options: dict[str, Any] = {"walkers": 100, "configurations": 5000, "time_step": 1.0, "friction": 0.02}
    pool = simulated(region=EVERYWHERE, **options)
    late = pool.energies[2500:] + 2000.0
    assert late.mean().item() == pytest.approx(1.5 * BOLTZMANN * 300.0, rel=0.1)  # three vibrations, k T / 2 each


@pytest.mark.parametrize(("interval", "before"), [(10.0, 2), (15.0, 1), (30.0, 0), (0.5, 40)])
def test_the_first_femtoseconds_after_a_start_are_not_kept(interval: float, before: int) -> None:
    pool = simulated(region=EVERYWHERE, interval=interval, configurations=10)
    assert pool.resets == 0
    assert pool.checks == 10 * (before + 1)
    assert before * interval <= EQUILIBRATION < (before + 1) * interval


def test_samples_may_be_so_near_to_each_other_that_none_is_kept_at_first() -> None:
    assert len(simulated(interval=0.25, time_step=0.25, configurations=200).R) == 200


def test_walkers_that_leave_the_region_start_again() -> None:
    near = replace(REGION, threshold=float(REGION.density(LABELS).quantile(0.5)))
    pool = simulated(region=near)
    assert pool.resets > 10
    assert near.contains(pool.R).all()


def test_the_places_where_walkers_left_the_region_are_known_and_whole() -> None:
    near = replace(REGION, threshold=float(REGION.density(LABELS).quantile(0.5)))
    pool = simulated(region=near)
    assert 0 < len(pool.left) <= pool.resets
    assert not near.contains(pool.left).any()
    assert BONDS.are_whole(pool.left).all()


@pytest.mark.parametrize(
    "strict", [{"farthest": BONDS.farthest / 1.5 * 1.03}, {"nearest": BONDS.nearest / 0.8 * 0.98}], ids=["far", "near"]
)
def test_walkers_whose_atoms_come_too_near_or_too_far_start_again(strict: dict[str, Tensor]) -> None:
    bonds = replace(BONDS, **strict)
    pool = simulated(region=EVERYWHERE, bonds=bonds)
    assert pool.resets > 10
    assert bonds.are_whole(pool.R).all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_walkers_start_again_where_forces_are_not_finite(value: float) -> None:
    def change(energies: Tensor, forces: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        return energies, forces.where(~where[:, None, None], value)

    pool = simulated(broken_model(change), region=EVERYWHERE, bonds=UNBREAKABLE, starts=REST[None])
    assert pool.resets > 10
    assert not stretched(pool.R).any()


def test_walkers_start_again_where_energies_are_not_finite() -> None:
    pool = simulated(
        broken_model(lambda energies, forces, where: (energies.where(~where, torch.nan), forces)),
        region=EVERYWHERE,
        starts=REST[None],
    )
    assert pool.resets > 10
    assert pool.energies.isfinite().all()


def test_walkers_start_again_before_their_atoms_fly_away() -> None:
    def change(energies: Tensor, forces: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        return energies, torch.where(where[:, None, None], 1e6 * forces, forces)

    pool = simulated(broken_model(change), region=EVERYWHERE, bonds=UNBREAKABLE, starts=REST[None])
    assert pool.resets > 10
    assert pool.R.abs().max() < 50.0


def test_walkers_that_are_far_too_hot_start_again() -> None:
    def swirling(R: Tensor) -> tuple[Tensor, Tensor]:  # does work in circles
        energies, forces = morse_potential(R)
        around = torch.linalg.cross(R - R.mean(1, keepdim=True), torch.tensor([0.0, 0.0, 1.0]).to(R).expand_as(R))
        return energies, forces + 0.2 * around

    assert simulated(swirling, region=EVERYWHERE, bonds=UNBREAKABLE).resets > 10


@pytest.mark.parametrize(("atoms", "most"), [(3, 1e-5), (9, 1e-17)])
def test_equilibrium_is_hardly_ever_taken_for_far_too_hot(atoms: int, most: float) -> None:
    freedom = 3 * atoms - 3
    assert chi2.sf(HOTTEST * freedom, freedom) < most


@pytest.mark.parametrize("part", ["V", "energies"])
def test_numbers_that_are_not_finite_are_unsound(part: str) -> None:
    motion = Motion(torch.zeros(3, 2, 3), 0.1 * torch.ones(3, 2, 3), torch.zeros(3), torch.zeros(3, 2, 3))
    values = getattr(motion, part).clone()
    values[1].fill_(torch.nan)
    values[2].fill_(-torch.inf)
    assert moves_soundly(motion._replace(**{part: values})).tolist() == [True, False, False]


def test_atoms_of_more_than_an_angstrom_in_a_femtosecond_are_unsound() -> None:
    motion = Motion(torch.zeros(3, 2, 3), torch.zeros(3, 2, 3), torch.zeros(3), torch.zeros(3, 2, 3))
    motion.V[:, 0, 2] = torch.tensor([-0.9, -1.1, 1.1])
    assert moves_soundly(motion).tolist() == [True, False, False]


@pytest.mark.parametrize("given", [{"region": EVERYWHERE}, {"bonds": UNBREAKABLE}], ids=["bonds", "region"])
def test_starts_with_broken_bonds_or_outside_the_region_are_not_used(given: dict[str, Any]) -> None:
    def still(R: Tensor) -> tuple[Tensor, Tensor]:
        return R.new_zeros(len(R)), torch.zeros_like(R)

    pool = simulated(still, starts=torch.stack([2.0 * REST, REST, 3.0 * REST]), temperature=1e-3, **given)
    assert (pool.R - REST).abs().max() < 0.01
    assert pool.resets == 0


def test_there_must_be_a_start() -> None:
    with pytest.raises(ValueError, match="none of the 2 configurations to start from is within the known region and"):
        simulated(starts=torch.stack([2.0 * REST, 3.0 * REST]))


def test_walkers_that_leave_at_once_are_an_error_that_shows_the_numbers() -> None:
    def repelling(R: Tensor) -> tuple[Tensor, Tensor]:
        return R.new_zeros(len(R)), 20.0 * (R - R.mean(1, keepdim=True))

    with pytest.raises(
        ValueError, match=r"of 1530 configurations looked at, every 10 fs, 0 could be kept, expected at least 2%"
    ):
        simulated(repelling)


def test_samples_count_sooner_where_walkers_leave_soon() -> None:
    def repelling(R: Tensor) -> tuple[Tensor, Tensor]:
        return R.new_zeros(len(R)), 0.2 * (R - R.mean(1, keepdim=True))

    pool = simulated(repelling)
    assert len(pool.R) == 100
    assert REGION.contains(pool.R).all()
    assert pool.resets > 0.9 * pool.checks


def test_the_report_has_the_numbers_kept_and_wanted_and_of_resets() -> None:
    reports: list[tuple[int, int, int]] = []
    pool = simulated(report=lambda *numbers: reports.append(numbers), configurations=25)
    assert len(reports) == pool.checks // 10
    assert reports[-1] == (25, 25, pool.resets)
    assert reports == sorted(reports)


def test_intervals_are_whole_numbers_of_time_steps() -> None:
    assert SimulationOptions(interval=10.0, time_step=0.7).steps == 14
    assert SimulationOptions().bath.friction == 0.01


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.0),
        ("configurations", 0),
        ("walkers", 0),
        ("interval", 0.1),  # shorter than a time step
        ("time_step", -1.0),
        ("friction", -1.0),
    ],
)
def test_numbers_out_of_bounds_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        SimulationOptions(**{name: value})
