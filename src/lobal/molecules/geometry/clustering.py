"""Inducing configurations of a symmetric molecule: medoids by the distance of the closest representations.

Appendix, "Symmetrized DC for molecules": distributional clustering in which d(z, z') = min over pi of
|Phi(z) - Phi(pi z')| takes the place of every distance.
"""

from collections.abc import Iterator
from itertools import islice, takewhile

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.inducing.distributional import distributional_rows
from lobal.inducing.spacing import Distance
from lobal.molecules.geometry.descriptor import Descriptors
from lobal.molecules.geometry.permutations import Permutations, symmetrised_squared_distances
from lobal.molecules.geometry.symmetry import ROUNDING


def inducing_rows(
    values: Descriptors,
    m: int,
    permutations: Permutations,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
) -> Int[Tensor, " m"]:
    """The rows of m configurations, spread out and distributed like the weighted sample, none an image of another.

    `values` are descriptors; scale them by a bandwidth that the group leaves as it is, if by any.

    Raises:
        ValueError: fewer than m configurations differ.
    """
    distance = symmetrised_distance(permutations, resolution=ROUNDING * spread(values))
    return distributional_rows(values, m, generator=generator, weight=weight, distance=distance)


def number_distinct(values: Descriptors, permutations: Permutations, *, most: int) -> int:
    """How many configurations are no images of each other, as in `inducing_rows`; at most `most`."""
    distance = symmetrised_distance(permutations, resolution=ROUNDING * spread(values))
    return sum(1 for _ in takewhile(lambda each: each[1] > 0.0, islice(farthest_first(values, distance), most)))


def far_apart(values: Descriptors, number: int, permutations: Permutations) -> Int[Tensor, " number"]:
    """The first configuration, and others that are each the farthest from the closest of those before."""
    rows = [row for row, _ in islice(farthest_first(values, symmetrised_distance(permutations)), number)]
    return torch.tensor(rows, device=values.device)


def farthest_first(values: Descriptors, distance: Distance) -> Iterator[tuple[int, float]]:
    """All rows, every one the farthest from the closest of those before, and that distance; the first row is first."""
    apart, last, how_far = torch.full_like(values[:, 0], torch.inf), 0, torch.inf
    for _ in range(len(values)):
        yield last, how_far
        apart = torch.minimum(apart, distance(values, values[last][None])[:, 0])
        apart[last] = -torch.inf  # never again, not even where all are the same
        last = int(apart.argmax())
        how_far = apart[last].item()


def symmetrised_distance(permutations: Permutations, *, resolution: float = 0.0) -> Distance:
    """The distance of the closest representations, zero where it is below the resolution.

    Clustering tells a point from its neighbours by a distance of zero, which matrix products give up to rounding only.
    """

    def distance(A: Float[Tensor, "n d"], B: Float[Tensor, "k d"]) -> Float[Tensor, "n k"]:
        squared = symmetrised_squared_distances(A, B, permutations)
        return torch.where(squared > resolution**2, squared, 0.0).sqrt_()

    return distance


def spread(values: Descriptors) -> float:
    """The largest distance of a configuration from their mean, which the rounding of distances is relative to."""
    largest: float = torch.linalg.vector_norm(values - values.mean(0), dim=1).max().item()
    return largest
