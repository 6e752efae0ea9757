"""Arrays in memory-mapped files: where they are, how to open them again, and whether they are still the same."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Real
from numpy import ndarray

from lobal.core.arrays import mapped_file, rows_at

# Rows that a fingerprint covers: enough to tell data sets apart, and read quickly from any disk.
FINGERPRINT_ROWS = 1024
PUT_BACK = "put it back, or say where it is: pool=lobal.Pool.from_npy(...)"


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
