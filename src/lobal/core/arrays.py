"""Shape aliases, devices, checks of arrays that users pass in, and arrays larger than the memory."""

import hashlib
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from numpy import ndarray
from torch import Tensor

from lobal.core.files import open_plain
from lobal.core.real_numbers import as_numbers, check_complete
from lobal.core.schema import list_of, table, text, whole

Scalar: TypeAlias = Float[Tensor, ""]
Inputs: TypeAlias = Float[Tensor, "n d"]
Bandwidths: TypeAlias = Float[Tensor, " L"]

# Arrays that may not fit into memory are read this many numbers at a time: 4 MiB in float64.
SLICE_ENTRIES = 2**19
# Rows here and there that are read before pages are given back: the system may map half a mebibyte around each.
SCATTERED = 2**6
# A fingerprint covers an array up to 64 MiB in float64 as a whole, and a larger one by so many blocks of consecutive
# rows, evenly spaced, of this many numbers together: read in a second from any disk.
FINGERPRINT_BLOCKS = 1024
FINGERPRINT_ENTRIES = 2**23
EARLIER_ROWS = 1024  # single rows that fingerprints of earlier versions cover
BLOCKS = "blocks:"  # what other fingerprints begin with
# Types of numbers in files, as NumPy writes them.
ORDERED = ("f2", "f4", "f8", "f16", "i2", "i4", "i8", "u2", "u4", "u8")
DTYPES = {"|i1", "|u1", *(order + kind for order in "<>" for kind in ORDERED)}
PUT_BACK = "put it back, or say where it is: pool=lobal.Pool.from_npy(...)"


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The device to compute on: `None` is the CPU, `"auto"` a GPU if there is one.

    Raises:
        TypeError: it is no name, such as a number.
        ValueError: the name is not that of a device, or no GPU is available.
    """
    if not isinstance(device, str | torch.device | None):
        raise TypeError(f"device must be the name of one, such as 'cpu' or 'cuda:0', got {device!r}")
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


MAPPED_ARRAY = table(
    {
        "file": text(),
        "offset": whole(),
        "dtype": text(*DTYPES),
        "shape": list_of(whole(1), 2),
        "strides": list_of(whole(-(2**62), 2**62), 2),
        "fingerprint": text(),
    }
)


class MappedArray(NamedTuple):
    """The location of an array in a file, in types that JSON can hold, and a fingerprint of the array."""

    file: str
    offset: int  # of the first number, in bytes
    dtype: str
    shape: list[int]
    strides: list[int]  # in bytes
    fingerprint: str

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> "MappedArray":
        """The location that a file names; other entries are passed over."""
        MAPPED_ARRAY(fields, "memory_mapped")
        return MappedArray(**{name: fields[name] for name in MappedArray._fields})

    @staticmethod
    def of(X: Real[ndarray, "n d"]) -> "MappedArray | None":
        """The location of a memory-mapped array or of a view of one; None if its numbers are in memory only.

        None also for views that repeat numbers of the file, which are larger than it.
        """
        whole = mapped_file(X)
        if whole is None or whole.filename is None or whole.mode == "c":  # "c": changes stay in memory
            return None
        file = Path(whole.filename).absolute()
        if X.dtype.str not in DTYPES or X.nbytes > file.stat().st_size:
            return None
        address, start = (array.__array_interface__["data"][0] for array in (X, whole))
        return MappedArray(
            file=str(file),
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
            ValueError: the file, or X, holds other numbers, or what is said of the file cannot be.
        """
        if X is None and not Path(self.file).exists():
            raise FileNotFoundError(f"the campaign's pool was the file {self.file}, which is gone; {PUT_BACK}")
        found = self._view() if X is None else X
        same = fingerprint if self.fingerprint.startswith(BLOCKS) else earlier_fingerprint
        if same(found) != self.fingerprint:
            where = f"the file {self.file}, which has changed" if X is None else f"another, not this of shape {X.shape}"
            raise ValueError(f"the campaign's pool was {where}; {PUT_BACK}")
        return found

    def _view(self) -> Real[ndarray, "n d"]:
        with open_plain(self.file) as file:
            size = os.fstat(file.fileno()).st_size
            self._check_place(size)
            content = np.memmap(file, dtype=np.uint8, mode="r")
        return ndarray(tuple(self.shape), self.dtype, content, self.offset, tuple(self.strides)).view(np.memmap)

    def _check_place(self, size: int) -> None:
        """Refuse a place that is not in a file of this size, of numbers that are not as NumPy writes them."""
        if self.dtype not in DTYPES or len(self.shape) != 2 or len(self.strides) != 2 or min(self.shape) < 1:
            raise ValueError(
                f"expected two sizes and strides of real numbers in the file {self.file}, got {self.shape}, "
                f"{self.strides} and type {self.dtype!r}; {PUT_BACK}"
            )
        width = np.dtype(self.dtype).itemsize
        reach = [stride * (n - 1) for stride, n in zip(self.strides, self.shape, strict=True)]
        first, last = (self.offset + sum(bound(each, 0) for each in reach) for bound in (min, max))
        # The product: strides that repeat numbers would stand for an array of any size.
        if first < 0 or last + width > size or math.prod(self.shape) * width > size:
            raise ValueError(f"the campaign's pool was the file {self.file}, now too short; {PUT_BACK}")


def fingerprint(X: Real[ndarray, "n d"]) -> str:
    """A hash of the shape of an array and of its numbers in float64, of large ones by blocks all over it.

    It does not depend on where the file is and when it was written: copies have the same.
    """
    n, d = X.shape
    digest = hashlib.sha256(repr(X.shape).encode())
    length = max(1, FINGERPRINT_ENTRIES // d // FINGERPRINT_BLOCKS)  # rows of a block
    # Blocks of an array that is covered as a whole follow each other; some overlap the one before.
    n_blocks = min(math.ceil(n / length), max(1, FINGERPRINT_ENTRIES // (length * d)))
    for start in np.linspace(0, max(0, n - length), n_blocks).round().astype(np.int64):
        digest.update(np.ascontiguousarray(rows_at(X, slice(start, start + length))).tobytes())
    return BLOCKS + digest.hexdigest()


def earlier_fingerprint(X: Real[ndarray, "n d"]) -> str:
    """That of earlier versions: a hash of the shape of an array and of evenly spaced rows in float64."""
    rows = np.unique(np.linspace(0, len(X) - 1, EARLIER_ROWS).round().astype(np.int64))
    content = np.ascontiguousarray(rows_at(X, rows)).tobytes()
    return hashlib.sha256(repr(X.shape).encode() + content).hexdigest()
