"""How far the energies and forces of a force field are from those computed otherwise."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.trajectory import Trajectory, check_species


class Errors(NamedTuple):
    """Root mean squared and mean absolute errors, in eV and, of all force components, eV / Angstrom."""

    energy_rmse: float | None  # none where there are no energies to compare with
    energy_mae: float | None
    force_rmse: float | None
    force_mae: float | None


def unseen(force_field: ForceField, trajectory: Trajectory) -> Trajectory:
    """The configurations that the force field has not learned from, whose errors would be too good to be true.

    Raises:
        ValueError: the trajectory is one of other atoms, or there are no such configurations.
    """
    check_species(force_field.species.cpu(), trajectory.species, trajectory.source)
    new = (~force_field.has_learned_from(trajectory.R)).nonzero()[:, 0]
    if len(new) == 0:
        raise ValueError(
            f"the force field has learned from all {len(trajectory)} configurations of {trajectory.source}; "
            "evaluate it on others"
        )
    return trajectory.at(new)


def errors_on(force_field: ForceField, trajectory: Trajectory, weight: Float[ndarray, " n"] | None = None) -> Errors:
    """The errors of a force field at all configurations of a trajectory, weighed where there are weights.

    Raises:
        ValueError: the trajectory is one of other atoms.
    """
    check_species(force_field.species.cpu(), trajectory.species, trajectory.source)
    energies, forces = force_field.predict(trajectory.R)
    off = [None if trajectory.energies is None else energies - trajectory.energies.numpy()]
    off.append(None if trajectory.forces is None else forces - trajectory.forces.numpy())
    return Errors(*(each for part in off for each in ((None, None) if part is None else _measured(part, weight))))


def _measured(errors: Float[ndarray, "..."], weight: Float[ndarray, " n"] | None) -> tuple[float, float]:
    """Root mean squared and mean absolute, over configurations and, in each, all components."""
    squares, sizes = (part.reshape(len(errors), -1).mean(1) for part in (np.square(errors), np.abs(errors)))
    return math.sqrt(np.average(squares, weights=weight)), float(np.average(sizes, weights=weight))
