"""The first labels: frames of short trajectories under the true forces (Appendix "A realistic MD simulation").

A few walkers begin at the given configuration, with velocities of twice the temperature, half of which becomes
potential energy, and are coupled to a bath. Every step is a call of the oracle for each walker. All is on disk when it
is there (`start_record`), so that a start that was interrupted goes on where it stopped, with the same frames. Where a
call fails, its walker begins again; where the oracle does not work at all, the start ends, and goes on once it does.

Where calls are expensive, the walkers may follow the forces of another program; then frames alone are calls of the
oracle.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.active.candidates import seed_of
from lobal.core.checks import real_number, whole_number
from lobal.molecules.dynamics.motion import Bath, Motion, step, thermal_velocities
from lobal.molecules.dynamics.start_record import Row, StartRecord
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.geometry.elements import masses_of
from lobal.molecules.geometry.trajectory import Trajectory

logger = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[int, int], None]  # steps done, and all there will be

START = 2  # what a seed is for; fits and draws have other numbers
HOT = 2.0  # of the first velocities, by the temperature: half of it becomes potential energy
FEWEST = 10  # first frames with labels, to learn from and for validation
# The start is given up where walkers have failed more often than that, and in a larger share of all their steps: a
# walker then makes fifty steps or fewer between failures, which is no trajectory.
MOST_FAILURES = 20
MOST_FAILING = 0.02


@final
@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """How the first frames are simulated.

    Args:
        first: frames that the first force field learns from.
        validation: further frames, of other walkers, for errors only.
        temperature: in K.
        walkers: trajectories beside each other, at least two: some to learn from, the others for validation.
        settle: steps of each before its first frame.
        every: steps from one frame to the next.
        time_step: in fs.
        friction: of the bath, in 1 / fs.
        seed: of everything random.
    """

    first: int = 50
    validation: int = 50
    temperature: float = 500.0
    walkers: int = 4
    settle: int = 200
    every: int = 20
    time_step: float = 1.0
    friction: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("first", self.first, least=FEWEST)
        whole_number("validation", self.validation, least=FEWEST)
        whole_number("walkers", self.walkers, least=2)
        for name in ("settle", "every"):
            whole_number(name, getattr(self, name), least=1)
        whole_number("seed", self.seed, least=0)
        for name in ("temperature", "time_step", "friction"):
            real_number(name, getattr(self, name), above=0.0, hint="see StartSettings")
        _ = self.bath  # for its checks

    @property
    def bath(self) -> Bath:
        """Temperature, time step and friction."""
        return Bath(temperature=self.temperature, time_step=self.time_step, friction=self.friction)

    @property
    def learning_walkers(self) -> int:
        """How many walkers have frames to learn from; those of the others are for validation."""
        share = round(self.walkers * self.first / (self.first + self.validation))
        return min(max(1, share), self.walkers - 1)

    @property
    def frames(self) -> int:
        """Of every walker."""
        learning = self.learning_walkers
        return max(-(-self.first // learning), -(-self.validation // (self.walkers - learning)))

    @property
    def steps(self) -> int:
        """Of every walker."""
        return self.settle + self.every * (self.frames - 1)


class Start(NamedTuple):
    """The first labels, each part in the order of time."""

    first: Trajectory
    validation: Trajectory
    calls: int  # for the forces that the walkers follow
    resets: int  # of walkers that failed or broke a bond


def first_frames(
    R: Float[Tensor, "N 3"],
    species: Int[Tensor, " N"],
    workers: Workers,
    settings: StartSettings,
    *,
    path: Path,
    about: Mapping[str, Any],
    sampler: Workers | None = None,
    report: Progress | None = None,
) -> Start:
    """Frames of short trajectories from one configuration, with their energies and forces.

    Args:
        R: the configuration, in Angstrom.
        species: its atomic numbers.
        workers: label configurations.
        settings: how they are simulated.
        path: file that every step is written to; a start that is there is continued.
        about: what the start depends on besides; another start is refused.
        sampler: have the forces that the walkers follow, if not those of `workers`. Of a frame that has no label then,
            nothing is kept.
        report: called after every step.

    Raises:
        ValueError: the file is of another start, or damaged.
        RuntimeError: the oracle does not work, or walkers fail again and again.
    """
    masses_of(species)  # for its checks, before anything is written
    record = StartRecord(path, {**about, "R": R.tolist(), "species": species.tolist()}, walkers=settings.walkers)
    try:
        simulation = _Simulation(R, species, sampler or workers, settings, record)
        while record.steps <= settings.steps:
            simulation.advance()
            if report is not None:
                report(record.steps, settings.steps + 1)
        frames = _Frames.of(record, settings)
        if sampler is not None:
            frames = frames.labelled(record, workers)
        return frames.start(record, species, settings)
    finally:
        record.close()


class _Simulation:
    """The walkers, step by step."""

    def __init__(
        self,
        R: Float[Tensor, "N 3"],
        species: Int[Tensor, " N"],
        workers: Workers,
        settings: StartSettings,
        record: StartRecord,
    ) -> None:
        self._workers, self._settings, self._record, self._R = workers, settings, record, R
        self._masses, self._bonds = masses_of(species), Bonds.of(R, species)

    def advance(self) -> None:
        """Take the next step, and write it down."""
        number = self._record.steps
        generator = torch.Generator().manual_seed(seed_of(self._settings.seed, number, START))
        failed: list[int] = []
        if number == 0:
            motion = self._begun(*self._forces(self._R[None]), generator)
        else:
            last = self._record.motion(number - 1)
            moved = step(last, self._forces, self._masses, self._settings.bath, generator=generator)
            motion, failed = self._mended(moved, generator)
        self._record.keep_step(motion, failed)

    def _forces(self, R: Positions) -> tuple[Tensor, Tensor]:
        """Energies and forces for the step that is to follow; NaN of walkers whose calls failed.

        Those that are on disk, since a step was interrupted, are not computed again.
        """
        missing = [walker for walker in range(len(R)) if walker not in self._record.calls]
        failed: list[int] = []

        def keep(row: int, label: Row) -> None:
            if label is None:
                failed.append(missing[row])
            else:
                self._record.keep_call(missing[row], label)

        if missing:
            self._workers.label(R[missing], record=keep)
        if failed:
            self._check_oracle(failed)
        for walker in failed:
            self._record.keep_call(walker, None)
        none = [math.nan] * (1 + R[0].numel())
        rows = torch.tensor([self._record.calls[walker] or none for walker in range(len(R))], dtype=torch.float64)
        return rows[:, 0], rows[:, 1:].view_as(R)

    def _check_oracle(self, failed: list[int]) -> None:
        """Raise a RuntimeError if the oracle fails at the first configuration as well as where these walkers are."""
        if self._record.steps == 0:
            raise RuntimeError(
                "the oracle has no energy and forces of the first configuration; see the message above: mend the "
                "oracle and run again, or begin in another folder with a configuration nearer to equilibrium"
            )
        if torch.isnan(self._workers.label(self._R[None])).any():
            raise RuntimeError(
                f"the oracle fails for walkers {failed}, and at the first configuration, where it worked; see the "
                "message above: mend it and run again, to go on from here"
            )

    def _begun(self, energies: Tensor, forces: Tensor, generator: torch.Generator) -> Motion:
        """All walkers at the first configuration, which has this energy and these forces."""
        w, T = self._settings.walkers, HOT * self._settings.temperature
        R = self._R.repeat(w, 1, 1)
        V = thermal_velocities(self._masses, T, w, generator=generator, R=R)
        return Motion(R, V, energies.repeat(w), forces.repeat(w, 1, 1))

    def _mended(self, moved: Motion, generator: torch.Generator) -> tuple[Motion, list[int]]:
        """Walkers that failed or broke a bond go back to the first configuration, with new velocities."""
        is_good = torch.isfinite(moved.energies) & torch.isfinite(moved.forces).all((1, 2))
        is_good &= torch.isfinite(moved.R).all((1, 2)) & self._bonds.are_whole(moved.R.nan_to_num(0.0))
        failed = (~is_good).nonzero()[:, 0].tolist()
        if not failed:
            return moved, failed
        logger.warning("walkers %s failed at step %d and begin again", failed, self._record.steps)
        failures, moves = self._record.failures + len(failed), self._settings.walkers * self._record.steps
        if failures > max(MOST_FAILURES, MOST_FAILING * moves):
            raise RuntimeError(
                f"walkers failed {failures} times in {moves} steps: energies are missing, or bonds break; lower the "
                "temperature, or give a configuration nearer to equilibrium, and use another folder"
            )
        at_first = self._record.motion(0)
        fresh = self._begun(at_first.energies[:1], at_first.forces[:1], generator)
        parts = [
            torch.where(is_good.view(-1, *[1] * (old.ndim - 1)), old, new)
            for old, new in zip(moved, fresh, strict=True)
        ]
        return Motion(*parts), failed


class _Frames(NamedTuple):
    """Frames of walkers, those of one after those of another: the ones to learn from, and the ones for validation."""

    R: Positions
    energies: Float[Tensor, " f"]
    forces: Float[Tensor, "f N 3"]
    n_learning: int

    @classmethod
    def of(cls, record: StartRecord, settings: StartSettings) -> "_Frames":
        """The frames of a finished record."""
        motions = [record.motion(number) for number in range(settings.settle, settings.steps + 1, settings.every)]
        learning = settings.learning_walkers
        parts = []
        for walkers, n in ((slice(learning), settings.first), (slice(learning, None), settings.validation)):
            each = [(motion.R[walkers], motion.energies[walkers], motion.forces[walkers]) for motion in motions]
            parts.append([torch.cat(column)[:n] for column in zip(*each, strict=True)])
        R, energies, forces = (torch.cat(pair) for pair in zip(*parts, strict=True))
        return cls(R, energies, forces, settings.first)

    def labelled(self, record: StartRecord, workers: Workers) -> "_Frames":
        """The frames that the oracle labels, each on disk when it is there.

        Those that have failed are labelled again if there are too few without them.
        """
        is_enough = self._n_labelled(record)[0] >= FEWEST
        known = {frame for frame, row in record.labels.items() if is_enough or row is not None}
        missing = [frame for frame in range(len(self.R)) if frame not in known]

        def keep(row: int, label: Row) -> None:
            record.keep_label(missing[row], label)

        if missing:
            workers.label(self.R[missing], record=keep)
        fewest, n_learning = self._n_labelled(record)
        if fewest < FEWEST:
            raise RuntimeError(
                f"{fewest} of the first frames to learn from, or of those for validation, have labels, expected "
                f"{FEWEST} at least; mend the oracle and run again: the others are then labelled again"
            )
        rows = {frame: row for frame, row in sorted(record.labels.items()) if row is not None}
        kept, labels = list(rows), torch.tensor(list(rows.values()), dtype=torch.float64)
        return _Frames(self.R[kept], labels[:, 0], labels[:, 1:].view(len(kept), -1, 3), n_learning)

    def _n_labelled(self, record: StartRecord) -> tuple[int, int]:
        """How many frames have labels: of the kind with fewer, and of those to learn from."""
        frames = [frame for frame, row in record.labels.items() if row is not None]
        n_learning = sum(frame < self.n_learning for frame in frames)
        return min(n_learning, len(frames) - n_learning), n_learning

    def start(self, record: StartRecord, species: Int[Tensor, " N"], settings: StartSettings) -> Start:
        """The two parts as trajectories."""

        def part(rows: slice) -> Trajectory:
            kept: dict[str, Any] = {"R": self.R[rows], "energies": self.energies[rows], "forces": self.forces[rows]}
            return Trajectory(source="the first trajectories", units="eV and Ang", species=species, **kept)

        learning, apart = part(slice(self.n_learning)), part(slice(self.n_learning, None))
        return Start(learning, apart, settings.walkers * settings.steps + 1, record.failures)
