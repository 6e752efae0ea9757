import os
from pathlib import Path

import numpy as np
import pytest

from experiments.data_files import load_npz

# The experiments' data sets are no part of the repository; their folder is named in the environment.
DATA = Path(os.environ.get("LOBAL_DATA", "no data"))
X, Y = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])


def test_inputs_labels_and_extras_come_back(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=X, y=Y, Z=np.ones((3, 4)), unit="eV")
    inputs, labels, extras = load_npz(tmp_path / "data.npz")
    np.testing.assert_array_equal(inputs, X)
    np.testing.assert_array_equal(labels, Y)
    assert {name: value.shape for name, value in extras.items()} == {"Z": (3, 4), "unit": ()}


@pytest.mark.parametrize("y", [Y[:, None], Y.astype(np.float32), Y.astype(int)], ids=["column", "float32", "integers"])
def test_labels_are_a_column_of_float64(tmp_path: Path, y: np.ndarray) -> None:
    np.savez(tmp_path / "data.npz", X=X, y=y)
    labels = load_npz(tmp_path / "data.npz").y
    assert labels.dtype == np.float64
    np.testing.assert_array_equal(labels, Y)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"R": X, "y": Y}, r"must hold an array 'X', it holds R \(3, 2\), y \(3,\)"),
        ({"X": X, "E": Y}, r"must hold an array 'y', it holds X \(3, 2\), E \(3,\)"),
        ({}, "must hold an array 'X', it holds nothing"),
        ({"X": X, "y": Y[:2]}, r"y must have one value for each of the 3 rows of X, got shape \(2,\)"),
        ({"X": Y, "y": Y}, r"X must have shape \(n, d\), got shape \(3,\); use X.reshape"),
        ({"X": X, "y": [1.0, np.nan, 2.0]}, "y must be finite, got nan at row 1"),
    ],
)
def test_other_archives_are_refused_and_described(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_npz(tmp_path / "data.npz")


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(
        ValueError, match=r"data.npy must be an .npz archive; for a single .npy array use Pool.from_npy"
    ):
        load_npz(tmp_path / "data.npy")


@pytest.mark.parametrize(
    ("name", "shape", "extras"), [("ato", (2000, 8), {"Z"}), ("thermal_cavity_098", (34360, 2), {"inputDensity"})]
)
def test_the_data_sets_of_the_experiments_can_be_read(name: str, shape: tuple[int, int], extras: set[str]) -> None:
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{name}.npz is not in the folder that LOBAL_DATA names ({DATA})")
    data = load_npz(path)
    assert data.X.shape == shape
    assert set(data.extras) == extras
