import pytest
import torch
from torch import Tensor

from lobal.inducing.kmeans import kmeans_points
from lobal.inducing.quantiles import quantile_points
from lobal.inducing.selection import inducing_points

every_dimension = pytest.mark.parametrize("d", [1, 3])


def uniform(generator: torch.Generator, n: int, d: int) -> Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=generator)


def rows(X: Tensor) -> set[tuple[float, ...]]:
    return set(map(tuple, X.tolist()))


@every_dimension
@pytest.mark.parametrize("m", [20, 21, 500])
def test_with_enough_points_allowed_every_input_is_one(d: int, m: int, generator: torch.Generator) -> None:
    X = uniform(generator, 20, d)
    points = inducing_points(X, m, generator=generator)
    assert len(points) == 20
    assert rows(points) == rows(X)


@every_dimension
def test_duplicates_count_once(d: int, generator: torch.Generator) -> None:
    X = uniform(generator, 6, d)
    points = inducing_points(X.repeat(10, 1), 8, generator=generator)
    assert len(points) == 6
    assert rows(points) == rows(X)


@every_dimension
def test_one_input_is_its_own_inducing_point(d: int, generator: torch.Generator) -> None:
    X = uniform(generator, 1, d)
    torch.testing.assert_close(inducing_points(X.repeat(30, 1), 5, generator=generator), X)


@every_dimension
def test_a_value_that_fills_the_sample_gives_one_inducing_point(d: int, generator: torch.Generator) -> None:
    X = torch.cat([torch.zeros(500, d, dtype=torch.float64), 1.0 + uniform(generator, 50, d)])
    points = inducing_points(X, 20, generator=generator)
    assert 2 <= len(points) <= 20
    assert torch.pdist(points).min() > 0.0


@every_dimension
@pytest.mark.parametrize("m", [0, -3])
def test_fewer_than_one_point_is_an_error_that_shows_the_number(d: int, m: int, generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match=f"the number of inducing points must be at least 1, got {m}"):
        inducing_points(uniform(generator, 20, d), m, generator=generator)


def test_one_dimension_is_cut_into_quantiles(generator: torch.Generator) -> None:
    X = uniform(generator, 100, 1)
    weight = X[:, 0].exp()
    ours = inducing_points(X, 10, generator=generator, weight=weight)
    torch.testing.assert_close(ours, quantile_points(X, 10, weight=weight))


def test_more_dimensions_are_clustered(generator: torch.Generator) -> None:
    X = uniform(generator, 100, 2)
    weight = X[:, 0].exp()
    ours = inducing_points(X, 10, generator=torch.Generator().manual_seed(5), weight=weight)
    expected = kmeans_points(X, 10, generator=torch.Generator().manual_seed(5), weight=weight)
    assert rows(ours) == rows(expected)
