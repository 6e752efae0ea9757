"""Inducing points by distributional clustering: medoids that follow the density of the sample itself.

It needs distances only. Rows may therefore be anything that the distance knows how to read: coordinates, descriptors,
or the row numbers of objects kept elsewhere.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.inducing.draws import drawn_rows
from lobal.inducing.spacing import Distance, distance_blocks, euclidean, local_spacing

# The inertia changes by less than a thousandth after that many Lloyd steps.
LLOYD_STEPS = 5
# At most that many members of a cluster are tried as its centre, lest large clusters cost the square of their size.
LARGEST_CANDIDATES = 256
# Distances as short as those to the nearest few members count alike. Sums of logarithms would otherwise be decided by
# which two members happen to lie closest together.
UNRESOLVED_NEIGHBOURS = 3


def distributional_points(
    X: Float[Tensor, "n d"],
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
    distance: Distance = euclidean,
) -> Float[Tensor, "m d"]:
    """The m rows of X that `distributional_rows` chooses."""
    return X[distributional_rows(X, m, generator=generator, weight=weight, distance=distance)]


def distributional_rows(
    X: Float[Tensor, "n d"],
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
    distance: Distance = euclidean,
) -> Int[Tensor, " m"]:
    """The rows of X that are centres of m clusters, spread out and distributed like the weighted sample.

    Centres minimise the sum of log distances, Eq. (eq:dcInertia); as in k-means, points go to the nearest centre,
    Eq. (eq:dcClusterAssignment), and centres to the best member, Eq. (eq:dcClusterUpdate). At most `BLOCK_ENTRIES`
    distances are held at a time.
    """
    weight = torch.ones_like(X[:, 0]) if weight is None else weight
    counted = weight.nonzero()[:, 0]
    X, weight = X[counted], weight[counted] / weight.sum()
    centres = seeds(X, m, weight, distance, generator=generator)
    for _ in range(LLOYD_STEPS):
        clusters = assignment(X, X[centres], distance).members()
        moved = torch.stack(
            [
                medoid(X, members, weight, distance, generator=generator) if len(members) else centre
                for members, centre in zip(clusters, centres, strict=True)
            ]
        )
        if torch.equal(moved, centres):
            break
        centres = moved
    return counted[centres]


def seeds(
    X: Float[Tensor, "n d"],
    m: int,
    weight: Float[Tensor, " n"],
    distance: Distance,
    *,
    generator: torch.Generator,
) -> Int[Tensor, " m"]:
    """m rows by distributional k-means++, which draws with probability d^2 p^(2/d), Eq. (eq:distancesKMeansPlusPlus).

    p^(2/d) of a weighted sample is w^(2/d) over the squared spacing of its points. Of a few rows drawn each time, the
    one that brings the others closest is kept, as in scikit-learn's k-means++.
    """
    spacing = local_spacing(X, distance, generator=generator)
    scale = weight.pow(1.0 + 2.0 / spacing.dimension) / spacing.radius.square()
    trials = 2 + int(math.log(m))
    rows = drawn_rows(weight, 1, generator=generator)
    squared = _squared(X, rows, distance)[:, 0]
    while len(rows) < m:
        score = squared * scale
        if not score.sum() > 0.0:
            raise ValueError(f"the sample must have {m} points at a distance from each other, got {len(rows)}")
        drawn = drawn_rows(score, trials, generator=generator)
        closest = torch.minimum(squared[:, None], _squared(X, drawn, distance))
        best = (scale @ closest).argmin()
        rows, squared = torch.cat([rows, drawn[best, None]]), closest[:, best]
    return rows


def _squared(X: Float[Tensor, "n d"], rows: Int[Tensor, " k"], distance: Distance) -> Float[Tensor, "n k"]:
    squared = X.new_empty(len(X), len(rows))
    for part, D in distance_blocks(X, X[rows], distance):
        squared[part] = D.square()
    return squared


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


def assignment(X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"], distance: Distance) -> Assignment:
    """The clusters I_c of the centres Z, Eq. (eq:dcClusterAssignment)."""
    centre, nearest = torch.empty(len(X), dtype=torch.long, device=X.device), X.new_empty(len(X))
    for part, D in distance_blocks(X, Z, distance):
        nearest[part], centre[part] = D.min(1)
    return Assignment(centre, nearest, len(Z))


def medoid(
    X: Float[Tensor, "n d"],
    members: Int[Tensor, " k"],
    weight: Float[Tensor, " n"],
    distance: Distance,
    *,
    generator: torch.Generator,
) -> Int[Tensor, ""]:
    """The member with the smallest weighted sum of log distances to the others, Eq. (eq:dcClusterUpdate)."""
    tried = members
    if len(members) > LARGEST_CANDIDATES:
        tried = members[torch.randperm(len(members), generator=generator)[:LARGEST_CANDIDATES].to(members.device)]
    smallest = _resolution(distance(X[tried], X[tried]))
    cost = torch.zeros_like(weight[tried])
    for part, D in distance_blocks(X[members], X[tried], distance):
        cost += weight[members[part]] @ D.clamp_min(smallest).log()
    return tried[cost.argmin()]


def _resolution(D: Float[Tensor, "k k"]) -> float:
    """The distance that one pair in so many falls below that every point has `UNRESOLVED_NEIGHBOURS` such pairs."""
    positive = D[D > 0.0]
    if not len(positive):
        return 1.0
    share = min(1.0, UNRESOLVED_NEIGHBOURS / len(D))
    return positive.kthvalue(max(1, round(share * len(positive)))).values.item()
