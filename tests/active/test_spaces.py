"""Pools and boxes: the contract, and what they accept."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lobal.active.spaces import Box, Pool, Space
from tests.active.contracts import SpaceContract

ROWS = [[0, 1], [2, 3], [4, 5]]
X = np.random.default_rng(0).random((60, 2))
SPACES = {
    "pool": Pool(X),
    "uniform": Pool(X.astype(np.float32), test_density="uniform"),
    "box": Box([0.0, -1.0], [1.0, 1.0], n_candidates=64),
}


class TestArraySpaces(SpaceContract):
    @pytest.fixture(params=SPACES.values(), ids=SPACES)
    def space(self, request: pytest.FixtureRequest) -> Space:
        return request.param

    @pytest.fixture
    def labels(self) -> Any:
        return np.ones


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        np.array(ROWS),
        np.array(ROWS, dtype=np.float32),
        pd.DataFrame(ROWS),
        pd.DataFrame({"a": [True, 0], "b": 2}),
    ],
    ids=["list", "integers", "float32", "frame", "mixed frame"],
)
def test_a_pool_takes_lists_arrays_and_frames(X: Any) -> None:
    pool = Pool(X)
    assert pool.dimension == 2
    np.testing.assert_array_equal(pool.X, np.asarray(X, dtype=float))
    assert pool.X is X or not isinstance(X, np.ndarray)  # arrays are neither copied nor cast


def test_a_pool_in_a_file_stays_there(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", np.arange(20, dtype=np.float32).reshape(10, 2))
    pool = Pool.from_npy(tmp_path / "pool.npy", test_density="uniform")
    assert isinstance(pool.X, np.memmap)
    assert (len(pool), pool.dimension, pool.X.dtype, pool.test_density) == (10, 2, np.float32, "uniform")


def test_an_archive_is_no_pool(tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", X=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"must hold one array, got an archive; use numpy\.load"):
        Pool.from_npy(tmp_path / "pool.npz")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], r"got shape \(2,\); use X.reshape\(-1, 1\) for a single column"),
        ([], r"X must have shape \(n, d\), got shape \(0,\)"),
        (np.ones((0, 2)), r"at least 1, got shape \(0, 2\)"),
        (pd.DataFrame({"a": ["x", 1]}), "X must be numbers, got could not convert string"),
        ([[1j]], "must be real numbers, got dtype complex128"),
        ([[1.0, 2.0], [3.0, np.nan]], "must be finite, got nan at row 1, column 1"),
    ],
)
def test_impossible_pools_are_refused_and_shown(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pool(X)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_densities_come_as_float64_columns(shape: tuple[int, ...]) -> None:
    values = np.array([1, 2, 3]).reshape(shape)
    pool = Pool(ROWS, density=values, test_density=values.tolist())
    np.testing.assert_array_equal(pool.density, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(pool.test_density, [1.0, 2.0, 3.0])
    assert isinstance(pool.density, np.ndarray)
    assert pool.density.dtype == np.float64


@pytest.mark.parametrize(
    ("densities", "message"),
    [
        ({"density": [1.0, 0.0, 1.0]}, "density must be finite and above zero, got 0.0 at row 1"),
        ({"density": [1.0, 2.0]}, r"density must be a number or have shape \(3,\), got shape \(2,\)"),
        ({"test_density": [1.0, -2.0, 1.0]}, "test_density must be finite and at least zero, got -2.0 at row 1"),
        (
            {"test_density": "box"},
            "test_density must be 'pool', 'uniform', values at the pool or a function, got 'box'",
        ),
        ({"test_density": np.ones((3, 3))}, r"got shape \(3, 3\)"),
    ],
)
def test_impossible_densities_are_refused_and_shown(densities: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pool(ROWS, **densities)


def test_functions_are_kept_as_densities() -> None:
    def density(X: np.ndarray) -> np.ndarray:
        return np.ones(len(X))

    pool = Pool(ROWS, density=density, test_density=density)
    assert pool.density is density
    assert pool.test_density is density


def test_a_box_takes_numbers_and_sequences() -> None:
    line, plane = Box(0, 1), Box([0, -1], np.array([1, 2], dtype=np.float32), n_candidates=64)
    assert (line.dimension, line.lower.tolist(), line.upper.tolist()) == (1, [0.0], [1.0])
    assert (plane.dimension, plane.n_candidates, plane.upper.tolist()) == (2, 64, [1.0, 2.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lower": [0.0, 1.0], "upper": [1.0, 1.0]}, r"lower must lie below upper, got \[0.0, 1.0\] and \[1.0, 1.0\]"),
        ({"lower": [0.0], "upper": [1.0, 1.0]}, "equally long, got 1 and 2 values"),
        ({"lower": np.nan, "upper": 1.0}, "lower must be a list of finite numbers, one per input column, got nan"),
        ({"lower": 0.0, "upper": np.inf}, "upper must be a list of finite numbers"),
        ({"lower": [], "upper": []}, "lower must be a list of finite numbers"),
        ({"lower": [[0.0]], "upper": [[1.0]]}, "lower must be a list of finite numbers"),
        ({"lower": 0.0, "upper": 1.0, "n_candidates": 0}, "n_candidates must be at least 1, got 0"),
        ({"lower": 0.0, "upper": 1.0, "test_density": "pool"}, "of a box must be 'uniform' or a function, got 'pool'"),
    ],
)
def test_impossible_boxes_are_refused_and_shown(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Box(**arguments)


def test_spaces_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field"):
        Box(0.0, 1.0).n_candidates = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (np.zeros((3, 2)), r"must be a pair \(X, y\)"),
        (([[0.0]],), r"must be a pair \(X, y\)"),
        (([0.0, 1.0], [0.0, 1.0]), r"X of validation must have shape \(n, d\), got shape \(2,\)"),
        (([[0.0], [1.0]], [0.0, 1.0]), r"must have 2 columns, .* got shape \(2, 1\)"),
        (([[0.0, 1.0]], [0.0, 1.0]), r"must be 1 finite labels, .* got shape \(2,\)"),
        (([[0.0, 1.0]], [math.nan]), "NaN or infinite"),
        (([[0.0, math.nan]], [1.0]), "X of validation must be finite, got nan at row 0, column 1"),
        (([[0.0, 1.0]], ["high"]), "y of validation must be numbers"),
    ],
)
def test_validation_is_inputs_and_labels(validation: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Pool([[0.0, 1.0]]).checked_validation(validation)


def test_masked_and_missing_inputs_are_refused_with_row_and_column() -> None:
    masked = np.ma.masked_array(np.zeros((3, 2)), mask=np.arange(6).reshape(3, 2) == 3)
    with pytest.raises(ValueError, match="X must have no gaps, got a masked or missing value at row 1, column 1"):
        Pool(masked)
    with pytest.raises(ValueError, match="X must have no gaps, got a masked or missing value at row 1, column 0"):
        Pool(pd.DataFrame({"a": pd.array([1.0, None], dtype="Float64"), "b": [1.0, 2.0]}))


def test_masked_labels_cannot_validate() -> None:
    y = np.ma.masked_array([1.0, 9.0], mask=[False, True])
    with pytest.raises(ValueError, match="NaN or infinite"):
        Pool(np.zeros((3, 1))).checked_validation((np.zeros((2, 1)), y))
