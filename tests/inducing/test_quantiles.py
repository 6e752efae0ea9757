import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from lobal.inducing.quantiles import quantile_points


def uniform(generator: torch.Generator, n: int) -> Tensor:
    return torch.rand(n, 1, dtype=torch.float64, generator=generator)


def test_quantiles_of_an_even_grid_are_an_even_grid() -> None:
    X = torch.arange(100, dtype=torch.float64)[:, None]
    points = quantile_points(X, 10)
    torch.testing.assert_close(points[:, 0], 4.5 + 10.0 * torch.arange(10, dtype=torch.float64))


def test_one_point_is_the_median(generator: torch.Generator) -> None:
    X = uniform(generator, 101)
    torch.testing.assert_close(quantile_points(X, 1)[0, 0], X.median())


def test_as_many_quantiles_as_points_are_the_points(generator: torch.Generator) -> None:
    X = uniform(generator, 50)
    torch.testing.assert_close(quantile_points(X, 50), X.sort(0).values)


def test_points_follow_a_target_density_through_weights(generator: torch.Generator) -> None:
    """A uniform sample weighted by t(x) = 3 x^2 gives points whose distribution function is x^3."""
    X = uniform(generator, 5000)
    points = quantile_points(X, 200, weight=3.0 * X[:, 0].square())
    assert kstest(points[:, 0].numpy(), lambda x: x**3).statistic < 0.03


def test_weights_undo_the_density_of_the_sample(generator: torch.Generator) -> None:
    """A sample from p = 2 x with weights 1 / p gives evenly spread points."""
    X = uniform(generator, 5000).sqrt()
    points = quantile_points(X, 200, weight=0.5 / X[:, 0])
    assert kstest(points[:, 0].numpy(), "uniform").statistic < 0.05


def test_the_order_of_the_sample_does_not_matter(generator: torch.Generator) -> None:
    X = uniform(generator, 60)
    weight, order = X[:, 0].exp(), torch.randperm(60, generator=generator)
    expected = quantile_points(X, 9, weight=weight)
    torch.testing.assert_close(quantile_points(X[order], 9, weight=weight[order]), expected)


def test_a_weight_of_two_equals_the_point_twice(generator: torch.Generator) -> None:
    X, weight = uniform(generator, 400), torch.ones(400, dtype=torch.float64)
    weight[:100] = 2.0
    twice = quantile_points(torch.cat([X, X[:100]]), 20)
    torch.testing.assert_close(quantile_points(X, 20, weight=weight), twice, rtol=0.0, atol=0.01)


@pytest.mark.parametrize("m", [3, 50])
def test_points_of_weight_zero_are_passed_over(m: int, generator: torch.Generator) -> None:
    X = uniform(generator, 200)
    weight = (X[:, 0] < 0.3).double()
    points = quantile_points(X, m, weight=weight)
    assert torch.isfinite(points).all()
    assert points.max() < 0.35
