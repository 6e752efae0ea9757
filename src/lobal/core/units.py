"""Columns of numbers in units of their own, so that neither their offset nor their scale costs digits.

Differences of numbers at 1e6 with a spread of 1e-6 are exact, but not those of their multiples; squares of numbers at
1e200 are not numbers. So an offset is subtracted from columns that lie far from zero, and columns of unusual scale are
counted in a power of two. Both are exact, and leave other columns as they are, to the bit.
"""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Real
from numpy import ndarray

FAR = 2.0**10  # standard deviations from zero, from which on an offset is subtracted
UNUSUAL = 32  # scales below 2^-32 or above 2^32 are; the squares of others, and their products, are ordinary numbers
FEWEST_STEPS = 16  # neighbouring floating-point numbers that a column must reach across, else it is rounding alone


class UnusableColumnWarning(UserWarning):
    """A column varies by no more than the rounding of its numbers, and is not used."""


class Units(NamedTuple):
    """Where each column begins and what it is counted in; the unit is zero for columns that are not used."""

    offset: Float[ndarray, " d"]
    unit: Float[ndarray, " d"]

    @classmethod
    def of(cls, X: Real[ndarray, "n d"]) -> "Units":
        """The units of some rows; zero and one, which change nothing, for columns of ordinary numbers."""
        offset, unit = zip(*(_of_column(column) for column in X.T), strict=True)
        return cls(np.array(offset), np.array(unit))

    @classmethod
    def plain(cls, d: int) -> "Units":
        """Those that change nothing."""
        return cls(np.zeros(d), np.ones(d))

    def __call__(self, X: Real[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Inputs in these units."""
        numbers = np.asarray(X, dtype=np.float64)
        return numbers if self.is_plain else (numbers - self.offset) * self._reciprocal

    def back(self, X: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Inputs as they were before."""
        return X if self.is_plain else X * self.unit + self.offset

    def without_scale(self) -> "Units":
        """The offsets alone, where widths in units of the inputs are given."""
        return self._replace(unit=np.where(self.unit > 0.0, 1.0, 0.0))

    @property
    def is_plain(self) -> bool:
        """Whether they change nothing."""
        return bool((self.offset == 0.0).all() and (self.unit == 1.0).all())

    @property
    def volume(self) -> float:
        """The geometric mean of the units, in which |Sigma|^(1/d) is counted."""
        return float(np.exp(np.log(np.where(self.unit > 0.0, self.unit, 1.0)).mean()))

    @property
    def _reciprocal(self) -> Float[ndarray, " d"]:
        return np.asarray(np.divide(1.0, self.unit, out=np.zeros_like(self.unit), where=self.unit > 0.0))


def warn_of_unusable(X: Real[ndarray, "n d"], *, name: str, stacklevel: int = 3) -> None:
    """Warn of columns that vary by their rounding only."""
    for number, column in enumerate(X.T):
        low, high = column.min(), column.max()
        if low < high and not _is_usable(low, high):
            warnings.warn(
                f"column {number} of {name} is not used: it varies by {high - low:.2g} around {high:.6g}, less than "
                f"{FEWEST_STEPS} steps between numbers of type {column.dtype}; subtract an offset before they are "
                "stored, or leave the column out",
                UnusableColumnWarning,
                stacklevel=stacklevel,
            )


def stored_type(X: Any) -> "np.dtype[Any]":  # noqa: ANN401 - any array-like
    """The type that numbers were rounded to before they became float64."""
    dtype = getattr(X, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) and dtype.kind == "f" else np.dtype(np.float64)


def ordinary(values: Any) -> Any:  # noqa: ANN401 - an array or a tensor of which only ratios matter
    """The values divided by a power of two if their size is unusual."""
    return values * (1.0 / _power_of_two(float(abs(values).max())))


def column_units(values: Float[ndarray, " n"]) -> tuple[float, float]:
    """Offset and unit of a single column; the unit is zero if it is constant, or varies by its rounding only."""
    low, high = values.min(), values.max()
    return (float(values[0]), 0.0) if low == high else _of_column(values)


def _of_column(column: Real[ndarray, " n"]) -> tuple[float, float]:
    low, high, first = column.min(), column.max(), float(column[0])
    if low == high:
        return (0.0, 1.0) if abs(first) <= 2.0**UNUSUAL else (first, 0.0)
    if not _is_usable(low, high):
        return first, 0.0
    shifted = column.astype(np.float64) - first
    largest = float(np.abs(shifted).max())
    spread = largest * float((shifted / largest).std())
    centre = first + largest * float((shifted / largest).mean())
    return centre if abs(centre) > FAR * spread else 0.0, _power_of_two(spread)


def _is_usable(low: Any, high: Any) -> bool:  # noqa: ANN401 - NumPy's numbers
    return bool(
        np.issubdtype(low.dtype, np.integer) or high - low >= FEWEST_STEPS * np.spacing(max(abs(low), abs(high)))
    )


def _power_of_two(size: float) -> float:
    """One for ordinary sizes, otherwise the power of two nearby."""
    exponent = math.frexp(size)[1] if 0.0 < size < math.inf else 0
    return 1.0 if abs(exponent) <= UNUSUAL else math.ldexp(1.0, max(exponent, -1000))
