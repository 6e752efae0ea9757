"""What every way of choosing inducing points promises."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from scipy.spatial import Delaunay
from scipy.stats import kstest
from torch import Tensor

from lobal.inducing.choice import distinct_quantile_points
from lobal.inducing.distributional import distributional_points
from lobal.inducing.draws import random_points
from lobal.inducing.greedy import fast_forward_points, variance_points
from lobal.inducing.kmeans import kmeans_points, matched_kmeans_points
from lobal.inducing.quantiles import quantile_points
from lobal.inducing.selection import inducing_points
from lobal.inducing.svgd import svgd_points

Select = Callable[..., Tensor]


def quantiles(X: Tensor, m: int, *, generator: torch.Generator, weight: Tensor | None = None) -> Tensor:
    return quantile_points(X, m, weight=weight)


def covariance(A: Tensor, B: Tensor, bandwidth: float = 0.1) -> Tensor:
    return torch.exp(-torch.cdist(A, B) / bandwidth)


def fast_forward(X: Tensor, m: int, **options: object) -> Tensor:
    return fast_forward_points(X, m, y=torch.sin(9.0 * X.sum(1)), kernel=covariance, noise=0.1, **options)


# Every selector with the number of input columns it is tried on.
SELECTORS: dict[str, tuple[Select, int]] = {
    "quantiles": (quantiles, 1),
    "distinct quantiles": (distinct_quantile_points, 1),
    "kmeans in 2 dimensions": (kmeans_points, 2),
    "kmeans in 5 dimensions": (kmeans_points, 5),
    "matched kmeans in 2 dimensions": (matched_kmeans_points, 2),
    "matched kmeans in 5 dimensions": (matched_kmeans_points, 5),
    "distributional clustering in 1 dimension": (distributional_points, 1),
    "distributional clustering in 2 dimensions": (distributional_points, 2),
    "distributional clustering in 5 dimensions": (distributional_points, 5),
    "Stein descent in 1 dimension": (svgd_points, 1),
    "Stein descent in 2 dimensions": (svgd_points, 2),
    "Stein descent in 3 dimensions": (svgd_points, 3),
    "selection in 1 dimension": (inducing_points, 1),
    "selection in 3 dimensions": (inducing_points, 3),
}
# These promise less: a draw is not spread out, and the greedy ones go by a kernel and not by densities.
UNEVEN: dict[str, tuple[Select, int]] = {"random": (random_points, 2)}
GREEDY: dict[str, tuple[Select, int]] = {
    "greedy variance in 1 dimension": (partial(variance_points, kernel=covariance), 1),
    "greedy variance in 2 dimensions": (partial(variance_points, kernel=covariance), 2),
    "fast forward in 2 dimensions": (fast_forward, 2),
}
EVERY = {**SELECTORS, **UNEVEN, **GREEDY}
# These follow the density of the weighted sample itself.
FOLLOWERS: dict[str, Select] = {
    "matched kmeans": matched_kmeans_points,
    "distributional clustering": distributional_points,
    "Stein descent": svgd_points,
    "random": random_points,
}

every_selector = pytest.mark.parametrize(("select", "d"), EVERY.values(), ids=EVERY.keys())
every_even_selector = pytest.mark.parametrize(("select", "d"), SELECTORS.values(), ids=SELECTORS.keys())
every_weighted_selector = pytest.mark.parametrize(
    ("select", "d"), {**SELECTORS, **UNEVEN}.values(), ids={**SELECTORS, **UNEVEN}.keys()
)
every_follower = pytest.mark.parametrize("select", FOLLOWERS.values(), ids=FOLLOWERS.keys())


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(n: int, d: int) -> Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=seeded(1))


def dispersion(X: Tensor, points: Tensor) -> float:
    """The largest distance of an input to its nearest point, Def. (def:dispersion)."""
    return torch.cdist(X, points).min(1).values.max().item()


@every_selector
@pytest.mark.parametrize("m", [1, 2, 40])
def test_there_are_as_many_points_as_asked_for(select: Select, d: int, m: int) -> None:
    assert select(sample(200, d), m, generator=seeded()).shape == (m, d)


@every_selector
def test_points_lie_in_the_box_of_the_data(select: Select, d: int) -> None:
    X = 5.0 + sample(200, d)
    points = select(X, 30, generator=seeded())
    assert (points >= X.min(0).values).all()
    assert (points <= X.max(0).values).all()


@pytest.mark.parametrize("select", [kmeans_points, matched_kmeans_points, distributional_points, inducing_points])
def test_points_lie_in_the_convex_hull_of_the_data(select: Select) -> None:
    angle = 6.28 * sample(100, 1)[:, 0]
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)[:50]
    points = select(circle, 20, generator=seeded())
    assert (Delaunay(circle.numpy()).find_simplex(points.numpy(), tol=1e-9) >= 0).all()


@every_selector
def test_a_seed_repeats_the_points(select: Select, d: int) -> None:
    X = sample(200, d)
    torch.testing.assert_close(select(X, 20, generator=seeded(7)), select(X, 20, generator=seeded(7)))


@every_even_selector
def test_points_are_more_evenly_spread_than_random_ones(select: Select, d: int) -> None:
    X = sample(600, d)
    ours = dispersion(X, select(X, 30, generator=seeded()))
    random = [dispersion(X, X[torch.randperm(len(X), generator=seeded(seed))[:30]]) for seed in range(20)]
    assert ours < sorted(random)[2]  # medoids are not always ahead of the luckiest of twenty


@every_selector
def test_points_are_distinct(select: Select, d: int) -> None:
    points = select(sample(300, d), 40, generator=seeded())
    assert torch.pdist(points).min() > 0.0


@every_selector
def test_constant_weights_do_not_change_the_points(select: Select, d: int) -> None:
    X = sample(200, d)
    weighted = select(X, 20, generator=seeded(), weight=torch.full((200,), 3.0, dtype=torch.float64))
    torch.testing.assert_close(weighted, select(X, 20, generator=seeded()))


@every_weighted_selector
def test_points_follow_the_weights(select: Select, d: int) -> None:
    """Nine tenths of the mass on one half of the box draw more than three fifths of the points there."""
    X = sample(600, d)
    weight = torch.where(X[:, 0] < 0.5, 9.0, 1.0).double()
    heavy, even = (select(X, 40, generator=seeded(), weight=w)[:, 0] < 0.5 for w in (weight, None))
    assert heavy.double().mean() > 0.6
    assert heavy.sum() > even.sum()


@every_weighted_selector  # scores of the greedy ones tie, and rounding decides
def test_points_shift_with_the_data(select: Select, d: int) -> None:
    X = sample(200, d)
    shifted = select(X + 3.0, 20, generator=seeded())
    torch.testing.assert_close(shifted, select(X, 20, generator=seeded()) + 3.0)


@every_selector
def test_dtype_follows_the_inputs(select: Select, d: int) -> None:
    assert select(sample(100, d).float(), 10, generator=seeded()).dtype == torch.float32


def exponential(rate: float, n: int, d: int) -> tuple[Tensor, Tensor]:
    """A sample from p ~ exp(-2 x_1) on the unit box, and the weights that make it one from t ~ exp(-rate x_1)."""
    X = sample(n, d)
    X[:, 0] = -torch.log1p(-X[:, 0] * (1.0 - math.exp(-2.0))) / 2.0
    return X, torch.exp((2.0 - rate) * X[:, 0])


def share_below(x: Tensor, rate: float) -> Tensor:
    """The distribution function of t in the first column."""
    return torch.expm1(-rate * x) / math.expm1(-rate)


@pytest.mark.parametrize("rate", [2.0, 6.0])
@pytest.mark.parametrize("select", [*FOLLOWERS.values(), quantiles], ids=[*FOLLOWERS, "quantiles"])
def test_points_follow_the_target_density_in_one_dimension(select: Select, rate: float) -> None:
    X, weight = exponential(rate, 3000, 1)
    points = select(X, 60, generator=seeded(), weight=weight)
    # Sixty random points stay below 0.17 in 95 of 100 cases.
    limit = 0.17 if select is random_points else 0.1
    assert kstest(share_below(points[:, 0], rate).numpy(), "uniform").statistic < limit


@pytest.mark.parametrize("rate", [2.0, 6.0])
@every_follower
def test_points_follow_the_target_density_in_two_dimensions(select: Select, rate: float) -> None:
    """Both columns, mapped by the distribution function of the target, are uniform."""
    X, weight = exponential(rate, 3000, 2)
    points = select(X, 100, generator=seeded(), weight=weight)
    limit = 0.17 if select is random_points else 0.11
    for column in (share_below(points[:, 0], rate), points[:, 1]):
        assert kstest(column.numpy(), "uniform").statistic < limit


@every_follower
def test_distances_vary_less_than_random_ones_in_units_of_the_targets_spacing(select: Select) -> None:
    """Distances to the nearest point times t^(1/d); random ones vary by 52 per cent in two dimensions."""
    X, weight = exponential(6.0, 3000, 2)
    points = select(X, 100, generator=seeded(), weight=weight)
    nearest = torch.cdist(points, points).fill_diagonal_(math.inf).min(1).values
    relative = nearest * torch.exp(-3.0 * points[:, 0])
    variation = (relative.std() / relative.mean()).item()
    assert variation > 0.4 if select is random_points else variation < 0.27
