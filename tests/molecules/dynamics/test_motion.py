import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules.dynamics.motion import (
    ACCELERATION,
    BOLTZMANN,
    Bath,
    Motion,
    begun,
    kinetic_energies,
    step,
    temperatures,
    thermal_velocities,
)
from tests.molecules.setting import morse_potential

pytest.importorskip("ase", reason="ASE is not installed")

from ase import Atoms, units
from ase.calculators.lj import LennardJones
from ase.md.verlet import VelocityVerlet

STIFFNESS = 2.0  # eV / Angstrom^2
PAIR = torch.tensor([2.0, 6.0], dtype=torch.float64)
FREQUENCY = math.sqrt(STIFFNESS * ACCELERATION / 1.5)  # of the reduced mass 1.5, in 1 / fs
WATER = torch.tensor([15.999, 1.008, 1.008], dtype=torch.float64)
BENT = torch.tensor([[0.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.8, 0.6, 0.0]], dtype=torch.float64)
LINE = torch.tensor([[0.0, 0.0, 0.0], [0.8, 0.8, 0.4], [-1.6, -1.6, -0.8]], dtype=torch.float64)
ALMOST = LINE + torch.tensor([[0.0, 0.05, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
SHAPES = {"bent": BENT, "almost in a line": ALMOST, "in a line": LINE, "two atoms": LINE[:2]}


def turned(shape: Tensor, n: int) -> Tensor:
    """Configurations of one shape in all directions, away from the origin."""
    Q = torch.linalg.qr(torch.randn(n, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))).Q
    return shape @ Q + 5.0


def springs(R: Tensor) -> tuple[Tensor, Tensor]:
    """Energies and forces of two atoms that a spring of length zero binds."""
    between = R[:, 0] - R[:, 1]
    pull = STIFFNESS * torch.stack([-between, between], dim=1)
    return 0.5 * STIFFNESS * between.square().sum(1), pull


def after(motion: Motion, forces: Any, masses: Tensor, bath: Bath, steps: int, seed: int = 0) -> Motion:
    """Walkers some steps later."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        motion = step(motion, forces, masses, bath, generator=generator)
    return motion


def moving_water(walkers: int = 3) -> Motion:
    """Walkers at 300 K around the equilibrium of a molecule of three atoms."""
    generator, R = torch.Generator().manual_seed(1), BENT.repeat(walkers, 1, 1)
    V = thermal_velocities(WATER, 300.0, walkers, generator=generator, R=R)
    return begun(R, V, morse_potential)


def totals(motion: Motion) -> Tensor:
    """Total energies of water."""
    return motion.energies + kinetic_energies(motion.V, WATER)


def angular_momenta(R: Tensor, V: Tensor, masses: Tensor) -> Tensor:
    """About the centre of mass."""
    centre = (masses[:, None] * R).sum(1, keepdim=True) / masses.sum()
    return (masses[:, None] * torch.linalg.cross(R - centre, V)).sum(1)


def test_constants_are_those_of_ase() -> None:
    assert pytest.approx(units.kB, rel=1e-6) == BOLTZMANN
    assert pytest.approx(units.fs**2, rel=1e-6) == ACCELERATION


def test_without_a_bath_positions_are_those_of_velocity_verlet_in_ase(generator: torch.Generator) -> None:
    atoms = Atoms("Ar4", positions=3.8 * torch.eye(4, 3).numpy(), calculator=LennardJones(epsilon=0.01, sigma=3.4))
    R, masses = torch.tensor(atoms.positions)[None], torch.from_numpy(atoms.get_masses())
    V = thermal_velocities(masses, 50.0, 1, generator=generator, R=R)
    atoms.set_velocities(V[0].numpy() / units.fs)
    oracle = atoms.copy()
    oracle.calc = LennardJones(epsilon=0.01, sigma=3.4)

    def forces(R: Tensor) -> tuple[Tensor, Tensor]:
        atoms.positions[:] = R[0].numpy()
        return torch.tensor([atoms.get_potential_energy()]), torch.from_numpy(atoms.get_forces())[None]

    last = after(begun(R, V, forces), forces, masses, Bath(temperature=0.0, time_step=4.0, friction=0.0), 100)
    with VelocityVerlet(oracle, timestep=4.0 * units.fs) as dynamics:
        dynamics.run(100)
    assert (last.R - R).abs().max() > 0.3
    torch.testing.assert_close(last.R[0], torch.from_numpy(oracle.positions), rtol=0.0, atol=1e-5)
    torch.testing.assert_close(last.V[0], torch.from_numpy(oracle.get_velocities() * units.fs), rtol=0.0, atol=1e-7)


def test_velocity_verlet_is_reversible() -> None:
    bath, start = Bath(temperature=0.0, friction=0.0), moving_water()
    there = after(start, morse_potential, WATER, bath, 100)
    back = after(there._replace(V=-there.V), morse_potential, WATER, bath, 100)
    assert (there.R - start.R).abs().max() > 0.05
    torch.testing.assert_close(back.R, start.R, rtol=0.0, atol=1e-10)
    torch.testing.assert_close(back.V, -start.V, rtol=0.0, atol=1e-10)


def test_the_energy_error_falls_with_the_square_of_the_time_step() -> None:
    start, errors = moving_water(), []
    for parts in (1, 2):
        bath, motion, off = Bath(temperature=0.0, time_step=0.5 / parts, friction=0.0), start, []
        for _ in range(100 * parts):
            motion = step(motion, morse_potential, WATER, bath)
            off.append((totals(motion) - totals(start)).abs())
        errors.append(torch.stack(off).amax(0))
    torch.testing.assert_close(errors[0] / errors[1], torch.full((3,), 4.0, dtype=torch.float64), rtol=0.1, atol=0.0)


def test_positions_of_oscillators_have_the_right_temperature_at_any_time_step(generator: torch.Generator) -> None:
    """BAOAB is exact there; at this time step, methods with the noise outside are a third too hot."""
    bath = Bath(temperature=300.0, time_step=1.0 / FREQUENCY, friction=0.05)
    R = torch.zeros(2000, 2, 3, dtype=torch.float64)
    motion, squares, kinetic = begun(R, R, springs), [], []
    for number in range(300):
        motion = step(motion, springs, PAIR, bath, generator=generator)
        if number >= 100 and number % 10 == 0:
            squares.append((motion.R[:, 0] - motion.R[:, 1]).square().mean().item())
            kinetic.append(temperatures(motion.V, PAIR).mean().item())
    assert sum(squares) / len(squares) == pytest.approx(BOLTZMANN * 300.0 / STIFFNESS, rel=0.015)
    # 1 - (omega dt)^2 / 4 of velocities (Leimkuhler and Matthews 2013).
    assert sum(kinetic) / len(kinetic) == pytest.approx(0.75 * 300.0, rel=0.015)


def test_the_bath_gives_all_motion_but_that_of_the_centre_its_temperature() -> None:
    R = BENT.repeat(2000, 1, 1)
    start = Motion(R, torch.zeros_like(R), torch.zeros(2000), torch.zeros_like(R))  # that nothing binds

    def free(R: Tensor) -> tuple[Tensor, Tensor]:
        return R.new_zeros(len(R)), torch.zeros_like(R)

    last = after(start, free, WATER, Bath(temperature=300.0, friction=0.1), 100)
    assert temperatures(last.V, WATER).mean().item() == pytest.approx(300.0, rel=0.03)
    assert temperatures(last.V, WATER).var().item() == pytest.approx(300.0**2 * 2.0 / 6.0, rel=0.1)  # six of chi^2


def test_kinetic_energy_is_replaced_at_twice_the_friction(generator: torch.Generator) -> None:
    bath, R = Bath(temperature=0.0, friction=0.01), torch.zeros(1, 2, 3, dtype=torch.float64)
    V = torch.tensor([[[0.03, 0.0, 0.0], [-0.01, 0.0, 0.0]]], dtype=torch.float64)

    def free(R: Tensor) -> tuple[Tensor, Tensor]:
        return R.new_zeros(len(R)), torch.zeros_like(R)

    last = after(begun(R, V, free), free, PAIR, bath, 100)  # 50 fs
    ratio = kinetic_energies(last.V, PAIR) / kinetic_energies(V, PAIR)
    assert ratio.item() == pytest.approx(math.exp(-1.0))


def test_the_centre_of_mass_stays_where_it_is() -> None:
    start = moving_water()
    last = after(start, morse_potential, WATER, Bath(temperature=300.0, friction=0.05), 200)
    assert (last.R - start.R).abs().max() > 0.1
    for motion in (start, last):
        torch.testing.assert_close(WATER @ motion.V, torch.zeros(3, 3, dtype=torch.float64), rtol=0.0, atol=1e-12)
    torch.testing.assert_close(WATER @ last.R, WATER @ start.R, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_first_velocities_have_the_temperature_and_no_momenta(shape: Tensor, generator: torch.Generator) -> None:
    masses, R = WATER[: len(shape)], turned(shape, 20_000)
    V = thermal_velocities(masses, 500.0, len(R), generator=generator, R=R)
    assert (masses @ V).abs().max() < 1e-12
    assert angular_momenta(R, V, masses).abs().max() < 1e-10
    assert temperatures(V, masses).mean().item() == pytest.approx(500.0, rel=0.02)


def test_molecules_in_a_line_keep_the_motion_that_does_not_turn_them(generator: torch.Generator) -> None:
    R = LINE.repeat(5000, 1, 1)
    V = thermal_velocities(WATER, 500.0, len(R), generator=generator, R=R)
    axis = LINE[1] / LINE[1].norm()
    along = V @ axis
    # Of four degrees of freedom, two are along the line and two bend it, each of them alike.
    shares = kinetic_energies(along[:, :, None] * axis, WATER).mean() / kinetic_energies(V, WATER).mean()
    assert shares.item() == pytest.approx(0.5, abs=0.02)


def test_without_rotation_velocities_are_the_nearest_ones(generator: torch.Generator) -> None:
    R = BENT + 0.1 * torch.randn(4, 3, 3, dtype=torch.float64, generator=generator)
    V = thermal_velocities(WATER, 500.0, 4, generator=generator, R=R)
    centre = (WATER[:, None] * R).sum(1, keepdim=True) / WATER.sum()
    spin = torch.randn(4, 1, 3, dtype=torch.float64, generator=generator).expand_as(R)
    turns = torch.linalg.cross(spin, R - centre)
    products = (WATER[:, None] * turns * V).sum((1, 2))  # with any rotation of the rigid molecule
    torch.testing.assert_close(products, torch.zeros(4, dtype=torch.float64), rtol=0.0, atol=1e-12)


def test_velocities_of_another_number_of_walkers_are_refused(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="there must be 2 configurations, one for each walker, got 3"):
        thermal_velocities(WATER, 300.0, 2, generator=generator, R=BENT.repeat(3, 1, 1))


def test_kinetic_energies_are_those_of_ase() -> None:
    V = moving_water().V
    atoms = Atoms("OH2", positions=BENT.numpy())
    atoms.set_velocities(V[0].numpy() / units.fs)
    assert kinetic_energies(V, WATER)[0].item() == pytest.approx(atoms.get_kinetic_energy(), rel=1e-6)


def test_results_follow_from_the_generator_alone() -> None:
    bath = Bath(temperature=300.0)
    first, same, other = (after(moving_water(), morse_potential, WATER, bath, 5, seed).R for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_noise_without_a_generator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a bath of friction 0\.01 / fs has noise; pass a generator, or friction 0"):
        step(moving_water(), morse_potential, WATER, Bath(temperature=300.0))


def test_some_walkers_are_replaced_by_others() -> None:
    motion, others = moving_water(3), moving_water(2)
    mixed = motion.with_rows(torch.tensor([2, 0]), others)
    for part, old, new in zip(mixed, motion, others, strict=True):
        assert torch.equal(part, torch.stack([new[1], old[1], new[0]]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature must be"),
        ({"temperature": 300.0, "time_step": 0.0}, "time_step must be"),
        ({"temperature": 300.0, "friction": -0.1}, "friction must be"),
        ({"temperature": math.nan}, "temperature must be"),
    ],
)
def test_numbers_out_of_bounds_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bath(**wrong)
