"""Data sets in files."""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Real, Shaped
from numpy import ndarray

from lobal.core.arrays import as_matrix


class DataSet(NamedTuple):
    """Inputs, labels and whatever else a file holds, by name."""

    X: Real[ndarray, "n d"]
    y: Float[ndarray, " n"]
    extras: dict[str, Shaped[ndarray, "..."]]


def load_npz(path: str | Path) -> DataSet:
    """The inputs `X`, the labels `y` and all other arrays of an `.npz` file.

    Labels come as float64 of shape (n,), also from a file that holds them as (n, 1).

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no `.npz` archive, lacks one of the two, or they are not finite numbers of n rows.
    """
    if Path(path).exists() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path} must be an .npz archive; for a single .npy array use Pool.from_npy")
    with np.load(path, allow_pickle=False) as archive:
        arrays: dict[str, ndarray[Any, Any]] = {name: archive[name] for name in archive.files}
    for name in ("X", "y"):
        if name not in arrays:
            present = ", ".join(f"{key} {value.shape}" for key, value in arrays.items()) or "nothing"
            raise ValueError(f"{path} must hold an array {name!r}, it holds {present}")
    X, y = as_matrix(arrays.pop("X"), name="X"), arrays.pop("y")
    if y.shape not in [(len(X),), (len(X), 1)]:
        raise ValueError(f"y must have one value for each of the {len(X)} rows of X, got shape {y.shape}")
    return DataSet(X, as_matrix(y.reshape(-1, 1), name="y")[:, 0].astype(np.float64), arrays)
