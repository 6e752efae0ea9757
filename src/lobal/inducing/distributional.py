"""Inducing points by distributional clustering: medoids that follow the density of the sample.

Only distances are needed. Rows may be whatever the distance function accepts: coordinates, descriptors, or indices of
objects stored elsewhere.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.inducing.random_points import drawn_rows
from lobal.inducing.spacing import Distance, assignment, distance_blocks, euclidean, local_spacing

# The inertia changes by less than a thousandth after this many Lloyd steps.
LLOYD_STEPS = 5
# At most this many members of a cluster are tried as its centre: all of them would cost the square of their number.
LARGEST_CANDIDATES = 256
# Distances shorter than those to this many neighbours count as equal. Otherwise the two closest members would dominate
# the sums of logarithms.
UNRESOLVED_NEIGHBOURS = 3


def distributional_points(
    X: Inputs,
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
    distance: Distance = euclidean,
) -> Float[Tensor, "m d"]:
    """The rows of X whose numbers `distributional_rows` returns."""
    return X[distributional_rows(X, m, generator=generator, weight=weight, distance=distance)]


def distributional_rows(
    X: Inputs,
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
    distance: Distance = euclidean,
) -> Int[Tensor, " m"]:
    """The row numbers of m cluster centres, evenly spread and with the density of the weighted sample.

    Centres minimise the sum of log distances, Eq. (eq:dcInertia); as in k-means, points go to the nearest centre,
    Eq. (eq:dcClusterAssignment), and centres to the best member, Eq. (eq:dcClusterUpdate). At most `BLOCK_ENTRIES`
    distances are held at a time.
    """
    weight = torch.ones_like(X[:, 0]) if weight is None else weight
    counted = weight.nonzero()[:, 0]
    X, weight = X[counted], weight[counted] / weight.sum()
    centres = seeds(X, m, weight, distance, generator=generator)
    for _ in range(LLOYD_STEPS):
        moved = centres.clone()
        for cluster, members in enumerate(assignment(X, X[centres], distance).members()):
            if len(members):
                moved[cluster] = medoid(X, members, weight, distance, generator=generator)
        if torch.equal(moved, centres):
            break
        centres = moved
    return counted[centres]


def seeds(
    X: Inputs, m: int, weight: Float[Tensor, " n"], distance: Distance, *, generator: torch.Generator
) -> Int[Tensor, " m"]:
    """m rows by distributional k-means++, which draws with probability d^2 p^(2/d), Eq. (eq:distancesKMeansPlusPlus).

    p^(2/d) of a weighted sample is w^(2/d) over the squared spacing of its points. Each time a few
    rows are drawn and the one that lowers the sum most is kept, as in scikit-learn's k-means++.
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


def _squared(X: Inputs, rows: Int[Tensor, " k"], distance: Distance) -> Float[Tensor, "n k"]:
    squared = X.new_empty(len(X), len(rows))
    for part, D in distance_blocks(X, X[rows], distance):
        squared[part] = D.square()
    return squared


def medoid(
    X: Inputs,
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
    """The distance within which a point has `UNRESOLVED_NEIGHBOURS` others on average."""
    positive = D[D > 0.0]
    if not len(positive):
        return 1.0
    share = min(1.0, UNRESOLVED_NEIGHBOURS / len(D))
    return positive.kthvalue(max(1, round(share * len(positive)))).values.item()
