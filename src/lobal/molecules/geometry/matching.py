"""Which configurations of a pool computed frames are, by their positions."""

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from scipy.spatial import KDTree

from lobal.molecules.geometry.trajectory import Trajectory, check_species

SAME_PLACE = 1e-4  # Angstrom: files round positions to less, and no two frames of a trajectory are as close


def matched(
    frames: Trajectory, pool: Trajectory, among: list[Int[ndarray, " _"]]
) -> tuple[Trajectory, Int[ndarray, " m"]]:
    """The frames that are configurations of the pool, and their rows there: of those `among`, in this order.

    Raises:
        ValueError: the frames have other atoms, lack energies or forces, are not in the pool at all, or are there more
            than once. Forces turn with the molecule, so that a frame which was turned is not in the pool.
    """
    check_species(pool.species, frames.species, frames.source)
    for name, part in (("energies", frames.energies), ("forces", frames.forces)):
        if part is None:
            raise ValueError(f"{frames.source} has no {name}; energies and forces of every configuration are needed")
    places, here = (part.R.flatten(1).numpy() for part in (pool, frames))
    rows = np.full(len(here), -1)
    for some in among:
        missing = np.flatnonzero(rows < 0)
        if len(some) > 0 and len(missing) > 0:
            off, nearest = KDTree(places[some]).query(here[missing], p=np.inf)
            rows[missing] = np.where(off <= SAME_PLACE, some[nearest], -1)
    known = rows >= 0
    if not known.any():
        raise ValueError(
            f"no configuration of {frames.source} is in {pool.source}: positions must be equal to {SAME_PLACE:g} "
            "Angstrom, neither turned nor relaxed"
        )
    if len(np.unique(rows[known])) < known.sum():
        raise ValueError(f"{frames.source} has the same configuration of the pool more than once; leave one of them")
    return frames.at(torch.from_numpy(np.flatnonzero(known))), rows[known]
