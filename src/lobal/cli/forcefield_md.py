"""The body of `lobal forcefield md`: trajectories of a saved force field, frame by frame into a file."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, final

import torch
from jaxtyping import Int
from rich.console import Console
from torch import Tensor

from lobal.cli.checks import make_places, refuse_existing, refuse_to_overwrite
from lobal.cli.forcefield import print_lines
from lobal.core.arrays import resolve_device
from lobal.core.checks import real_number, whole_number
from lobal.molecules.dynamics.motion import Bath, Masses, Motion, temperatures, thermal_velocities
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.dynamics.trajectories import Ending, Frame, Limits, trajectories
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.prepared import PreparedForceField
from lobal.molecules.geometry.elements import masses_of
from lobal.molecules.geometry.extended_xyz import frame_text
from lobal.molecules.geometry.trajectory import Trajectory, check_species, read_trajectory

SUFFIXES = (".xyz", ".extxyz")
SHOWN_EVERY = 0.2  # seconds between two status messages
NANOSECONDS_PER_DAY = 86_400.0 * 1e-6  # by fs / s


@final
@dataclass(frozen=True, kw_only=True)
class MotionRequest:
    """The arguments of `lobal forcefield md`."""

    model: Path
    molecule: Path
    output: Path
    steps: int
    every: int
    walkers: int
    temperature: float
    time_step: float
    friction: float
    seed: int
    device: str | None
    force: bool

    def __post_init__(self) -> None:
        for name in ("steps", "every", "walkers"):
            whole_number(name, getattr(self, name), least=1)
        real_number("temperature", self.temperature, above=0.0, most=1e5, hint="it is in K")
        if self.output.suffix.lower() not in SUFFIXES:
            raise ValueError(f"--output must be a file that ends in {' or '.join(SUFFIXES)}, got {self.output}")

    @property
    def bath(self) -> Bath:
        """Temperature, time step and friction."""
        return Bath(temperature=self.temperature, time_step=self.time_step, friction=self.friction)


def move(request: MotionRequest, *, quiet: bool) -> bool:
    """Whether all walkers made all their steps; otherwise it is printed which did not, and why."""
    resolve_device(request.device)
    bath = request.bath
    refuse_to_overwrite({"--output": request.output}, [request.model, request.molecule])
    refuse_existing({"--output": request.output}, force=request.force)
    make_places({"--output": request.output})
    printed: Callable[..., None] = (lambda *_: None) if quiet else print_lines
    field = ForceField.load(request.model, request.device)
    molecule = read_trajectory(request.molecule, labelled=False)
    check_species(field.species.cpu(), molecule.species, str(request.molecule))
    region = _known_region(field)
    printed(*_about(request, field, molecule, region))
    R = molecule.R[:1].to(field.weights).repeat(request.walkers, 1, 1)
    masses, generator = masses_of(field.species).to(R), torch.Generator().manual_seed(request.seed)
    with _Progress(request, masses, quiet=quiet) as progress, _TrajectoryFile(request, field.species, masses) as file:
        frames = trajectories(
            R,
            thermal_velocities(masses, bath.temperature, len(R), generator=generator, R=R),
            PreparedForceField.of(field),
            masses,
            bath,
            Limits.around(R[0], field.species, bath, region),
            steps=request.steps,
            every=request.every,
            generator=generator,
            report=progress.report,
        )
        try:
            for frame in frames:
                file.write(frame)
        except KeyboardInterrupt:
            print(f"stopped after {progress.step} of {request.steps} steps: {file}", file=sys.stderr)
            raise
    printed(progress.summary(len(file.endings)), str(file))
    for ending in file.endings:
        print(f"walker {ending.walker} ended at {ending.step * bath.time_step:g} fs: {ending.reason}", file=sys.stderr)
    return not file.endings


def _known_region(field: ForceField) -> KnownRegion | None:
    """The region around the configurations that the force field has; none of fewer than two that differ."""
    try:
        return KnownRegion.of(field.positions, field.kernel.permutations)
    except ValueError:
        return None


def _about(request: MotionRequest, field: ForceField, molecule: Trajectory, region: KnownRegion | None) -> list[str]:
    """Where trajectories start, and what bounds them, if it is not what one would think."""
    lines, n, learned = [], len(field.positions), field.about["configurations"]
    if len(molecule) > 1:
        lines.append(f"starting from the first of {len(molecule)} configurations in {request.molecule}")
    if region is None:
        lines.append(f"only bonds and temperature bound trajectories: the force field has {n} configuration of its own")
    elif n < learned:
        lines.append(f"the known region is that around {n} of the {learned} configurations learned from")
    return lines


@final
class _TrajectoryFile:
    """Frames, each in the file as soon as it is there; the file is opened for the first of them."""

    def __init__(self, request: MotionRequest, species: Int[Tensor, " N"], masses: Masses) -> None:
        self._path, self._time_step, self._species, self._masses = request.output, request.time_step, species, masses
        self._file: TextIO | None = None
        self._frames = 0
        self.endings: list[Ending] = []

    def __enter__(self) -> "_TrajectoryFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __str__(self) -> str:
        return f"{self._frames} frames in {self._path}"

    def write(self, frame: Frame) -> None:
        """One configuration for every walker."""
        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8")
        self._file.write("".join(self._texts(frame)))
        self._file.flush()
        self._frames += len(frame.walkers)
        self.endings += frame.endings

    def _texts(self, frame: Frame) -> Iterator[str]:
        hot = temperatures(frame.motion.V, self._masses).tolist()
        R, energies, forces = (part.cpu() for part in (frame.motion.R, frame.motion.energies, frame.motion.forces))
        for row, walker in enumerate(frame.walkers):
            about = {"time": frame.step * self._time_step, "walker": walker, "temperature": round(hot[row], 1)}
            yield frame_text(self._species, R[row], float(energies[row]), forces[row], about)


@final
class _Progress:
    """How far trajectories are, and how fast: on the error stream while they go on, in one line in the end."""

    def __init__(self, request: MotionRequest, masses: Masses, *, quiet: bool) -> None:
        self._request, self._masses = request, masses
        self._status = Console(stderr=True, quiet=quiet).status("")
        self._begun, self._shown = time.monotonic(), 0.0
        self._sum, self._looks = 0.0, 0  # of temperatures, at how many looks
        self.step = 0

    def __enter__(self) -> "_Progress":
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def report(self, step: int, motion: Motion) -> None:
        """Show it now and then."""
        self.step, now = step, time.monotonic()
        hot = temperatures(motion.V, self._masses)
        self._sum, self._looks = self._sum + float(hot.sum()), self._looks + len(hot)
        if now > self._shown + SHOWN_EVERY:
            self._shown = now
            self._status.update(f"step {step} of {self._request.steps}, {self._speed}")

    def summary(self, ended: int) -> str:
        """Steps, speed and mean temperature; some walkers ended before the last step, or at it."""
        picoseconds = 1e-3 * self.step * self._request.time_step
        by = "the longest" if ended else "each"
        each = f" by {by} of {self._request.walkers} walkers" if self._request.walkers > 1 else ""
        kelvin = f", {self._sum / self._looks:.0f} K on average" if self._looks > 0 else ""
        return f"{self.step} steps ({picoseconds:g} ps){each}, {self._speed}{kelvin}"

    @property
    def _speed(self) -> str:
        per_second = self.step / max(time.monotonic() - self._begun, 1e-9)
        nanoseconds = NANOSECONDS_PER_DAY * per_second * self._request.time_step
        return f"{per_second:.0f} steps/s, {nanoseconds:.3g} ns/day"
