"""The public choice of inducing points."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest

import lobal.inducing
from lobal.core.kernels import gaussian, squared_distances
from lobal.inducing import METHODS, select
from lobal.inducing.choice import distinct_quantile_points


def kernel(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return gaussian(squared_distances(A / 0.2, B / 0.2))


def options(method: str, n: int) -> dict[str, Any]:
    """What a method cannot do without."""
    needs: dict[str, dict[str, Any]] = {
        "variance": {"kernel": kernel},
        "fast_forward": {"kernel": kernel, "y": np.linspace(-1.0, 1.0, n), "noise": 0.1},
    }
    return needs.get(method, {})


ANY_DIMENSION = [None, *(method for method in METHODS if method != "quantiles")]


def falling(rng: np.random.Generator, n: int, d: int, rate: float = 2.0) -> np.ndarray:
    """A sample from p ~ exp(-rate x_1) on the unit box."""
    X = rng.random((n, d))
    X[:, 0] = -np.log1p(-X[:, 0] * (1.0 - math.exp(-rate))) / rate
    return X


@pytest.mark.parametrize(("method", "d"), [*product([None, *METHODS], [1]), *product(ANY_DIMENSION, [2])])
def test_every_method_takes_arrays_and_tensors(method: str | None, d: int, rng: np.random.Generator) -> None:
    X = rng.random((200, d))
    given = {"complexity": np.exp(-X[:, 0]), "method": method, "seed": 3, **options(method or "", 200)}
    points = select(X, 12, **given)
    tensor = select(torch.as_tensor(X), 12, **given)
    assert isinstance(points, np.ndarray)
    assert points.shape == (12, d)
    np.testing.assert_array_equal(points, tensor.numpy())


@pytest.mark.parametrize(("given", "kept"), [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)])
def test_the_type_is_that_of_the_inputs(given: type, kept: type, rng: np.random.Generator) -> None:
    X = (100.0 * rng.random((300, 2))).astype(given)
    assert select(X, 20, complexity=X[:, 0] + 1.0).dtype == kept
    assert select(torch.as_tensor(X), 20).numpy().dtype == kept


@pytest.mark.parametrize("method", ["quantiles", "matched_kmeans", "distributional"])
@pytest.mark.parametrize("known", [True, False])
def test_points_follow_the_geometric_mean_of_density_and_complexity(
    method: str, known: bool, rng: np.random.Generator
) -> None:
    """p ~ exp(-2 x) and LFC ~ exp(-8 x) give exp(-5 x), whether p is given or estimated."""
    X = falling(rng, 3000, 1)
    density = np.exp(-2.0 * X[:, 0]) if known else None
    points = select(X, 80, complexity=7.0 * np.exp(-8.0 * X[:, 0]), density=density, method=method)
    assert kstest(np.expm1(-5.0 * points[:, 0]) / math.expm1(-5.0), "uniform").statistic < 0.08


@pytest.mark.parametrize("d", [1, 2])
def test_without_complexity_points_follow_the_inputs(d: int, rng: np.random.Generator) -> None:
    points = select(falling(rng, 3000, d, rate=4.0), 80)
    assert kstest(np.expm1(-4.0 * points[:, 0]) / math.expm1(-4.0), "uniform").statistic < 0.07


def test_factors_of_density_and_complexity_do_not_matter(rng: np.random.Generator) -> None:
    X = falling(rng, 500, 2)
    complexity, density = np.exp(X[:, 1]), np.exp(-2.0 * X[:, 0])
    expected = select(X, 30, complexity=complexity, density=density)
    np.testing.assert_allclose(select(X, 30, complexity=100.0 * complexity, density=0.01 * density), expected)


@pytest.mark.parametrize("method", ["matched_kmeans", "svgd", "distributional", "random"])
def test_the_seed_decides(method: str, rng: np.random.Generator) -> None:
    X = rng.random((300, 2))
    first, same, other = (select(X, 20, method=method, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("d", [1, 2])
def test_a_value_that_fills_the_sample_is_one_point(d: int, rng: np.random.Generator) -> None:
    X = np.concatenate([np.zeros((500, d)), rng.random((50, d))])
    assert len(np.unique(select(X, 20), axis=0)) == 20


def test_as_many_quantiles_as_distinct_values_are_the_values() -> None:
    X = torch.tensor([3.0, 1.0, 1.0, 2.0, 1.0], dtype=torch.float64)[:, None]
    torch.testing.assert_close(distinct_quantile_points(X, 3)[:, 0], torch.tensor([1.0, 2.0, 3.0]).double())


def test_the_quality_of_variance_reduction_is_the_complexity(rng: np.random.Generator) -> None:
    X = rng.random((300, 2))
    plain, drawn = (
        select(X, 30, method="variance", kernel=kernel, complexity=c) for c in (None, np.exp(-9.0 * X[:, 0]))
    )
    assert (drawn[:, 0] < 0.5).sum() > (plain[:, 0] < 0.5).sum() + 4


def test_options_reach_the_method(rng: np.random.Generator) -> None:
    X = rng.random((400, 2))
    bounds = np.array([[0.0, 0.0], [2.0, 1.0]])
    assert select(X, 20, method="svgd", bounds=bounds)[:, 0].max() <= 2.0
    few = select(X, 20, method="fast_forward", kernel=kernel, y=np.sin(9.0 * X[:, 0]), noise=1.0, threshold=0.2)
    assert 0 < len(few) < 20


def test_inputs_are_left_as_they_are(rng: np.random.Generator) -> None:
    X, complexity = rng.random((200, 2)), rng.random(200)
    copies = X.copy(), complexity.copy()
    for method in ("matched_kmeans", "svgd", "distributional", "random"):
        select(X, 10, complexity=complexity, method=method)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(complexity, copies[1])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no points": ({"m": 0}, "must be at least 1, got 0"),
    "too many points": ({"m": 51}, "must be 51 distinct inputs of positive complexity at least, got 50"),
    "repeated inputs": ({"X": np.zeros((50, 2)), "m": 2}, "got 1; lower m"),
    "NaN": ({"X": np.full((50, 2), np.nan)}, "X must be finite, got nan at row 0, column 0"),
    "one axis": ({"X": np.zeros(50)}, r"X must have shape \(n, d\), got shape \(50,\)"),
    "NaN complexity": ({"complexity": np.full(50, np.nan)}, "complexity must be finite and at least zero, got nan"),
    "negative complexity": ({"complexity": -np.ones(50)}, "complexity must be finite and at least zero, got -1.0"),
    "short complexity": ({"complexity": np.ones(7)}, r"complexity must .* have shape \(50,\), got shape \(7,\)"),
    "no complexity": ({"complexity": np.zeros(50)}, "distinct inputs of positive complexity at least, got 0"),
    "zero density": ({"density": np.zeros(50)}, "density must be finite and above zero, got 0.0"),
    "unknown method": ({"method": "magic"}, "method must be one of .*'svgd'.*, got 'magic'"),
    "quantiles": ({"method": "quantiles"}, "for one input column, got 2"),
    "unknown option": ({"method": "kmeans", "distance": 1}, "options of method 'kmeans' are .*, got .*'distance'"),
    "missing option": ({"method": "variance"}, "method 'variance' needs the options .*'kernel'"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_an_error_that_shows_it(given: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    arguments = {"X": rng.random((50, 2)), "m": 5, **given}
    with pytest.raises(ValueError, match=message):
        select(**arguments)


def test_the_choice_is_public() -> None:
    assert lobal.inducing.select is select
