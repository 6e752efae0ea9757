import math

import pytest
import torch
from torch import Tensor

from lobal.inducing.distributional import (
    UNRESOLVED_NEIGHBOURS,
    distributional_points,
    distributional_rows,
    medoid,
    seeds,
)
from lobal.inducing.spacing import BLOCK_ENTRIES, assignment, euclidean
from tests.inducing.setting import seeded, uniform


def periodic(A: Tensor, B: Tensor) -> Tensor:
    """Distances on a circle of circumference one."""
    difference = (A - B.mT).abs()
    return torch.minimum(difference, 1.0 - difference)


def inertia(X: Tensor, rows: Tensor, weight: Tensor) -> float:
    """Eq. (eq:dcInertia), a centre's own term left out."""
    distance = assignment(X, X[rows], euclidean).distance
    return (weight * torch.where(distance > 0.0, distance, 1.0).log()).sum().item()


def test_a_periodic_distance_spreads_points_around_the_circle(generator: torch.Generator) -> None:
    """The sample fills the circle but for its rotation: the gap across zero is a gap like any other."""
    X = uniform(generator, 2000, 1)
    points = distributional_points(X, 20, generator=generator, distance=periodic).sort(0).values[:, 0]
    gaps = torch.cat([points.diff(), 1.0 + points[:1] - points[-1:]])
    assert gaps.max() < 2.0 / 20
    assert gaps.min() > 0.4 / 20


def test_a_rotation_of_the_circle_rotates_the_points(generator: torch.Generator) -> None:
    X = torch.randperm(4096, generator=generator)[:500, None].double() / 4096  # differences without rounding
    turned = ((X + shift) % 1.0 for shift in (0.0, 0.25))
    assert torch.equal(*(distributional_rows(Z, 20, generator=seeded(), distance=periodic) for Z in turned))


def test_a_distance_may_look_objects_up_by_row_number(generator: torch.Generator) -> None:
    """No coordinates are needed: rows hold numbers of objects that only the distance knows."""
    objects = uniform(generator, 200, 3)
    numbers = torch.arange(200, dtype=torch.float64)[:, None]

    def between(A: Tensor, B: Tensor) -> Tensor:
        return euclidean(objects[A[:, 0].long()], objects[B[:, 0].long()])

    rows = distributional_rows(numbers, 15, generator=seeded(), distance=between)
    assert torch.equal(rows, distributional_rows(objects, 15, generator=seeded()))


def test_lloyd_steps_lower_the_inertia(generator: torch.Generator) -> None:
    X, weight = uniform(generator, 1500), torch.ones(1500, dtype=torch.float64)
    start = seeds(X, 40, weight, euclidean, generator=seeded(3))
    rows = distributional_rows(X, 40, generator=seeded(3))
    assert inertia(X, rows, weight) < inertia(X, start, weight) - 10.0


def test_the_medoid_has_the_smallest_sum_of_log_distances(generator: torch.Generator) -> None:
    """Eq. (eq:dcClusterUpdate) written out, with distances of the nearest few counted alike."""
    X, weight = uniform(generator, 40), uniform(generator, 40, 1)[:, 0]
    D = torch.cdist(X, X)
    smallest = D[D > 0].sort().values[round(UNRESOLVED_NEIGHBOURS / 40 * 1560) - 1].item()
    costs = [sum(weight[j] * math.log(max(D[i, j].item(), smallest)) for j in range(40)) for i in range(40)]
    best = medoid(X, torch.arange(40), weight, euclidean, generator=generator)
    assert best == min(range(40), key=lambda i: costs[i])


def test_units_of_distance_do_not_matter(generator: torch.Generator) -> None:
    X, weight = uniform(generator, 300), uniform(generator, 300, 1)[:, 0]
    units = (1.0, 1024.0)
    assert torch.equal(*(distributional_rows(unit * X, 20, generator=seeded(), weight=weight) for unit in units))


def test_points_are_rows_of_positive_weight(generator: torch.Generator) -> None:
    X = uniform(generator, 400)
    points = distributional_points(X, 20, generator=generator, weight=(X[:, 0] < 0.3).double())
    assert euclidean(points, X).min(1).values.max() == 0.0
    assert points[:, 0].max() < 0.3


def test_too_few_distinct_points_are_an_error_that_shows_the_numbers(generator: torch.Generator) -> None:
    X = uniform(generator, 5).repeat(10, 1)
    with pytest.raises(ValueError, match="must have 8 points at a distance from each other, got 5"):
        distributional_points(X, 8, generator=generator)


def test_no_more_than_a_block_of_distances_is_asked_for(generator: torch.Generator) -> None:
    """The matrix of all distances to the centres would have four blocks, that of one cluster to its members more."""
    sizes = []

    def watched(A: Tensor, B: Tensor) -> Tensor:
        sizes.append(len(A) * len(B))
        return euclidean(A, B)

    distributional_rows(uniform(generator, 8000), 128, generator=generator, distance=watched)
    distributional_rows(uniform(generator, 8000), 1, generator=generator, distance=watched)
    assert max(sizes) <= BLOCK_ENTRIES
