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
from lobal.molecules.dynamics.motion import BOLTZMANN, ForceFunction, thermal_velocities
from lobal.molecules.field.prepared import PreparedForceField
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


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantEnergy:
    """Total energies of walkers along a run, and what kind of run it was."""

    times: Float[ndarray, " t"]  # ps
    energies: Float[ndarray, "t w"]  # meV per atom, less those at the start; NaN where a walker flew apart
    drifts: Float[ndarray, " w"]  # meV per atom over the run
    temperature: float  # K, of the first velocities
    whole: int  # walkers that end with the bonds of the molecule

    @property
    def heat(self) -> float:
        """Mean kinetic energy of the first velocities, in meV per atom."""
        return 1.5e3 * BOLTZMANN * self.temperature

    @property
    def lost(self) -> Float[ndarray, " l"]:
        """When walkers had gained or lost more energy than that, in ps: they fell into holes of the force field."""
        is_near = np.abs(self.energies) <= self.heat  # false for NaN
        return np.asarray(self.times[is_near.argmin(0)[~is_near.all(0)]])


def energy_blocks(campaign: GrownCampaign) -> Iterator[str]:
    """The figure of a run, or why there is none."""
    forces, R = PreparedForceField.of(campaign.model), _beginning(campaign)
    seconds = _seconds_for(forces, R)
    if seconds > MOST_SECONDS:
        yield text_block(
            f"Not computed: a run of {PICOSECONDS:g} ps with this force field would take about {_duration(seconds)} "
            f"here, and a page may take {MOST_SECONDS:g} seconds for it."
        )
        return
    logger.info("running %d molecules at constant energy for %g ps", len(R), PICOSECONDS)
    found = constant_energy(campaign, forces, R)
    if len(found.lost):
        yield text_block(
            f"{len(R)} molecules moved without a heat bath, from labelled configurations and with velocities of "
            f"{found.temperature:g} K. {len(found.lost)} of them did not keep their energy: it changed by more than "
            f"all their heat, {found.heat:.0f} meV per atom, in the first of them after {found.lost.min():.2g} ps. The "
            "force field is not yet good enough for simulations that nobody watches: more labels are needed."
        )
        return
    yield figure_block(energy_figure(found), _caption(found))


def constant_energy(campaign: GrownCampaign, forces: ForceFunction, R: Positions) -> ConstantEnergy:
    """A run of walkers from these positions, on the device and with the dtype of the force field."""
    temperature = TEMPERATURE if campaign.temperature is None else campaign.temperature
    masses = masses_of(campaign.species)
    V = thermal_velocities(masses, temperature, len(R), generator=torch.Generator().manual_seed(0), R=R.double().cpu())
    watched = _Watched(forces)
    times, energies = conserved_energy(
        watched, R, V.to(R), masses.to(R), picoseconds=PICOSECONDS, time_step=TIME_STEP, every=EVERY
    )
    return ConstantEnergy(
        times=1e-3 * times.cpu().numpy(),
        energies=(1e3 / len(masses) * (energies - energies[0])).cpu().numpy(),
        drifts=drift(times, energies, len(masses)).cpu().numpy(),
        temperature=temperature,
        whole=int(Bonds.of(campaign.reference, campaign.species).are_whole(watched.R.double().cpu()).sum()),
    )


@final
class _Watched:
    """Energies and forces; `R` is where they were last wanted."""

    R: Positions

    def __init__(self, forces: ForceFunction) -> None:
        self._forces = forces

    def __call__(self, R: Positions) -> tuple[Float[Tensor, " w"], Float[Tensor, "w N 3"]]:
        self.R = R
        return self._forces(R)


def _beginning(campaign: GrownCampaign) -> Positions:
    """Some labelled configurations, always the same ones of one campaign."""
    rows = torch.randperm(len(campaign.R), generator=torch.Generator().manual_seed(0))[:WALKERS]
    return campaign.R[rows].to(campaign.model.weights)


def _seconds_for(forces: ForceFunction, R: Positions) -> float:
    """How long the run would take, from a few predictions."""
    forces(R)  # the first one prepares the others
    return min(_seconds(forces, R) for _ in range(TIMED)) * PICOSECONDS * 1e3 / TIME_STEP


def _seconds(forces: ForceFunction, R: Positions) -> float:
    begun = time.perf_counter()
    forces(R)
    return time.perf_counter() - begun


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100.0 else f"{seconds / 60.0:.0f} minutes"


def _caption(found: ConstantEnergy) -> str:
    lowest, highest, n = found.drifts.min(), found.drifts.max(), len(found.drifts)
    others = "no bond broke or formed" if found.whole == n else f"{found.whole} of {n} have the bonds of the molecule"
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
        axes.plot(found.times, energies - energies.mean(), color=colour, linewidth=0.9, label=f"molecule {number}")
    axes.axhline(0.0, color="0.6", linewidth=0.6, zorder=0.0)
    axes.set(xlabel="time (ps)", ylabel="total energy, less its mean\n(meV per atom)")
    axes.margins(x=0.0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    return figure
