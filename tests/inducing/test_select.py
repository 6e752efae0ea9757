"""The public choice of inducing points: arguments, types and errors."""

from typing import Any

import numpy as np
import pytest
import torch

from lobal.core.kernels import gaussian, squared_distances
from lobal.inducing import select, select_inducing
from tests.inducing.setting import deviation, falling, seeded


def kernel(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return gaussian(squared_distances(A / 0.2, B / 0.2))


@pytest.mark.parametrize(
    ("d", "weighted", "method"),
    [(1, False, "quantiles"), (1, True, "quantiles"), (2, True, "cells"), (2, False, "kmeans")],
)
def test_the_automatic_method(d: int, weighted: bool, method: str, rng: np.random.Generator) -> None:
    X = rng.random((200, d))
    weight = np.exp(X[:, 0]) if weighted else None
    np.testing.assert_array_equal(select(X, 20, weight=weight), select(X, 20, weight=weight, method=method))


@pytest.mark.parametrize("d", [1, 2])
def test_arrays_and_tensors_give_the_same_points(d: int, rng: np.random.Generator) -> None:
    X = rng.random((200, d))
    weight = np.exp(-X[:, 0])
    points = select(X, 12, weight=weight, seed=3)
    X, weight = torch.as_tensor(X), torch.as_tensor(weight)
    assert isinstance(points, np.ndarray)
    np.testing.assert_array_equal(points, select(X, 12, weight=weight, seed=seeded(3)).numpy())
    np.testing.assert_array_equal(points, select_inducing(X, 12, weight=weight, generator=seeded(3)).numpy())


@pytest.mark.parametrize(("given", "kept"), [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)])
def test_the_type_is_that_of_the_inputs(given: type, kept: type, rng: np.random.Generator) -> None:
    X = (100.0 * rng.random((300, 2))).astype(given)
    assert select(X, 20, complexity=X[:, 0] + 1.0).dtype == kept
    assert select(torch.as_tensor(X), 20).numpy().dtype == kept


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["complexity", "target"])
def test_points_follow_the_geometric_mean_of_density_and_complexity(
    name: str, known: bool, d: int, generator: torch.Generator
) -> None:
    """p ~ exp(-2 x) and LFC ~ exp(-8 x) give the target exp(-5 x), whether p is given or estimated."""
    X = falling(generator, 3000, d).numpy()
    density = np.exp(-2.0 * X[:, 0]) if known else None
    values = 7.0 * np.exp(-(8.0 if name == "complexity" else 5.0) * X[:, 0])
    assert deviation(select(X, 80, density=density, **{name: values}), 5.0) < (0.08 if d == 1 else 0.13)


def test_factors_of_density_and_complexity_do_not_matter(rng: np.random.Generator) -> None:
    X = rng.random((500, 2))
    complexity, density = np.exp(X[:, 1]), np.exp(-2.0 * X[:, 0])
    expected = select(X, 30, complexity=complexity, density=density)
    np.testing.assert_allclose(select(X, 30, complexity=100.0 * complexity, density=0.01 * density), expected)


@pytest.mark.parametrize("method", ["kmeans", "distributional", "random"])
def test_the_seed_decides(method: str, rng: np.random.Generator) -> None:
    X = rng.random((300, 2))
    first, same, other = (select(X, 20, method=method, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_options_reach_the_method(rng: np.random.Generator) -> None:
    X = rng.random((400, 2))
    bounds = np.array([[0.0, 0.0], [2.0, 1.0]])
    assert select(X, 20, method="svgd", bounds=bounds)[:, 0].max() <= 2.0
    few = select(X, 20, method="fast_forward", kernel=kernel, y=np.sin(9.0 * X[:, 0]), noise=1.0, threshold=0.2)
    assert 0 < len(few) < 20


@pytest.mark.parametrize("method", ["cells", "kmeans", "svgd", "distributional", "random"])
def test_inputs_are_left_as_they_are(method: str, rng: np.random.Generator) -> None:
    X, complexity = rng.random((200, 2)), rng.random(200)
    copies = X.copy(), complexity.copy()
    select(X, 10, complexity=complexity, method=method)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(complexity, copies[1])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no points": ({"m": 0}, "must be at least 1, got 0"),
    "NaN": ({"X": np.full((50, 2), np.nan)}, "X must be finite, got nan at row 0, column 0"),
    "one axis": ({"X": np.zeros(50)}, r"X must have shape \(n, d\), got shape \(50,\)"),
    "NaN complexity": ({"complexity": np.full(50, np.nan)}, "complexity must be finite and at least zero, got nan"),
    "negative weight": ({"weight": -np.ones(50)}, "weight must be finite and at least zero, got -1.0"),
    "short target": ({"target": np.ones(7)}, r"target must .* have shape \(50,\), got shape \(7,\)"),
    "no complexity": ({"complexity": np.zeros(50)}, "complexity must be positive at one row at least, got zero at all"),
    "zero density": ({"target": np.ones(50), "density": np.zeros(50)}, "density must be finite and above zero"),
    "density alone": ({"density": np.ones(50)}, "density is used with target or complexity only"),
    "two targets": ({"weight": np.ones(50), "target": np.ones(50)}, "only one of .*'target', 'weight'"),
    "unknown method": ({"method": "magic"}, "method must be 'auto' or one of .*'svgd'.*, got 'magic'"),
    "quantiles": ({"method": "quantiles"}, "needs one input column, got 2"),
    "unknown option": ({"method": "kmeans", "distance": 1}, "options of method 'kmeans' are .*, got .*'distance'"),
    "missing option": ({"method": "variance"}, r"'variance' needs the options \['kernel'\], \['kernel'\] missing"),
    "weights of no use": (
        {"method": "fast_forward", "kernel": kernel, "y": np.ones(50), "noise": 1.0, "weight": np.ones(50)},
        "'fast_forward' does not follow a density",
    ),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_an_error_that_shows_it(given: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    arguments = {"X": rng.random((50, 2)), "m": 5, **given}
    with pytest.raises(ValueError, match=message):
        select(**arguments)
