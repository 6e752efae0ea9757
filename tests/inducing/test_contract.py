"""What every way of choosing inducing points promises."""

from collections.abc import Callable

import pytest
import torch
from scipy.spatial import Delaunay
from torch import Tensor

from lobal.inducing.clustering import kmeans_points
from lobal.inducing.quantiles import quantile_points
from lobal.inducing.selection import inducing_points

Select = Callable[..., Tensor]


def quantiles(X: Tensor, m: int, *, generator: torch.Generator, weight: Tensor | None = None) -> Tensor:
    return quantile_points(X, m, weight=weight)


# Every selector with the number of input columns it is tried on.
SELECTORS: dict[str, tuple[Select, int]] = {
    "quantiles": (quantiles, 1),
    "kmeans in 2 dimensions": (kmeans_points, 2),
    "kmeans in 5 dimensions": (kmeans_points, 5),
    "selection in 1 dimension": (inducing_points, 1),
    "selection in 3 dimensions": (inducing_points, 3),
}
every_selector = pytest.mark.parametrize(("select", "d"), SELECTORS.values(), ids=SELECTORS.keys())


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(n: int, d: int) -> Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=seeded(1))


def dispersion(X: Tensor, points: Tensor) -> float:
    """The largest distance of an input to its nearest point, Def. (def:dispersion)."""
    return torch.cdist(X, points).min(1).values.max().item()


@every_selector
@pytest.mark.parametrize("m", [1, 2, 13, 40])
def test_there_are_as_many_points_as_asked_for(select: Select, d: int, m: int) -> None:
    assert select(sample(200, d), m, generator=seeded()).shape == (m, d)


@every_selector
def test_points_lie_in_the_box_of_the_data(select: Select, d: int) -> None:
    X = 5.0 + sample(200, d)
    points = select(X, 30, generator=seeded())
    assert (points >= X.min(0).values).all()
    assert (points <= X.max(0).values).all()


@pytest.mark.parametrize("select", [kmeans_points, inducing_points])
def test_points_lie_in_the_convex_hull_of_the_data(select: Select) -> None:
    angle = 6.28 * sample(100, 1)[:, 0]
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)[:50]
    points = select(circle, 20, generator=seeded())
    assert (Delaunay(circle.numpy()).find_simplex(points.numpy(), tol=1e-9) >= 0).all()


@every_selector
def test_a_seed_repeats_the_points(select: Select, d: int) -> None:
    X = sample(200, d)
    torch.testing.assert_close(select(X, 20, generator=seeded(7)), select(X, 20, generator=seeded(7)))


@every_selector
def test_points_are_more_evenly_spread_than_random_ones(select: Select, d: int) -> None:
    X = sample(600, d)
    ours = dispersion(X, select(X, 30, generator=seeded()))
    random = [dispersion(X, X[torch.randperm(len(X), generator=seeded(seed))[:30]]) for seed in range(20)]
    assert ours < min(random)


@every_selector
def test_points_are_distinct(select: Select, d: int) -> None:
    points = select(sample(300, d), 40, generator=seeded())
    assert torch.pdist(points).min() > 0.0


@every_selector
def test_constant_weights_do_not_change_the_points(select: Select, d: int) -> None:
    X = sample(200, d)
    weighted = select(X, 20, generator=seeded(), weight=torch.full((200,), 3.0, dtype=torch.float64))
    torch.testing.assert_close(weighted, select(X, 20, generator=seeded()))


@every_selector
def test_points_follow_the_weights(select: Select, d: int) -> None:
    """Nine tenths of the mass on one half of the box draw more than three fifths of the points there."""
    X = sample(600, d)
    weight = torch.where(X[:, 0] < 0.5, 9.0, 1.0).double()
    heavy, even = (select(X, 40, generator=seeded(), weight=w)[:, 0] < 0.5 for w in (weight, None))
    assert heavy.double().mean() > 0.6
    assert heavy.sum() > even.sum()


@every_selector
def test_points_shift_with_the_data(select: Select, d: int) -> None:
    X = sample(200, d)
    shifted = select(X + 3.0, 20, generator=seeded())
    torch.testing.assert_close(shifted, select(X, 20, generator=seeded()) + 3.0)


@every_selector
def test_dtype_follows_the_inputs(select: Select, d: int) -> None:
    assert select(sample(100, d).float(), 10, generator=seeded()).dtype == torch.float32
