"""What users pass as numbers: NumPy would turn masked values, dates and complex numbers into numbers they are not.

True and False count as 1 and 0, and text that is a number as that number.
"""

import datetime
import math
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.core.checks import shown

UserInput: TypeAlias = Any  # array-likes of any kind

NOT_REAL = (
    complex,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
    np.complexfloating,
)
FILL = "fill it in or leave it out"
# The words are scikit-learn's.
ADVICE = "Complex data not supported: take the real part; count time in numbers, such as seconds"


class NotRealError(ValueError):
    """Values are complex, dates or durations."""


def as_numbers(values: UserInput, *, name: str) -> Float[ndarray, "..."]:
    """The values in float64, NaN where they are missing: masked, None, or pandas' NA.

    Raises:
        ValueError: they are no real numbers.
    """
    try:
        array, is_missing = _entries(values)
        _check_real(array, name)
        if is_missing.any():
            array = np.asarray(np.where(is_missing, math.nan, array.astype(object)))
        return np.asarray(array, dtype=np.float64)
    except NotRealError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # RuntimeError: a tensor with a gradient
        raise ValueError(f"{name} must be numbers, NaN where there is none, got {shown(values)}: {error}") from error


def check_complete(values: UserInput, *, name: str) -> None:
    """Raise a ValueError for missing or masked values, dates and complex numbers; other checks are elsewhere."""
    array, is_missing = _entries(values)
    _check_real(array, name)
    if is_missing.any():
        where = ", ".join(f"{axis} {k}" for axis, k in zip(("row", "column"), np.argwhere(is_missing)[0], strict=False))
        raise ValueError(
            f"{name} must have no gaps, got a masked or missing value at {where or 'its only place'}; {FILL}"
        )


def _entries(values: UserInput) -> tuple[ndarray, Bool[ndarray, "..."]]:
    """The values as an array, and which of them are missing; a single False if none can be."""
    parts = values if isinstance(values, list | tuple) else ()
    whole = np.ma.asarray(values) if any(isinstance(part, np.ma.MaskedArray) for part in parts) else values
    array, is_missing = np.asarray(whole), np.array(False)
    if isinstance(whole, np.ma.MaskedArray):
        is_missing = np.ma.getmaskarray(whole)
    if array.dtype.kind == "O":
        empty = np.array([_is_missing(each) for each in array.flat], dtype=bool).reshape(array.shape)
        is_missing = np.asarray(is_missing | empty)
    return array, is_missing


def _check_real(array: ndarray, name: str) -> None:
    """Raise a `NotRealError` for complex numbers, dates and durations."""
    strange = f"dtype {array.dtype}" if array.dtype.kind in "cmM" else None
    if array.dtype.kind == "O":
        strange = next(
            (shown(each) for each in array.flat if isinstance(each, NOT_REAL) and not _is_missing(each)), None
        )
    if strange is not None:
        raise NotRealError(f"{name} must be real numbers, got {strange}. {ADVICE}")


def _is_missing(value: object) -> bool:
    """Also of pandas, which need not be installed: NA, and NaT, which counts as a date."""
    return value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType")
