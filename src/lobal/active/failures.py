"""Where labels fail: the share of the points drawn that have one."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.spatial import cKDTree

NEIGHBOURS = 16  # a share among so many is known up to an eighth


def label_share(
    X: Float[ndarray, "m d"], drawn: Float[ndarray, "n d"], is_labelled: Bool[ndarray, " n"]
) -> Float[ndarray, " m"]:
    """The share of labelled points among the sixteen drawn nearest to every labelled input, itself included.

    Its reciprocal is how many drawn points a labelled one stands for. Distances are taken in columns of equal spread.
    """
    spread = drawn.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    k = min(NEIGHBOURS, len(drawn))
    _, nearest = cKDTree(drawn / scale).query(X / scale, k=range(1, k + 1))
    # Where many points are the same, an input may not find itself among them.
    return np.asarray(is_labelled[nearest].mean(axis=1).clip(min=1.0 / k))
