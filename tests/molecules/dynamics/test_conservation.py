import math

import pytest
import torch
from torch import Tensor

from lobal.molecules.dynamics.conservation import conserved_energy, drift
from lobal.molecules.dynamics.motion import kinetic_energies, thermal_velocities
from tests.molecules.setting import morse_potential, water

MASSES = torch.tensor([15.999, 1.008, 1.008], dtype=torch.float64)


def start(walkers: int = 4) -> tuple[Tensor, Tensor]:
    """Positions, and velocities at 300 K."""
    R = water(1).R.repeat(walkers, 1, 1)
    return R, thermal_velocities(MASSES, 300.0, walkers, generator=torch.Generator().manual_seed(0), R=R)


def test_the_first_energy_is_that_of_the_start_and_times_are_even() -> None:
    R, V = start()
    times, energies = conserved_energy(morse_potential, R, V, MASSES, picoseconds=0.05, time_step=0.25, every=20)
    assert times.tolist() == [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0]
    assert energies.shape == (11, 4)
    torch.testing.assert_close(energies[0], morse_potential(R)[0] + kinetic_energies(V, MASSES))


def test_energies_are_taken_at_their_times() -> None:
    all_times, every_step = conserved_energy(morse_potential, *start(), MASSES, picoseconds=0.05, every=1)
    times, energies = conserved_energy(morse_potential, *start(), MASSES, picoseconds=0.05, every=7)
    assert torch.equal(times, all_times[::7])
    assert torch.equal(energies, every_step[::7])


def test_the_energy_of_conservative_forces_is_conserved_with_the_square_of_the_time_step() -> None:
    spreads = [
        conserved_energy(morse_potential, *start(), MASSES, picoseconds=0.2, time_step=dt, every=1)[1].std(0)
        for dt in (0.5, 0.25)
    ]
    assert spreads[0].max() < 0.02  # eV, of about 0.1
    torch.testing.assert_close(spreads[0] / spreads[1], torch.full((4,), 4.0, dtype=torch.float64), rtol=0.2, atol=0.0)


def test_oscillations_of_the_energy_are_no_drift_and_forces_that_do_work_in_circles_are() -> None:
    def swirling(R: Tensor) -> tuple[Tensor, Tensor]:
        energies, forces = morse_potential(R)
        around = torch.linalg.cross(R - R.mean(1, keepdim=True), torch.tensor([0.0, 0.0, 1.0]).to(R).expand_as(R))
        return energies, forces + 0.05 * around

    of = [
        drift(*conserved_energy(forces, *start(), MASSES, picoseconds=0.5), len(MASSES))
        for forces in (morse_potential, swirling)
    ]
    assert of[0].abs().max() < 1.0  # meV per atom
    assert of[1].abs().min() > 10.0


def test_the_drift_is_the_rise_of_a_straight_line() -> None:
    times = torch.arange(0.0, 1001.0, 5.0, dtype=torch.float64)
    slopes = torch.tensor([0.0, 6e-6, -3e-6], dtype=torch.float64)  # eV / fs
    energies = -2000.0 + slopes * times[:, None]
    expected = torch.tensor([0.0, 2.0, -1.0], dtype=torch.float64)  # meV per atom in one picosecond, of three atoms
    torch.testing.assert_close(drift(times, energies, 3), expected, rtol=0.0, atol=1e-9)


def test_vibrations_hardly_change_the_drift() -> None:
    times = torch.arange(0.0, 1001.0, 5.0, dtype=torch.float64)
    energies = 6e-6 * times[:, None] + 0.01 * torch.sin(2.0 * math.pi * times[:, None] / 13.0)
    assert drift(times, energies, 3).item() == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize(("picoseconds", "every"), [(0.004, 10), (0.1, 0), (0.0, 1)])
def test_runs_without_two_energies_are_refused(picoseconds: float, every: int) -> None:
    with pytest.raises(ValueError, match=rf"a run of {picoseconds:g} ps has \d+ steps of 0\.5 fs, .* every {every};"):
        conserved_energy(morse_potential, *start(), MASSES, picoseconds=picoseconds, every=every)
