"""Which configurations of a pool computed frames are: by row number, or by positions."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial import KDTree
from torch import Tensor

from lobal.molecules.geometry.trajectory import Trajectory, check_species

SAME_PLACE = 1e-4  # Angstrom: files round positions to less, and no two frames of a trajectory are as close


class Matched(NamedTuple):
    """Frames that are configurations of the pool, and their rows there."""

    frames: Trajectory
    rows: Int[ndarray, " m"]
    n_unknown: int  # frames that are not


def matched(frames: Trajectory, pool: Trajectory, among: list[Int[ndarray, " _"]]) -> Matched:
    """Frames with energies and forces matched to the pool, where no rows are given to the rows `among`, in this order.

    Raises:
        ValueError: the frames have other atoms, lack energies or forces, are not in the pool at all, are there more
            than once, or say rows whose positions are different: forces turn with the molecule.
    """
    check_species(pool.species, frames.species, frames.source)
    for name, part in (("energies", frames.energies), ("forces", frames.forces)):
        if part is None:
            raise ValueError(f"{frames.source} has no {name}; energies and forces of every configuration are needed")
    rows = _rows_by_place(frames.R, pool, among) if frames.row is None else _rows_by_number(frames, frames.row, pool)
    known = rows >= 0
    if not known.any():
        raise ValueError(
            f"no configuration of {frames.source} is in {pool.source}: positions must be equal to {SAME_PLACE:g} "
            "Angstrom, neither turned nor relaxed"
        )
    if len(np.unique(rows[known])) < known.sum():
        raise ValueError(f"{frames.source} has the same configuration of the pool more than once; leave one of them")
    return Matched(frames.at(torch.from_numpy(np.flatnonzero(known))), rows[known], int((~known).sum()))


def _rows_by_number(frames: Trajectory, rows: Int[Tensor, " m"], pool: Trajectory) -> Int[ndarray, " m"]:
    """The rows that the frames name, whose positions must be the pool's."""
    last = len(pool) - 1
    if rows.min() < 0 or rows.max() > last:
        raise ValueError(f"{frames.source} has rows {int(rows.min())} to {int(rows.max())}, the pool has 0 to {last}")
    off = (pool.R[rows] - frames.R).abs().amax((1, 2))
    if off.max() > SAME_PLACE:
        worst = int(off.argmax())
        raise ValueError(
            f"{frames.source}: row {int(rows[worst])} has an atom {off[worst]:.3g} Angstrom away from its place in the "
            "pool; compute every configuration as it is, neither turned nor relaxed"
        )
    return rows.numpy()


def _rows_by_place(R: Float[Tensor, "m N 3"], pool: Trajectory, among: list[Int[ndarray, " _"]]) -> Int[ndarray, " m"]:
    """The rows of the pool at these positions; -1 where there is none."""
    rows = np.full(len(R), -1)
    for some in among:
        missing = np.flatnonzero(rows < 0)
        if len(some) > 0 and len(missing) > 0:
            tree = KDTree(pool.R[torch.from_numpy(some)].flatten(1).numpy())
            off, nearest = tree.query(R[torch.from_numpy(missing)].flatten(1).numpy(), p=np.inf)
            rows[missing] = np.where(off <= SAME_PLACE, some[nearest], -1)
    return rows
