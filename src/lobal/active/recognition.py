"""Which known points are meant by points that were written with a few digits."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.region import Region

PART = 2**22  # differences computed at a time


def nearest_within(
    region: Region, points: Float[ndarray, "n v"], known: Float[ndarray, "m v"], slack: float
) -> Int[ndarray, " n"]:
    """For every point the nearest known one that is within `slack` of every range; -1 where there is none."""
    found = np.full(len(points), -1, dtype=np.int64)
    if not len(known):
        return found
    size = max(1, PART // len(known))
    for start in range(0, len(points), size):
        part = points[start : start + size]
        furthest = np.zeros((len(part), len(known)))
        total = np.zeros_like(furthest)
        for variable, told, column in zip(region.variables, part.T, known.T, strict=True):
            apart = variable.differences(told[:, None], column[None, :])
            furthest, total = np.maximum(furthest, apart), total + apart**2
        nearest = np.where(furthest <= slack, total, np.inf).argmin(axis=1)
        is_near = furthest[np.arange(len(part)), nearest] <= slack
        found[start : start + size] = np.where(is_near, nearest, -1)
    return found
