"""Configurations from molecular dynamics with a model that is known to be good in a region only.

Appendix, "A realistic MD simulation AL scenario": the pool that labels are chosen from is simulated with the cheap
model, and a trajectory starts again wherever it leaves what is known. Many walkers move at once, each on its own
trajectory: a force field predicts a hundred configurations in little more time than one.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.core.checks import real_number, whole_number
from lobal.molecules.dynamics.motion import (
    Bath,
    ForceFunction,
    Masses,
    Motion,
    begun,
    step,
    temperatures,
    thermal_velocities,
)
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.geometry.elements import masses_of

logger = logging.getLogger(__name__)

# fs after each start in which samples do not count: two vibrations of hydrogen, in which the velocities drawn reach its
# bonds. Where few labels are far from each other, walkers leave the region sooner; then it is less.
EQUILIBRATION = 20.0
# By the temperature of the bath: walkers hotter than that have fallen into a hole of the model. Of three atoms in
# equilibrium three samples in a million are as hot, of nine one in 10^18.
HOTTEST = 6.0
# Angstrom / fs: hydrogen of 50 eV. Faster atoms leave the range of floating-point numbers before they are looked at.
FASTEST = 1.0
# The smallest share of samples to go on with, looked at after so many samples of every walker that could count.
LEAST_KEPT = 0.02
FIRST_LOOK = 50

Report: TypeAlias = Callable[[int, int, int], None]


@final
@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """How a pool is simulated.

    Args:
        temperature: In K.
        configurations: How many configurations the pool is to have.
        walkers: How many trajectories at once. More are faster on a GPU; each should be longer than some 100 fs.
        interval: Time between two samples of a walker, in fs, rounded to whole time steps.
        time_step: In fs.
        friction: In 1 / fs.

    Raises:
        ValueError: a number is out of its bounds.
    """

    temperature: float = 500.0
    configurations: int = 20_000
    walkers: int = 100
    interval: float = 10.0
    time_step: float = 0.5
    friction: float = 0.01

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, above=0.0, most=1e5, hint="it is in K")
        whole_number("configurations", self.configurations, least=1)
        whole_number("walkers", self.walkers, least=1)
        _ = self.bath  # for its checks
        hint = "it is in fs, and at least one time step"
        real_number("interval", self.interval, least=self.time_step, most=1e6, hint=hint)

    @property
    def bath(self) -> Bath:
        """Temperature, time step and friction."""
        return Bath(temperature=self.temperature, time_step=self.time_step, friction=self.friction)

    @property
    def steps(self) -> int:
        """Time steps between two samples."""
        return round(self.interval / self.time_step)

    @property
    def uncounted(self) -> int:
        """Samples of a walker after a start that are not kept."""
        return math.floor(EQUILIBRATION / (self.steps * self.time_step))


class Simulated(NamedTuple):
    """Configurations of a simulation, in the order in which they were reached."""

    R: Positions  # Angstrom
    energies: Float[Tensor, " n"]  # of the model, eV
    walker: Int[Tensor, " n"]  # which was there
    left: Positions  # whole and not too hot, where walkers were seen to have left the region
    resets: int  # how often a walker started again
    checks: int  # how many configurations were looked at, those kept and those not


@final
@dataclass(frozen=True, kw_only=True)
class _Setting:
    """What does not change during a simulation."""

    forces: ForceFunction
    starts: Positions
    masses: Masses
    region: KnownRegion
    bonds: Bonds
    options: SimulationOptions
    generator: torch.Generator

    def launched(self, number: int) -> Motion:
        """Walkers at some of the starts, with thermal velocities."""
        drawn = torch.randint(len(self.starts), (number,), generator=self.generator, device=self.generator.device)
        R = self.starts[drawn.to(self.starts.device)]
        V = thermal_velocities(self.masses, self.options.temperature, number, generator=self.generator, R=R)
        return begun(R, V, self.forces)

    def relaunched(self, motion: Motion, rows: Int[Tensor, " k"]) -> Motion:
        """The walkers, some of them started again."""
        return motion if len(rows) == 0 else motion.with_rows(rows, self.launched(len(rows)))

    def advanced(self, motion: Motion) -> tuple[Motion, Bool[Tensor, " w"]]:
        """The walkers one interval later, and which of them have moved soundly all the while; others started again."""
        sound = torch.ones_like(motion.energies, dtype=torch.bool)
        for _ in range(self.options.steps):
            motion = step(motion, self.forces, self.masses, self.options.bath, generator=self.generator)
            now = moves_soundly(motion)
            motion = self.relaunched(motion, (~now).nonzero()[:, 0])
            sound &= now
        return motion, sound

    def likely(self, motion: Motion) -> Bool[Tensor, " w"]:
        """Whether walkers are whole and not too hot."""
        cool = temperatures(motion.V, self.masses) <= HOTTEST * self.options.temperature
        return cool & self.bonds.are_whole(motion.R)


def moves_soundly(motion: Motion) -> Bool[Tensor, " w"]:
    """Whether everything about a walker is finite, and no atom faster than `FASTEST` along any axis."""
    slow = motion.V.abs().flatten(1).amax(1) < FASTEST  # false for NaN, which forces hand on to velocities
    return slow & motion.energies.isfinite()


def simulate_pool(
    forces: ForceFunction,
    starts: Positions,
    species: Int[Tensor, " N"],
    region: KnownRegion,
    bonds: Bonds,
    options: SimulationOptions,
    *,
    generator: torch.Generator,
    report: Report | None = None,
) -> Simulated:
    """Configurations that walkers reach in the region, by Langevin dynamics.

    Every walker starts at one of the `starts`, chosen at random, with thermal velocities. Every `options.interval` all
    walkers are looked at. A walker starts again, and the configuration is not kept, where it has left the region, a
    bond is broken or formed, the temperature is above `HOTTEST` times that of the bath, or numbers are not finite (or
    an atom faster than `FASTEST`) at any step. The first `EQUILIBRATION` fs after a start are not kept either, unless
    walkers leave the region so soon that hardly anything would be.

    Args:
        forces: Energies and forces of the model.
        starts: Configurations to start from, mostly those with labels; ones outside the region are not used.
        species: Atomic numbers.
        region: Where the model is known.
        bonds: The molecule's bonds.
        options: Temperature, time step and numbers.
        generator: Of everything random; with the same, results are the same.
        report: Called with the numbers of configurations kept and wanted and of resets, after every interval.

    Raises:
        ValueError: there is no start within the region, or almost no configuration can be kept.
    """
    usable = starts[bonds.are_whole(starts) & region.contains(starts)]
    if len(usable) == 0:
        raise ValueError(
            f"none of the {len(starts)} configurations to start from is within the known region and has all bonds "
            "whole; start from configurations with labels, and take the bonds of one near the equilibrium"
        )
    masses = masses_of(species).to(starts)
    setting = _Setting(
        forces=forces,
        starts=usable,
        masses=masses,
        region=region,
        bonds=bonds,
        options=options,
        generator=generator,
    )
    return _simulated(setting, report or _ignored)


def _simulated(setting: _Setting, report: Report) -> Simulated:
    options = setting.options
    motion = setting.launched(options.walkers)
    since = torch.zeros(options.walkers, dtype=torch.long, device=motion.R.device)  # samples since the start
    R, energies, walker, left = [motion.R[:0]], [motion.energies[:0]], [since[:0]], [motion.R[:0]]
    kept = resets = checks = 0
    progress = _Progress(options)
    while kept < options.configurations:
        motion, sound = setting.advanced(motion)
        likely = sound & setting.likely(motion)
        good = likely & setting.region.contains(motion.R)
        left.append(motion.R[likely & ~good])
        since = torch.where(good, since + 1, 0)
        rows = (since > progress.uncounted).nonzero()[: options.configurations - kept, 0]
        R.append(motion.R[rows])
        energies.append(motion.energies[rows])
        walker.append(rows)
        motion = setting.relaunched(motion, (~good).nonzero()[:, 0])
        kept, checks, resets = kept + len(rows), checks + len(good), resets + int((~good).sum())
        report(kept, options.configurations, resets)
        progress.look(kept, checks, resets)
    return Simulated(torch.cat(R), torch.cat(energies), torch.cat(walker), torch.cat(left), resets, checks)


def _ignored(kept: int, wanted: int, resets: int) -> None:
    """No report."""


@final
class _Progress:
    """How many samples after a start do not count: fewer where hardly any walker stays for so long."""

    def __init__(self, options: SimulationOptions) -> None:
        self._options = options
        self.uncounted = options.uncounted
        self._kept = self._checks = 0  # when that number was chosen

    def look(self, kept: int, checks: int, resets: int) -> None:
        """Count sooner where almost nothing can be kept.

        Raises:
            ValueError: it would go on for too long however soon; that bounds the number of samples.
        """
        options, looked, since = self._options, checks - self._checks, kept - self._kept
        is_time = looked >= (FIRST_LOOK + self.uncounted) * options.walkers
        if not is_time or since >= min(LEAST_KEPT * looked, options.configurations - self._kept):
            return
        if self.uncounted == 0:
            raise ValueError(
                f"walkers leave the known region at once: of {checks} configurations looked at, every "
                f"{options.interval:g} fs, {kept} could be kept, expected at least {LEAST_KEPT:.0%}, and walkers "
                f"started again {resets} times. Lower the temperature or the time step, or label more configurations "
                "first, farther apart in time"
            )
        self.uncounted, self._kept, self._checks = self.uncounted // 2, kept, checks
        logger.info("walkers leave the known region soon: samples count after %d others", self.uncounted)
