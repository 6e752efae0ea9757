import torch
from scipy.stats import kstest

from lobal.inducing.quantiles import quantile_points
from tests.inducing.setting import uniform


def test_quantiles_of_an_even_grid_are_an_even_grid() -> None:
    X = torch.arange(100, dtype=torch.float64)[:, None]
    points = quantile_points(X, 10)
    torch.testing.assert_close(points[:, 0], 4.5 + 10.0 * torch.arange(10, dtype=torch.float64))


def test_one_point_is_the_median_and_all_points_are_the_inputs(generator: torch.Generator) -> None:
    X = uniform(generator, 101, 1)
    torch.testing.assert_close(quantile_points(X, 1)[0, 0], X.median())
    torch.testing.assert_close(quantile_points(X, 101), X.sort(0).values)


def test_points_follow_a_target_density_through_weights(generator: torch.Generator) -> None:
    """t = 3 x^2 from a uniform sample, and a uniform density from a sample of p = 2 x."""
    X = uniform(generator, 5000, 1)
    cubed = quantile_points(X, 200, weight=3.0 * X[:, 0].square())[:, 0]
    even = quantile_points(X.sqrt(), 200, weight=0.5 / X[:, 0].sqrt())[:, 0]
    assert kstest(cubed.numpy(), lambda x: x**3).statistic < 0.03
    assert kstest(even.numpy(), "uniform").statistic < 0.05


def test_a_weight_of_two_equals_the_point_twice(generator: torch.Generator) -> None:
    X, weight = uniform(generator, 400, 1), torch.ones(400, dtype=torch.float64)
    weight[:100] = 2.0
    twice = quantile_points(torch.cat([X, X[:100]]), 20)
    torch.testing.assert_close(quantile_points(X, 20, weight=weight), twice, rtol=0.0, atol=0.01)
