"""Distances between inputs in any metric, in blocks: nearest centres and local spacing."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Inputs

Distance: TypeAlias = Callable[[Float[Tensor, "n d"], Float[Tensor, "k d"]], Float[Tensor, "n k"]]

# Distances are computed this many at a time: 2 MiB, which caches hold. Larger blocks are slower.
BLOCK_ENTRIES = 2**18
# Neighbours are searched among this many random points; as in `lobal.core.density`, more only cost time.
LARGEST_REFERENCE = 2000
# The k-th neighbour's distance is the local spacing up to a relative error of k^(-1/2) / delta.
NEIGHBOURS = 8


def euclidean(A: Float[Tensor, "n d"], B: Float[Tensor, "k d"]) -> Float[Tensor, "n k"]:
    """Pairwise Euclidean distances, exactly zero where rows are equal."""
    return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist")


def distance_blocks(
    X: Inputs, Z: Float[Tensor, "k d"], distance: Distance
) -> Iterator[tuple[slice, Float[Tensor, "block k"]]]:
    """Distances of consecutive rows of X to all rows of Z, at most `BLOCK_ENTRIES` at a time, with the slice of rows.

    Write results to a tensor allocated beforehand: small allocations between large ones fragment the memory, by
    gigabytes.
    """
    size = max(1, BLOCK_ENTRIES // len(Z))
    for start in range(0, len(X), size):
        yield slice(start, start + size), distance(X[start : start + size], Z)


class Assignment(NamedTuple):
    """The nearest centre of every point and the distance to it."""

    centre: Int[Tensor, " n"]
    distance: Float[Tensor, " n"]
    m: int

    def members(self) -> Sequence[Int[Tensor, " k"]]:
        """The rows of every cluster."""
        sizes = torch.bincount(self.centre, minlength=self.m).tolist()
        clusters: Sequence[Tensor] = self.centre.argsort(stable=True).split(sizes)
        return clusters


def assignment(X: Inputs, Z: Float[Tensor, "m d"], distance: Distance) -> Assignment:
    """The clusters I_c of the centres Z, Eq. (eq:dcClusterAssignment)."""
    centre, nearest = torch.empty(len(X), dtype=torch.long, device=X.device), X.new_empty(len(X))
    for part, D in distance_blocks(X, Z, distance):
        nearest[part], centre[part] = D.min(1)
    return Assignment(centre, nearest, len(Z))


class Spacing(NamedTuple):
    """The distance of every point to its k-th neighbour, and the intrinsic dimension delta of the sample.

    p^(-1/delta) is proportional to the distances, p being the density of the sample.
    """

    radius: Float[Tensor, " n"]
    dimension: float


def local_spacing(X: Inputs, distance: Distance, *, generator: torch.Generator) -> Spacing:
    """The spacing of the sample around each of its points, always positive.

    A ball with twice as many points is 2^(1/delta) times as wide, which gives delta.
    """
    rows = torch.randperm(len(X), generator=generator)[:LARGEST_REFERENCE].to(X.device)
    k = max(1, min(NEIGHBOURS, (len(rows) - 1) // 2))
    near = X.new_empty(len(X), 2)
    for part, D in distance_blocks(X, X[rows], distance):
        near[part] = _neighbours(D, k)
    known = torch.isfinite(near).all(1)
    if not known.any():  # all points coincide, or there is only one
        return Spacing(torch.ones_like(near[:, 0]), 1.0)
    ratio = (near[known, 1] / near[known, 0]).log().median().item()
    radius = torch.where(known, near[:, 0], near[known, 0].max())
    return Spacing(radius, math.log(2.0) / max(ratio, 1e-3))


def _neighbours(D: Float[Tensor, "n k"], number: int) -> Float[Tensor, "n 2"]:
    """The distances to the k-th and the 2k-th neighbour; a point is not its own neighbour."""
    wanted = min(2 * number, D.shape[1])
    nearest = torch.where(D > 0.0, D, math.inf).topk(wanted, largest=False).values
    return nearest[:, [min(number, wanted) - 1, wanted - 1]]
