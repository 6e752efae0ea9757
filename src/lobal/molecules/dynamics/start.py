"""The first labels: frames of short trajectories under the true forces (Appendix "A realistic MD simulation").

A few walkers begin at the given configuration, with velocities of twice the temperature, half of which becomes
potential energy, and are coupled to a bath. Every step is a call of the oracle for each walker and is on disk when it is
done, so that a start that was interrupted goes on where it stopped, with the same frames.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.active.campaign.journal import Journal, journal_content
from lobal.active.candidates import seed_of
from lobal.core.checks import real_number, whole_number
from lobal.core.files import make_folder, write_atomically
from lobal.core.schema import FINITE, read_from, real, table, whole
from lobal.molecules.dynamics.motion import Bath, Motion, step, thermal_velocities
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.elements import masses_of
from lobal.molecules.geometry.trajectory import Trajectory

logger = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[int, int], None]  # steps done, and all there will be

START = 2  # what a seed is for; fits and draws have other numbers
HOT = 2.0  # of the first velocities, by the temperature: half of it becomes potential energy
MOST_FAILURES = 20  # of walkers, before the start is given up
BEGUN, STEP = "begun", "step"
_NUMBERS = ("R", "V", "F")


@final
@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """How the first frames are simulated.

    Args:
        first: frames that the first force field learns from.
        validation: further frames, of other walkers, for errors only.
        temperature: in K.
        walkers: trajectories beside each other, an even number.
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
        whole_number("first", self.first, least=10)
        whole_number("validation", self.validation, least=2)
        whole_number("walkers", self.walkers, least=2)
        for name in ("settle", "every"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("temperature", "time_step", "friction"):
            real_number(name, getattr(self, name), above=0.0, hint="see StartSettings")

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
    calls: int  # of the oracle
    resets: int  # of walkers that failed or broke a bond


def first_frames(
    R: Float[Tensor, "N 3"],
    species: Int[Tensor, " N"],
    workers: Workers,
    settings: StartSettings,
    *,
    path: Path,
    about: Mapping[str, Any],
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
        report: called after every step.

    Raises:
        ValueError: the file is of another start, or damaged.
        RuntimeError: the oracle fails at the first configuration, or again and again.
    """
    record = _Record.opened(path, {**about, "R": R.tolist(), "species": species.tolist()}, walkers=settings.walkers)
    try:
        simulation = _Simulation(R, species, workers, settings, record)
        while record.steps <= settings.steps:
            simulation.advance()
            if report is not None:
                report(record.steps, settings.steps + 1)
        return _start(record, species, settings)
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
        record: "_Record",
    ) -> None:
        self._workers, self._settings, self._record, self._R = workers, settings, record, R
        self._masses, self._bonds = masses_of(species), Bonds.of(R, species)
        self._bath = Bath(
            temperature=settings.temperature, time_step=settings.time_step, friction=settings.friction
        )
        self._last = record.last()

    def advance(self) -> None:
        """Take the next step, and write it down."""
        number = self._record.steps
        generator = torch.Generator().manual_seed(seed_of(self._settings.seed, number, START))
        if self._last is None:
            self._last = self._begun(generator)
            failed = []
        else:
            moved = step(self._last, self._forces, self._masses, self._bath, generator=generator)
            self._last, failed = self._mended(moved, generator)
        self._record.append(self._last, failed)

    def _forces(self, R: Tensor) -> tuple[Tensor, Tensor]:
        rows = self._workers.label(R)
        return rows[:, 0], rows[:, 1:].view_as(R)

    def _begun(self, generator: torch.Generator) -> Motion:
        w, T = self._settings.walkers, HOT * self._settings.temperature
        energies, forces = self._forces(self._R[None])
        if torch.isnan(energies).any():
            raise RuntimeError(
                "the oracle has no energy and forces of the first configuration; see the message above, mend the "
                "oracle or give a configuration nearer to equilibrium"
            )
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
        if self._record.failures + len(failed) > MOST_FAILURES:
            raise RuntimeError(
                f"walkers failed {self._record.failures + len(failed)} times: energies are missing, or bonds break; "
                "lower the temperature, or give a configuration nearer to equilibrium"
            )
        fresh = self._begun(generator)
        parts = [
            torch.where(is_good.view(-1, *[1] * (old.ndim - 1)), old, new)
            for old, new in zip(moved, fresh, strict=True)
        ]
        return Motion(*parts), failed


class _Record:
    """The steps on disk."""

    def __init__(self, journal: Journal, n_atoms: int, walkers: int) -> None:
        self._journal, self._shape = journal, (walkers, n_atoms, 3)

    @classmethod
    def opened(cls, path: Path, about: Mapping[str, Any], *, walkers: int) -> "_Record":
        first = {"event": BEGUN, **about}
        if not path.exists():
            make_folder(path.parent)
            write_atomically(path, journal_content([first]))
        record = cls(Journal(path, is_checked=True), len(about["species"]), walkers)
        try:
            with read_from(path, "the start of a campaign"):
                record._check(first)
        except BaseException:
            record.close()
            raise
        return record

    def _check(self, first: Mapping[str, Any]) -> None:
        events = self._journal.events
        there = {name: value for name, value in (events[0] if events else {}).items()}
        for name, value in first.items():
            if there.get(name) != value:
                raise ValueError(
                    f"it began with {name} {there.get(name)}, got {value}; use the same, or another folder"
                )
        for number, event in enumerate(events[1:]):
            table({"number": whole(number, number), "failures": whole()})(event, f"step {number}")
            for name in (*_NUMBERS, "E"):
                shape = self._shape if name != "E" else self._shape[:1]
                values = np.array(event[name])
                if values.shape != shape or values.dtype.kind not in "fi" or not np.isfinite(values).all():
                    raise ValueError(f"{name} of step {number} must be {shape} finite numbers, got shape {values.shape}")

    @property
    def steps(self) -> int:
        return len(self._journal.events) - 1

    @property
    def failures(self) -> int:
        return int(self._journal.events[-1].get("failures", 0))

    def last(self) -> Motion | None:
        return self.motion(self.steps - 1) if self.steps else None

    def motion(self, number: int) -> Motion:
        event = self._journal.events[1 + number]
        R, V, F, E = (torch.tensor(event[name], dtype=torch.float64) for name in (*_NUMBERS, "E"))
        return Motion(R, V, E, F)

    def append(self, motion: Motion, failed: list[int]) -> None:
        arrays = {"R": motion.R, "V": motion.V, "E": motion.energies, "F": motion.forces}
        listed = {name: part.tolist() for name, part in arrays.items()}
        failures = self.failures + len(failed)
        self._journal.append({"event": STEP, "number": self.steps, "failures": failures, **listed})

    def close(self) -> None:
        self._journal.close()


def _start(record: _Record, species: Int[Tensor, " N"], settings: StartSettings) -> Start:
    numbers = range(settings.settle, settings.steps + 1, settings.every)
    frames = [record.motion(number) for number in numbers]
    R, E, F = (torch.stack([getattr(frame, name) for frame in frames]) for name in ("R", "energies", "forces"))

    def part(walkers: slice, n: int) -> Trajectory:
        chosen = {"R": R, "energies": E, "forces": F}
        kept: dict[str, Any] = {name: each[:, walkers].flatten(0, 1)[:n] for name, each in chosen.items()}
        return Trajectory(source="the first trajectories", units="eV and Ang", species=species, **kept)

    learning = settings.learning_walkers
    calls = settings.walkers * settings.steps + 1
    return Start(
        part(slice(learning), settings.first), part(slice(learning, None), settings.validation), calls, record.failures
    )
