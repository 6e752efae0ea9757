"""Molecular dynamics at constant energy: how well a force field and a time step conserve it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.molecules.dynamics.motion import (
    Bath,
    ForceFunction,
    Masses,
    Motion,
    Velocities,
    begun,
    kinetic_energies,
    step,
)
from lobal.molecules.geometry.descriptor import Positions

FEMTOSECONDS = 1000.0  # in a picosecond


def conserved_energy(
    forces: ForceFunction,
    R: Positions,
    V: Velocities,
    masses: Masses,
    *,
    picoseconds: float,
    time_step: float = 0.5,
    every: int = 10,
) -> tuple[Float[Tensor, " t"], Float[Tensor, "t w"]]:
    """Times in fs and total energies in eV of walkers that no bath disturbs.

    Args:
        forces: Energies and forces at positions.
        R: Where the walkers start.
        V: Their velocities, as from `thermal_velocities`.
        masses: In Daltons.
        picoseconds: How long the run is.
        time_step: In fs.
        every: Steps between two energies; the first is that of the start.

    Raises:
        ValueError: the run is shorter than `every` steps.
    """
    steps = math.floor(picoseconds * FEMTOSECONDS / time_step + 0.5)
    if every < 1 or steps < every:
        raise ValueError(
            f"a run of {picoseconds:g} ps has {steps} steps of {time_step:g} fs, energies are taken every {every}; "
            "give more picoseconds or a smaller `every`, at least 1"
        )
    bath = Bath(temperature=0.0, time_step=time_step, friction=0.0)
    motion = begun(R, V, forces)
    totals = [_total(motion, masses)]
    for number in range(1, steps + 1):
        motion = step(motion, forces, masses, bath)
        if number % every == 0:
            totals.append(_total(motion, masses))
    times = torch.arange(len(totals), dtype=R.dtype, device=R.device) * (every * time_step)
    return times, torch.stack(totals)


def drift(times: Float[Tensor, " t"], energies: Float[Tensor, "t w"], number_of_atoms: int) -> Float[Tensor, " w"]:
    """By how much the energy of every walker changes over the run, in meV per atom.

    It is the rise of the straight line fitted by least squares: the energy oscillates with every vibration by
    O(dt^2), which is no drift.
    """
    since = (times - times.mean())[:, None]
    slope = (since * energies).sum(0) / since.square().sum()
    return 1e3 * slope * (times[-1] - times[0]) / number_of_atoms


def _total(motion: Motion, masses: Masses) -> Float[Tensor, " w"]:
    return motion.energies + kinetic_energies(motion.V, masses)
