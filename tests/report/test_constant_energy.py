from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.report import constant_energy as module
from lobal.report.constant_energy import TEMPERATURE, ConstantEnergy, constant_energy, energy_blocks, energy_figure
from tests.molecules.setting import morse_potential, water
from tests.report.grown_setting import chain, grown_campaign

CAMPAIGN = replace(grown_campaign(water(6).R), species=torch.tensor([8, 1, 1]))
START = CAMPAIGN.R[:3]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PICOSECONDS", 0.1)


def driven(R: Tensor) -> tuple[Tensor, Tensor]:
    """Forces that are not those of the energy."""
    energies, forces = morse_potential(R)
    return energies, forces + 3.0 * R


def run(*energies: list[float]) -> ConstantEnergy:
    """A run of walkers with these energies at 0, 1 and 2 ps, at 100 K."""
    return ConstantEnergy(
        times=np.arange(3.0),
        energies=np.array(energies).T,
        drifts=np.zeros(len(energies)),
        temperature=100.0,
        whole=len(energies),
    )


def test_forces_of_an_energy_conserve_it() -> None:
    found = constant_energy(CAMPAIGN, morse_potential, START)
    assert found.energies.shape == (21, 3)
    np.testing.assert_array_equal(found.energies[0], 0.0)
    assert np.abs(found.energies).max() < 10.0
    assert len(found.lost) == 0
    assert found.times[-1] == pytest.approx(0.1)


def test_forces_of_no_energy_are_found_out() -> None:
    assert len(constant_energy(CAMPAIGN, driven, START).lost) == 3


def test_energy_is_lost_when_it_has_changed_by_more_than_the_heat_or_is_no_number() -> None:
    assert run([0.0, 0.0, 0.0]).heat == pytest.approx(1.5 * 8.617333)  # 3 k T / 2 in meV
    found = run([0.0, 12.0, -12.0], [0.0, 1.0, -14.0], [0.0, np.nan, np.nan], [0.0, 14.0, 0.0])
    assert found.lost.tolist() == [2.0, 1.0, 1.0]


def test_a_force_field_that_keeps_energy_is_shown_with_its_drift() -> None:
    R = chain(np.linspace([60.0], [180.0], 6))
    (block,) = energy_blocks(grown_campaign(R))
    assert block.startswith("<figure>")
    assert "-0.000 to +0.000 meV per atom" in block or "+0.000 to +0.000 meV per atom" in block
    assert "Total energy of 4 molecules that move for 0.1 ps" in block


@pytest.mark.parametrize(
    ("picoseconds", "words"), [(0.01, "no bond broke or formed"), (0.6, "0 of 4 have the bonds of the molecule")]
)
def test_bonds_that_the_molecules_end_with_are_counted(
    picoseconds: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PICOSECONDS", picoseconds)  # of atoms that feel no force
    (block,) = energy_blocks(grown_campaign(chain(np.linspace([60.0], [180.0], 6))))
    assert f"At the end, {words}." in block


def test_a_force_field_that_is_too_slow_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(module, "_seconds_for", lambda *_: 600.0)
    monkeypatch.setattr(module, "constant_energy", None)
    (block,) = energy_blocks(CAMPAIGN)
    assert "Not computed: a run of 0.1 ps with this force field would take about 10 minutes here" in block


def test_the_time_of_the_run_is_that_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.03, 0.01, 0.02, 0.05, 0.04])
    monkeypatch.setattr(module, "_seconds", lambda *_: next(times))
    assert module._seconds_for(morse_potential, START) == pytest.approx(0.01 * 200)  # the fastest, 0.1 ps of 0.5 fs


@pytest.mark.parametrize("energies", [[0.0, 5.0, 2e4], [0.0, np.nan, np.nan]])
def test_molecules_that_lose_their_energy_are_not_shown_but_named(
    energies: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "constant_energy", lambda *_: run([0.0, 0.0, 0.0], energies))
    (block,) = energy_blocks(CAMPAIGN)
    assert "1 of them did not keep their energy: it changed by more than all their heat, 13 meV per atom" in block
    assert "more labels are needed" in block
    assert "<img" not in block


def test_a_force_field_that_throws_molecules_apart_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def repelled(R: Tensor) -> tuple[Tensor, Tensor]:
        return R.new_full((len(R),), torch.nan), torch.full_like(R, torch.nan)

    found = constant_energy(CAMPAIGN, repelled, START)
    assert len(found.lost) == 3
    assert found.whole == 0


@pytest.mark.parametrize(("told", "used"), [(None, TEMPERATURE), (300.0, 300.0)])
def test_velocities_are_those_of_the_campaigns_temperature(told: float | None, used: float) -> None:
    found = constant_energy(replace(CAMPAIGN, temperature=told), morse_potential, START)
    assert found.temperature == used


def test_a_campaign_has_the_same_run_every_time() -> None:
    one, other = (constant_energy(CAMPAIGN, morse_potential, START) for _ in range(2))
    np.testing.assert_array_equal(one.energies, other.energies)


def test_every_molecule_has_a_line_around_zero() -> None:
    first, second, _ = energy_figure(run([1.0, 2.0, 6.0], [5.0, 5.0, 5.0])).axes[0].lines
    np.testing.assert_allclose(np.asarray(first.get_ydata()), np.array([-2.0, -1.0, 3.0]))
    np.testing.assert_allclose(np.asarray(second.get_ydata()), np.zeros(3))
