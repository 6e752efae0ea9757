"""How far apart the points of a sample lie around each of them, in any metric."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Distance: TypeAlias = Callable[[Float[Tensor, "n d"], Float[Tensor, "k d"]], Float[Tensor, "n k"]]

# Distances are computed this many at a time: 2 MiB, which caches hold. Larger blocks are slower.
BLOCK_ENTRIES = 2**18
# Neighbours are looked for among this many random points; as in `lobal.core.density`, more only cost time.
LARGEST_REFERENCE = 2000
# The k-th neighbour's distance is the local spacing up to a relative error of k^(-1/2) / delta.
NEIGHBOURS = 8


def euclidean(A: Float[Tensor, "n d"], B: Float[Tensor, "k d"]) -> Float[Tensor, "n k"]:
    """Pairwise Euclidean distances, exactly zero where rows are equal."""
    return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")


def blocks(n: int, columns: int) -> Iterator[slice]:
    """Consecutive slices of n rows, each of at most `BLOCK_ENTRIES` numbers in so many columns."""
    rows = max(1, BLOCK_ENTRIES // columns)
    return (slice(start, start + rows) for start in range(0, n, rows))


def distance_blocks(
    X: Float[Tensor, "n d"], Z: Float[Tensor, "k d"], distance: Distance
) -> Iterator[tuple[slice, Float[Tensor, "block k"]]]:
    """Distances of consecutive rows of X to all rows of Z, each block with its place.

    Whoever keeps something of every block puts it into one tensor made beforehand: small tensors between large ones
    that come and go would leave the memory in pieces, gigabytes of them.
    """
    return ((rows, distance(X[rows], Z)) for rows in blocks(len(X), len(Z)))


class Spacing(NamedTuple):
    """The distance of every point to its k-th neighbour, and the intrinsic dimension delta of the sample.

    p^(-1/delta) is proportional to the distances, p being the density of the sample.
    """

    radius: Float[Tensor, " n"]
    dimension: float


def local_spacing(X: Float[Tensor, "n d"], distance: Distance, *, generator: torch.Generator) -> Spacing:
    """The spacing of the sample around each of its points, positive, from distances alone.

    The ball that holds twice as many points is 2^(1/delta) times as wide, which gives delta.
    """
    rows = torch.randperm(len(X), generator=generator)[:LARGEST_REFERENCE].to(X.device)
    k = max(1, min(NEIGHBOURS, (len(rows) - 1) // 2))
    near = X.new_empty(len(X), 2)
    for part, D in distance_blocks(X, X[rows], distance):
        near[part] = _neighbours(D, k)
    known = torch.isfinite(near).all(1)
    if not known.any():  # every point lies in the same place, or is alone
        return Spacing(torch.ones_like(near[:, 0]), 1.0)
    ratio = (near[known, 1] / near[known, 0]).log().median().item()
    radius = torch.where(known, near[:, 0], near[known, 0].max())
    return Spacing(radius, math.log(2.0) / max(ratio, 1e-3))


def _neighbours(D: Float[Tensor, "n k"], number: int) -> Float[Tensor, "n 2"]:
    """The distances to the neighbours of that number and of twice that number; a point is no neighbour of itself."""
    wanted = min(2 * number, D.shape[1])
    nearest = torch.where(D > 0.0, D, math.inf).topk(wanted, largest=False).values
    return nearest[:, [min(number, wanted) - 1, wanted - 1]]
