"""Shape aliases, devices, checks of arrays that users pass in, and arrays larger than the memory."""

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from numpy import ndarray
from torch import Tensor

from lobal.core.real_numbers import as_numbers, check_complete

Scalar: TypeAlias = Float[Tensor, ""]
Inputs: TypeAlias = Float[Tensor, "n d"]
Bandwidths: TypeAlias = Float[Tensor, " L"]

# Arrays that may not fit into memory are read this many numbers at a time: 4 MiB in float64.
SLICE_ENTRIES = 2**19
# Rows here and there that are read before pages are given back: the system may map half a mebibyte around each.
SCATTERED = 2**6
# Rows that a fingerprint covers: enough to tell data sets apart, and read quickly from any disk.
FINGERPRINT_ROWS = 1024
PUT_BACK = "put it back, or say where it is: pool=lobal.Pool.from_npy(...)"


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The device to compute on: `None` is the CPU, `"auto"` a GPU if there is one.

    Raises:
        ValueError: the name is not that of a device, or no GPU is available.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device or "cpu")
    except RuntimeError as error:
        raise ValueError(f"device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {device!r}") from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but no GPU is available; use device='auto' or 'cpu'")
    return resolved


def as_column(values: object, *, name: str, length: int, positive: bool = False) -> Float[ndarray, " n"]:
    """`values` as float64 numbers of the given length, finite and at least zero; above zero with `positive`.

    A scalar stands for a constant column.
    """
    column = as_numbers(values, name=name)
    if column.ndim == 0:
        column = np.full(length, column)
    if column.shape != (length,):
        raise ValueError(f"{name} must be a number or have shape ({length},), got shape {column.shape}")
    wrong = ~np.isfinite(column) | ((column <= 0) if positive else (column < 0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        bound = "above zero" if positive else "at least zero"
        raise ValueError(f"{name} must be finite and {bound}, got {column[first]} at row {first}")
    return column


def row_slices(n: int, columns: int) -> Iterator[slice]:
    """Consecutive slices that cover n rows, each of at most `SLICE_ENTRIES` numbers (but at least one row)."""
    rows = max(1, SLICE_ENTRIES // max(1, columns))
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def row_parts(X: Real[ndarray, "n d"]) -> Iterator[tuple[slice, Float[ndarray, "m d"]]]:
    """Consecutive rows of an array that may be memory-mapped, in float64, each part with its slice."""
    return ((rows, rows_at(X, rows)) for rows in row_slices(*X.shape))


def rows_at(X: Real[ndarray, "n d"], rows: slice | Int[ndarray, " m"]) -> Float[ndarray, "m d"]:
    """Rows of an array that may be memory-mapped, copied to memory in float64."""
    if isinstance(rows, slice):
        part = np.array(X[rows], dtype=np.float64)
        give_back_pages(X)
        return part
    part = np.empty((len(rows), X.shape[1]))
    for start in range(0, len(rows), SCATTERED):
        part[start : start + SCATTERED] = X[rows[start : start + SCATTERED]]
        give_back_pages(X)
    return part


def column_of(X: Real[ndarray, "n d"], column: int) -> Real[ndarray, " n"]:
    """One column of an array that may be memory-mapped, copied to memory."""
    values = np.empty(len(X), dtype=X.dtype)
    for rows in row_slices(*X.shape):
        values[rows] = X[rows, column]
        give_back_pages(X)
    return values


def give_back_pages(X: Real[ndarray, "..."]) -> None:
    """Release the pages of a memory-mapped array that have been read; they are read again when needed.

    Otherwise they count as memory of this process until the system reclaims them, up to the size of the file.
    """
    mapped = mapped_file(X)
    # In mode "c" pages that have been written to exist in memory only.
    if mapped is not None and mapped.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        cast("mmap.mmap", mapped.base).madvise(mmap.MADV_DONTNEED)


def mapped_file(X: Real[ndarray, "..."]) -> "np.memmap[Any, Any] | None":
    """The memory-mapped array that X is or is a view of; None if its numbers are in memory."""
    base = X
    while isinstance(base.base, ndarray):
        base = base.base
    return base if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap) else None


def as_matrix(values: object, *, name: str) -> Real[ndarray, "n d"]:
    """`values` as a two-dimensional array of finite numbers.

    A numeric array, memory-mapped ones included, is neither copied nor cast, and is checked slice by slice.
    """
    check_complete(values, name=name)
    matrix = values if isinstance(values, np.memmap) else np.asarray(values)
    if matrix.dtype.kind in "bO":  # Boolean values and data frames with columns of several types
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be numbers, got {error}") from error
    if matrix.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got dtype {matrix.dtype}")
    if matrix.ndim == 1:
        hint = f"use {name}.reshape(-1, 1) for a single column and {name}.reshape(1, -1) for a single row"
        raise ValueError(f"{name} must have shape (n, d), got shape {matrix.shape}; {hint}")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must have shape (n, d) with n and d at least 1, got shape {matrix.shape}")
    for rows in row_slices(*matrix.shape):
        wrong = ~np.isfinite(matrix[rows])
        if wrong.any():
            row, column = (int(first) for first in np.argwhere(wrong)[0])
            value = matrix[rows][row, column]
            raise ValueError(f"{name} must be finite, got {value} at row {rows.start + row}, column {column}")
        give_back_pages(matrix)
    return matrix


class MappedArray(NamedTuple):
    """The location of an array in a file, in types that JSON can hold, and a fingerprint of the array."""

    file: str
    offset: int  # of the first number, in bytes
    dtype: str
    shape: list[int]
    strides: list[int]  # in bytes
    fingerprint: str

    @staticmethod
    def of(X: Real[ndarray, "n d"]) -> "MappedArray | None":
        """The location of a memory-mapped array or of a view of one; None if its numbers are in memory only."""
        whole = mapped_file(X)
        if whole is None or whole.filename is None or whole.mode == "c":  # "c": changes stay in memory
            return None
        address, start = (array.__array_interface__["data"][0] for array in (X, whole))
        return MappedArray(
            file=str(Path(whole.filename).absolute()),
            offset=whole.offset + address - start,
            dtype=X.dtype.str,
            shape=list(X.shape),
            strides=list(X.strides),
            fingerprint=fingerprint(X),
        )

    def open(self, X: Real[ndarray, "n d"] | None = None) -> Real[ndarray, "n d"]:
        """The array, memory-mapped; or X, if it holds the same numbers.

        Raises:
            FileNotFoundError: the file is gone.
            ValueError: the file, or X, holds other numbers.
        """
        if X is None and not Path(self.file).exists():
            raise FileNotFoundError(f"the campaign's pool was the file {self.file}, which is gone; {PUT_BACK}")
        found = self._view() if X is None else X
        if fingerprint(found) != self.fingerprint:
            where = f"the file {self.file}, which has changed" if X is None else f"another, not this of shape {X.shape}"
            raise ValueError(f"the campaign's pool was {where}; {PUT_BACK}")
        return found

    def _view(self) -> Real[ndarray, "n d"]:
        try:
            content = np.memmap(self.file, dtype=np.uint8, mode="r")
            return ndarray(tuple(self.shape), self.dtype, content, self.offset, tuple(self.strides)).view(np.memmap)
        except (TypeError, ValueError) as error:  # too few bytes
            raise ValueError(f"the campaign's pool was the file {self.file}, now too short; {PUT_BACK}") from error


def fingerprint(X: Real[ndarray, "n d"]) -> str:
    """A hash of the shape of an array and of evenly spaced rows in float64."""
    rows = np.unique(np.linspace(0, len(X) - 1, FINGERPRINT_ROWS).round().astype(np.int64))
    content = np.ascontiguousarray(rows_at(X, rows)).tobytes()
    return hashlib.sha256(repr(X.shape).encode() + content).hexdigest()
