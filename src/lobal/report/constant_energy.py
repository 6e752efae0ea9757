"""Whether a force field conserves energy: a short run of a few walkers that no heat bath disturbs."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor

from lobal.molecules.dynamics.conservation import conserved_energy, drift
from lobal.molecules.dynamics.motion import thermal_velocities
from lobal.molecules.field.forcefield import ForceField
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


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantEnergy:
    """Total energies of walkers along a run, and what kind of run it was."""

    times: Float[ndarray, " t"]  # ps
    energies: Float[ndarray, "t w"]  # meV per atom, less the mean of each
    drifts: Float[ndarray, " w"]  # meV per atom over the run
    temperature: float  # K, of the first velocities


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
    if found is None:
        yield text_block(
            f"Of {len(R)} molecules moving at constant energy, begun at labelled configurations with velocities of "
            f"{temperature:g} K, at least one flew apart within {PICOSECONDS:g} ps: the force field is not yet good "
            "enough for simulations without control. More labels are needed."
        )
        return
    yield figure_block(energy_figure(found), _caption(found))


def constant_energy(
    campaign: GrownCampaign, R: Positions, V: Float[Tensor, "w N 3"], temperature: float
) -> ConstantEnergy | None:
    """A run of walkers from positions and velocities; none if one of them leaves the range of numbers."""
    masses = masses_of(campaign.species)
    forces = _Forces(campaign.model)
    try:
        times, energies = conserved_energy(
            forces, R, V, masses, picoseconds=PICOSECONDS, time_step=TIME_STEP, every=EVERY
        )
    except ValueError:  # of positions that are not finite, or atoms that coincide
        return None
    if not bool(energies.isfinite().all()):
        return None
    return ConstantEnergy(
        times=1e-3 * times.numpy(),
        energies=1e3 / len(masses) * (energies - energies.mean(0)).numpy(),
        drifts=drift(times, energies, len(masses)).numpy(),
        temperature=temperature,
    )


@final
@dataclass(frozen=True)
class _Forces:
    """Energies and forces of a force field, as dynamics wants them."""

    model: ForceField

    def __call__(self, R: Positions) -> tuple[Float[Tensor, " w"], Float[Tensor, "w N 3"]]:
        energies, forces = self.model.predict(R)
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
    begun = time.perf_counter()
    for _ in range(TIMED):
        model.predict(R)
    return (time.perf_counter() - begun) / TIMED * PICOSECONDS * 1e3 / TIME_STEP


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100.0 else f"{seconds / 60.0:.0f} minutes"


def _caption(found: ConstantEnergy) -> str:
    lowest, highest = found.drifts.min(), found.drifts.max()
    return (
        f"Total energy per atom of {len(found.drifts)} molecules that move for {found.times[-1]:g} ps under the forces "
        f"of the force field, without a heat bath, in steps of {TIME_STEP:g} fs; they begin at labelled "
        f"configurations, with velocities of {found.temperature:g} K. It should stay what it is. It oscillates since "
        "time goes in steps; a drift would be the fault of steps or force field. Drift over the run, of straight "
        f"lines through the energies: {lowest:+.3f} to {highest:+.3f} meV per atom."
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
