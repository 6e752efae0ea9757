"""What every method of choosing inducing points promises."""

import math
from typing import Any

import pytest
import torch
from scipy.spatial import Delaunay
from scipy.stats import kstest
from torch import Tensor

from lobal.inducing import METHODS, select_inducing
from tests.inducing.setting import deviation, falling, seeded, uniform


def covariance(A: Tensor, B: Tensor, bandwidth: float = 0.1) -> Tensor:
    return torch.exp(-torch.cdist(A, B) / bandwidth)


# Every method with the numbers of input columns it is tried on.
COLUMNS: dict[str, tuple[int, ...]] = {
    "auto": (1, 3),
    "quantiles": (1,),
    "cells": (1, 2, 5),
    "kmeans": (2, 5),
    "svgd": (1, 2, 3),
    "distributional": (1, 2, 5),
    "random": (2,),
    "variance": (1, 2),
    "fast_forward": (2,),
}
# The greedy methods follow a kernel instead of a density, and a random draw is not evenly spread.
GREEDY = ("variance", "fast_forward")
UNEVEN = (*GREEDY, "random")
# These follow the density of the weighted sample itself.
FOLLOWERS = ("cells", "svgd", "distributional", "random")


def cases(*left_out: str) -> pytest.MarkDecorator:
    names = [(method, d) for method, columns in COLUMNS.items() if method not in left_out for d in columns]
    return pytest.mark.parametrize(("method", "d"), names)


def sample(n: int, d: int) -> Tensor:
    return uniform(seeded(1), n, d)


def choose(method: str, X: Tensor, m: int, *, seed: int = 0, weight: Tensor | None = None) -> Tensor:
    options: dict[str, dict[str, Any]] = {
        "variance": {"kernel": covariance},
        "fast_forward": {"kernel": covariance, "y": torch.sin(9.0 * X.sum(1)), "noise": 0.1},
    }
    return select_inducing(X, m, method=method, weight=weight, generator=seeded(seed), **options.get(method, {}))


def dispersion(X: Tensor, points: Tensor) -> float:
    """The largest distance of an input to its nearest point, Def. (def:dispersion)."""
    return torch.cdist(X, points).min(1).values.max().item()


def test_every_method_is_tried() -> None:
    assert set(COLUMNS) == {"auto", *METHODS}


@cases()
@pytest.mark.parametrize("m", [1, 2, 40])
def test_there_are_as_many_distinct_points_as_asked_for_in_the_box_of_the_data(method: str, d: int, m: int) -> None:
    X = 5.0 + sample(200, d)
    points = choose(method, X, m)
    assert torch.unique(points, dim=0).shape == points.shape == (m, d)
    assert ((points >= X.min(0).values) & (points <= X.max(0).values)).all()


@pytest.mark.parametrize("method", ["auto", "cells", "kmeans", "distributional"])
def test_points_lie_in_the_convex_hull_of_the_data(method: str) -> None:
    angle = 6.28 * sample(100, 1)[:, 0]
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)[:50]
    points = choose(method, circle, 20)
    assert (Delaunay(circle.numpy()).find_simplex(points.numpy(), tol=1e-9) >= 0).all()


@cases()
def test_a_seed_repeats_the_points_and_their_type_is_that_of_the_inputs(method: str, d: int) -> None:
    for X in (sample(200, d), sample(100, d).float()):
        first, second = (choose(method, X, 20, seed=7) for _ in range(2))
        assert torch.equal(first, second)
        assert first.dtype == X.dtype


@cases(*UNEVEN)
def test_points_are_more_evenly_spread_than_random_ones(method: str, d: int) -> None:
    X = sample(600, d)
    ours = dispersion(X, choose(method, X, 30))
    random = [dispersion(X, X[torch.randperm(len(X), generator=seeded(seed))[:30]]) for seed in range(20)]
    assert ours < sorted(random)[2]  # medoids do not always beat the best of twenty


@cases("fast_forward", "auto")
def test_constant_weights_do_not_change_the_points(method: str, d: int) -> None:
    X = sample(200, d)
    weighted = choose(method, X, 20, weight=torch.full((200,), 3.0, dtype=torch.float64))
    torch.testing.assert_close(weighted, choose(method, X, 20))


@cases(*GREEDY)
def test_points_follow_the_weights(method: str, d: int) -> None:
    """Nine tenths of the mass on one half of the box attract more than three fifths of the points."""
    X = sample(600, d)
    weight = torch.where(X[:, 0] < 0.5, 9.0, 1.0).double()
    heavy, even = (choose(method, X, 40, weight=w)[:, 0] < 0.5 for w in (weight, None))
    assert heavy.double().mean() > 0.6
    assert heavy.sum() > even.sum()


@cases(*GREEDY)  # their scores are tied, and rounding decides
def test_points_shift_with_the_data(method: str, d: int) -> None:
    X = sample(200, d)
    torch.testing.assert_close(choose(method, X + 3.0, 20), choose(method, X, 20) + 3.0)


@cases()
@pytest.mark.parametrize("m", [6, 50])
def test_with_enough_points_allowed_every_distinct_input_is_one(method: str, d: int, m: int) -> None:
    X = sample(6, d)
    assert torch.equal(choose(method, X.repeat(4, 1), m), torch.unique(X, dim=0))


@cases("fast_forward")
def test_inputs_of_weight_zero_have_no_influence(method: str, d: int) -> None:
    X = sample(400, d)
    points = choose(method, X, 15, weight=(X[:, 0] < 0.3).double())
    assert torch.isfinite(points).all()
    # Quantiles and particles are interpolated between inputs.
    assert points[:, 0].max() < 0.35 or method == "svgd"


@cases(*GREEDY, "svgd")
def test_a_value_that_fills_the_sample_is_one_point(method: str, d: int) -> None:
    X = torch.cat([torch.zeros(500, d, dtype=torch.float64), 1.0 + sample(50, d)])
    points = choose(method, X, 20)
    assert 2 <= len(points) <= 20
    assert torch.pdist(points).min() > 0.0


def exponential(rate: float, n: int, d: int) -> tuple[Tensor, Tensor]:
    """A sample from p ~ exp(-2 x_1) on the unit box, and the weights that make it one from t ~ exp(-rate x_1)."""
    X = falling(seeded(1), n, d)
    return X, torch.exp((2.0 - rate) * X[:, 0])


@pytest.mark.parametrize("rate", [2.0, 6.0])
@pytest.mark.parametrize(("method", "d"), [("quantiles", 1), *((method, d) for method in FOLLOWERS for d in (1, 2))])
def test_points_follow_the_target_density(method: str, d: int, rate: float) -> None:
    X, weight = exponential(rate, 3000, d)
    points = choose(method, X, 60 if d == 1 else 100, weight=weight)
    # Sixty random points stay below 0.17 in 95 of 100 cases.
    limit = 0.17 if method == "random" else 0.11
    assert deviation(points.numpy(), rate) < limit
    for column in range(1, d):
        assert kstest(points[:, column].numpy(), "uniform").statistic < limit


@pytest.mark.parametrize(
    ("method", "d", "least", "most"),
    [
        *((method, d, 0.85, 0.95) for method in ("cells", "distributional") for d in (1, 2, 4)),
        ("kmeans", 2, 0.65, 0.85),
    ],
)
def test_denser_regions_get_their_share_of_points(method: str, d: int, least: float, most: float) -> None:
    """With p nine to one, nine to one; those of k-means follow p^(d / (2 + d)): three to one for d = 2."""
    X = sample(4000, d)
    X[400:, 0] -= 1.0
    assert least < (choose(method, X, 100)[:, 0] < 0.0).double().mean() < most


@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_the_mean_of_the_default_points_is_that_of_the_target(d: int) -> None:
    """That of t ~ exp(-5 x_1) is 0.193; points of k-means in two columns have 0.306."""
    X, weight = exponential(5.0, 2000, d)
    means = [choose(method, X, 200, weight=weight)[:, 0].mean() for method in ("auto", "kmeans")]
    assert abs(means[0] - 0.193) < 0.015
    assert d > 3 or means[1] > 0.24


@pytest.mark.parametrize("method", FOLLOWERS)
def test_distances_vary_less_than_random_ones_in_units_of_the_targets_spacing(method: str) -> None:
    """Distances to the nearest point times t^(1/d); random ones vary by 52 per cent in two dimensions."""
    X, weight = exponential(6.0, 3000, 2)
    points = choose(method, X, 100, weight=weight)
    nearest = torch.cdist(points, points).fill_diagonal_(math.inf).min(1).values
    relative = nearest * torch.exp(-3.0 * points[:, 0])
    variation = (relative.std() / relative.mean()).item()
    assert variation > 0.4 if method == "random" else variation < 0.27
