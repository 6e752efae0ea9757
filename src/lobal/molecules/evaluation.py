"""How far the energies and forces of a force field are from those computed otherwise."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from lobal.molecules.forcefield import ForceField
from lobal.molecules.trajectory import Trajectory, check_species


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
    seen = {row.tobytes() for row in force_field.positions.cpu().numpy()}
    new = [i for i, row in enumerate(trajectory.R.numpy()) if row.tobytes() not in seen]
    if not new:
        raise ValueError(
            f"the force field has learned from all {len(trajectory)} configurations of {trajectory.source}; "
            "evaluate it on others"
        )
    return trajectory.at(torch.tensor(new))


def errors_on(force_field: ForceField, trajectory: Trajectory) -> Errors:
    """The errors of a force field at all configurations of a trajectory.

    Raises:
        ValueError: the trajectory is one of other atoms.
    """
    check_species(force_field.species.cpu(), trajectory.species, trajectory.source)
    energies, forces = force_field.predict(trajectory.R)
    off = [None if trajectory.energies is None else energies - trajectory.energies.numpy()]
    off.append(None if trajectory.forces is None else forces - trajectory.forces.numpy())
    return Errors(*(measure(part) for part in off for measure in (_rmse, _mae)))


def _rmse(errors: Float[ndarray, "..."] | None) -> float | None:
    return None if errors is None else float(np.sqrt(np.square(errors).mean()))


def _mae(errors: Float[ndarray, "..."] | None) -> float | None:
    return None if errors is None else float(np.abs(errors).mean())
