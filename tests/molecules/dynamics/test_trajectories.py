"""Trajectories that end where they leave what is known."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules.dynamics.motion import Bath, Motion, thermal_velocities
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.dynamics.trajectories import Ending, Frame, Limits, trajectories
from lobal.molecules.geometry.elements import masses_of
from lobal.molecules.geometry.permutations import identity
from tests.molecules.setting import morse_potential

SPECIES = torch.tensor([8, 1, 1])
MASSES = masses_of(SPECIES)
REST = torch.tensor([[0.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.8, 0.6, 0.0]], dtype=torch.float64)
BATH = Bath(temperature=300.0, time_step=0.5)


def run(
    forces: Callable[[Tensor], Any] = morse_potential,
    *,
    heat: float = 1.0,
    walkers: int = 3,
    bath: Bath = BATH,
    region: KnownRegion | None = None,
    **options: Any,
) -> list[Frame]:
    generator, R = torch.Generator().manual_seed(0), REST.repeat(walkers, 1, 1)
    V = thermal_velocities(MASSES, heat * bath.temperature, walkers, generator=generator, R=R)
    limits = Limits.around(REST, SPECIES, bath, region)
    steps: dict[str, Any] = {"steps": 95, "every": 20} | options
    return list(trajectories(R, V, forces, MASSES, bath, limits, generator=generator, **steps))


def endings(frames: list[Frame]) -> list[Ending]:
    return [ending for frame in frames for ending in frame.endings]


def test_frames_are_as_far_apart_as_asked_for_and_the_last_step_is_one() -> None:
    seen: list[int] = []
    frames = run(report=lambda step, _: seen.append(step))
    assert [frame.step for frame in frames] == [0, 20, 40, 60, 80, 95]
    assert all(frame.walkers == [0, 1, 2] and not frame.endings for frame in frames)
    assert seen == [*range(10, 100, 10), 95]
    energies, forces = morse_potential(frames[3].motion.R)
    assert torch.equal(frames[3].motion.energies, energies)
    assert torch.equal(frames[3].motion.forces, forces)


def test_the_same_seed_has_the_same_trajectory_however_often_it_is_looked_at() -> None:
    assert torch.equal(run()[-1].motion.R, run(every=1)[-1].motion.R)


def test_a_walker_ends_where_a_bond_breaks_and_its_last_frame_is_there() -> None:
    def torn(R: Tensor) -> tuple[Tensor, Tensor]:
        """One hydrogen of the second walker is pulled away."""
        energies, forces = morse_potential(R)
        if len(R) == 3:
            forces[1, 2] = torch.tensor([-20.0, 0.0, 0.0])
        return energies, forces

    frames = run(torn)
    (ending,) = endings(frames)
    assert ending.walker == 1
    assert ending.reason.startswith("the bond of O0 and H2 broke")
    (last,) = (frame for frame in frames if frame.endings)
    assert (last.step, last.walkers) == (ending.step, [1])
    assert last.motion.R.isfinite().all()
    assert frames[-1].walkers == [0, 2]
    assert frames[-1].step == 95


def test_atoms_that_come_too_close_are_named() -> None:
    bent = torch.tensor([[0.0, 0.0, 0.0], [0.2, 0.98, 0.0], [-0.2, 0.98, 0.0]], dtype=torch.float64)
    R = torch.stack([REST, bent])
    motion = Motion(R, torch.zeros_like(R), *morse_potential(R))
    reasons = Limits.around(REST, SPECIES, BATH, None).exceeded(motion, MASSES)
    assert reasons == {1: "H1 and H2 came as close as 0.40 Angstrom, nearer than the molecule has them"}


def test_a_walker_ends_where_it_is_far_hotter_than_the_bath() -> None:
    frames = run(heat=30.0, bath=Bath(temperature=20.0))
    assert {ending.walker for ending in endings(frames)} == {0, 1, 2}
    assert all("6 times as hot as the bath" in ending.reason for ending in endings(frames))


def test_a_walker_ends_where_the_labels_are_far() -> None:
    near = REST + 0.005 * torch.randn(30, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    frames = run(region=KnownRegion.of(near, identity(3)))
    assert {ending.walker for ending in endings(frames)} == {0, 1, 2}
    assert all(
        "outside of what the force field knows: the nearest label is " in ending.reason for ending in endings(frames)
    )


@pytest.mark.parametrize("every", [1, 20])
def test_of_a_walker_that_is_lost_the_last_frame_is_one_with_numbers(every: int) -> None:
    calls = []

    def lost(R: Tensor) -> tuple[Tensor, Tensor]:
        calls.append(len(R))
        energies, forces = morse_potential(R)
        return energies, forces * torch.nan if len(calls) > 36 else forces

    frames = run(lost, every=every)
    assert all("no longer finite" in ending.reason for ending in endings(frames))
    assert len(endings(frames)) == 3
    frames = [frame for frame in frames if frame.walkers]
    assert all(frame.motion.R.isfinite().all() for frame in frames)
    assert [frame.step for frame in frames] == (list(range(36)) if every == 1 else [0, 20, 30])


def test_a_start_outside_of_what_is_known_is_refused() -> None:
    far = 1.1 * REST + 0.005 * torch.randn(30, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match="walker 0 cannot start there: it is outside of what the force field knows"):
        run(region=KnownRegion.of(far, identity(3)))
