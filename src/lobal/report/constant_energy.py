"""Whether a force field conserves energy: a short run of a few walkers that no heat bath disturbs."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor

from lobal.molecules.dynamics.conservation import conserved_energy, drift
from lobal.molecules.dynamics.motion import BOLTZMANN, thermal_velocities
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.geometry.elements import masses_of
from lobal.report.blocks import figure_block, text_block
from lobal.report.figures import LINES
from lobal.report.grown_campaign import GrownCampaign

logger = logging.getLogger(__name__)

PICOSECONDS, TIME_STEP = 2.0, 0.5  # length of the run, and of its steps in fs
EVERY = 10  # steps between two energies
WALKERS = 4
TEMPERATURE = 500.0  # K, of campaigns that do not say theirs: the default of simulated pools
MOST_SECONDS = 20.0  # that the run may take
TIMED = 5  # predictions that are timed for it
MORE = "The force field is not yet good enough for simulations that nobody watches: more labels are needed."


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantEnergy:
    """Total energies of walkers along a run, and what kind of run it was."""

    times: Float[ndarray, " t"]  # ps
    energies: Float[ndarray, "t w"]  # meV per atom, less the mean of each
    drifts: Float[ndarray, " w"]  # meV per atom over the run
    temperature: float  # K, of the first velocities
    whole: int  # walkers that end with the bonds of the molecule

    @property
    def heat(self) -> float:
        """Mean kinetic energy of the first velocities, in meV per atom."""
        return 1.5e3 * BOLTZMANN * self.temperature

    @property
    def lost(self) -> Float[ndarray, " l"]:
        """When walkers gained or lost more energy than that, in ps: they fell into holes of the force field."""
        is_far = np.abs(self.energies - self.energies[0]) > self.heat
        return np.asarray(self.times[is_far.argmax(0)[is_far.any(0)]])


def energy_blocks(campaign: GrownCampaign) -> Iterator[str]:
    """The figure of a run, or why there is none."""
    R, V, temperature = _beginning(campaign)
    seconds = _seconds_for(campaign.model, R)
    if seconds > MOST_SECONDS:
        yield text_block(
            f"Not computed: a run of {PICOSECONDS:g} ps with this force field would take about {_duration(seconds)} "
            f"here, and a page may take {MOST_SECONDS:g} seconds for it."
        )
        return
    logger.info("running %d molecules at constant energy for %g ps", len(R), PICOSECONDS)
    found = constant_energy(campaign, R, V, temperature)
    run = f"{len(R)} molecules moved without a heat bath, begun at labelled configurations with velocities of "
    run += f"{temperature:g} K."
    if found is None:
        yield text_block(f"{run} At least one of them flew apart within {PICOSECONDS:g} ps. {MORE}")
    elif len(found.lost):
        yield text_block(
            f"{run} {len(found.lost)} of them did not keep their energy: it changed by more than all their heat, "
            f"{found.heat:.0f} meV per atom, in the first of them after {found.lost.min():.2g} ps. {MORE}"
        )
    else:
        yield figure_block(energy_figure(found), _caption(found))


def constant_energy(
    campaign: GrownCampaign, R: Positions, V: Float[Tensor, "w N 3"], temperature: float
) -> ConstantEnergy | None:
    """A run of walkers from positions and velocities; none if one of them leaves the range of numbers."""
    masses = masses_of(campaign.species)
    forces = _Forces(campaign.model, R)
    try:
        times, energies = conserved_energy(
            forces, R, V, masses, picoseconds=PICOSECONDS, time_step=TIME_STEP, every=EVERY
        )
    except ValueError:  # of positions that are not finite, or atoms that coincide
        return None
    if not bool(energies.isfinite().all()):
        return None
    bonds = Bonds.of(campaign.reference, campaign.species)
    return ConstantEnergy(
        times=1e-3 * times.numpy(),
        energies=1e3 / len(masses) * (energies - energies.mean(0)).numpy(),
        drifts=drift(times, energies, len(masses)).numpy(),
        temperature=temperature,
        whole=int(bonds.are_whole(forces.R).sum()),
    )


@final
class _Forces:
    """Energies and forces of a force field, as dynamics wants them; `R` is where they were last wanted."""

    def __init__(self, model: ForceField, R: Positions) -> None:
        self._model, self.R = model, R

    def __call__(self, R: Positions) -> tuple[Float[Tensor, " w"], Float[Tensor, "w N 3"]]:
        self.R = R
        energies, forces = self._model.predict(R)
        return torch.from_numpy(energies).double(), torch.from_numpy(forces).double()


def _beginning(campaign: GrownCampaign) -> tuple[Positions, Float[Tensor, "w N 3"], float]:
    """Positions, velocities and temperature of walkers; always the same of one campaign."""
    generator = torch.Generator().manual_seed(0)
    R = campaign.R[torch.randperm(len(campaign.R), generator=generator)[:WALKERS]]
    temperature = TEMPERATURE if campaign.temperature is None else campaign.temperature
    V = thermal_velocities(masses_of(campaign.species), temperature, len(R), generator=generator, R=R)
    return R, V, temperature


def _seconds_for(model: ForceField, R: Positions) -> float:
    """How long the run would take, from a few predictions."""
    model.predict(R)  # the first one prepares the others
    return min(_seconds(model, R) for _ in range(TIMED)) * PICOSECONDS * 1e3 / TIME_STEP


def _seconds(model: ForceField, R: Positions) -> float:
    begun = time.perf_counter()
    model.predict(R)
    return time.perf_counter() - begun


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100.0 else f"{seconds / 60.0:.0f} minutes"


def _caption(found: ConstantEnergy) -> str:
    lowest, highest, n = found.drifts.min(), found.drifts.max(), len(found.drifts)
    others = "no bond broke or formed" if found.whole == n else f"{found.whole} of {n} have their bonds"
    return (
        f"Total energy of {n} molecules that move for {found.times[-1]:g} ps under the forces of the force field, "
        f"without a heat bath, in steps of {TIME_STEP:g} fs; they begin at labelled configurations, with velocities of "
        f"{found.temperature:g} K. It should be constant. Small oscillations are due to the time step, a drift would "
        "be due to the time step or the force field. Drift over the run, by straight lines through the energies: "
        f"{lowest:+.3f} to {highest:+.3f} meV per atom. At the end, {others}."
    )


def energy_figure(found: ConstantEnergy) -> Figure:
    """Energies against time, one line for every walker."""
    figure = Figure(figsize=(5.6, 3.5), layout="constrained")
    axes = figure.subplots()
    for number, (energies, colour) in enumerate(zip(found.energies.T, LINES, strict=False), start=1):
        axes.plot(found.times, energies, color=colour, linewidth=0.9, label=f"molecule {number}")
    axes.axhline(0.0, color="0.6", linewidth=0.6, zorder=0.0)
    axes.set(xlabel="time (ps)", ylabel="total energy, less its mean\n(meV per atom)")
    axes.margins(x=0.0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    return figure
