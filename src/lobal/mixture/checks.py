"""Checks of the options that a user passes in."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sklearn.utils.validation import validate_data

from lobal.core.checks import whole_number
from lobal.core.real_numbers import as_numbers, check_complete

Value = TypeVar("Value")
ESTIMATE = "estimate"


def checked_data(model: Any, *data: Any, **options: Any) -> Any:  # noqa: ANN401 - as scikit-learn's
    """The inputs in float64, with labels if these are given, as scikit-learn's `validate_data` returns them."""
    for name, values in zip(("X", "y"), data, strict=False):
        if values is not None:
            check_complete(values, name=name)
    numeric = {"y_numeric": True} if len(data) > 1 else {}
    return validate_data(model, *data, dtype=np.float64, **numeric, **options)


def ascending(bandwidths: Any) -> Float[ndarray, " L"]:  # noqa: ANN401 - any array-like
    """The bandwidths sigma_l as an array; they must be positive and in ascending order."""
    values = as_numbers(bandwidths, name="bandwidths")
    is_list = values.ndim == 1 and len(values) > 0
    if not (is_list and np.isfinite(values).all() and (np.diff(values, prepend=0.0) > 0).all()):
        raise ValueError(f"bandwidths must be a list of positive numbers in ascending order, got {values.tolist()}")
    return values


def positive(name: str, value: float | int) -> float:
    """The value as a float; it must be positive and finite."""
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def probability(name: str, value: float | int) -> float:
    """The value as a float; it must lie between zero and one."""
    if isinstance(value, bool) or not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, such as 0.95, got {value}")
    return float(value)


def not_negative(name: str, value: float | int) -> float:
    """The value as a float; it must be at least zero and finite."""
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{name} must be at least zero and finite, got {value}")
    return float(value)


def unless_estimated(
    name: str, value: Value | str, *, otherwise: str, words: Iterable[str] = (ESTIMATE,)
) -> Value | None:
    """The value, or None if it is one of the words, the only strings that are allowed."""
    if not isinstance(value, str):
        return value
    if value not in words:
        *first, last = otherwise, *map(repr, words)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, got {value!r}")
    return None


def bandwidth_matrix(name: str, width: Any, d: int) -> Float[ndarray, "..."] | None:  # noqa: ANN401 - any array-like
    """A bandwidth as an array: None, a number, one width per column, or a positive definite matrix."""
    if width is None:
        return None
    values = as_numbers(width, name=name)
    if values.shape not in [(), (d,), (d, d)]:
        raise ValueError(f"{name} must be a number or have shape ({d},) or ({d}, {d}), got shape {values.shape}")
    is_symmetric = values.ndim < 2 or np.allclose(values, values.T)
    smallest = np.linalg.eigvalsh(values).min() if values.ndim == 2 else values.min()
    if not (np.isfinite(values).all() and is_symmetric and smallest > 0):
        raise ValueError(f"{name} must be positive (definite) and finite, got {values.tolist()}")
    return values


def column_groups(groups: Any, d: int) -> tuple[int, ...] | None:  # noqa: ANN401 - any sequence
    """A number of at least zero for each of d columns, or None."""
    if groups is None:
        return None
    if isinstance(groups, str) or len(groups) != d:
        raise ValueError(
            f"column_groups must have a number for each of the {d} columns of X, got {groups!r}; columns of equal "
            "numbers share a bandwidth"
        )
    return tuple(whole_number("every entry of column_groups", group, least=0) for group in groups)


def share_of(fraction: float, n: int, name: str) -> int:
    """The number that is the given fraction of n; the fraction must lie in [0, 0.5)."""
    if not 0.0 <= fraction < 0.5:
        raise ValueError(f"{name} must lie in [0, 0.5), got {fraction}")
    return round(fraction * n)


def one_of(option: str, value: object, table: Mapping[str, Value]) -> Value:
    """The table's entry of that name."""
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{option} must be one of {sorted(table)}, got {value!r}")
    return table[value]


def at_most_one(**flags: bool) -> None:
    """Raise an error if more than one of the flags is set."""
    given = [name for name, flag in flags.items() if flag]
    if len(given) > 1:
        names, both = ", ".join(flags), " and ".join(given)
        raise ValueError(f"at most one of {names} may be given, got {both}; call once for each")
