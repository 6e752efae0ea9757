"""Checks of single values that a user passes in; arrays are checked in `core.arrays`."""

import math
import numbers


def whole_number(name: str, value: object, *, least: int) -> int:
    """The value as an int; it must be a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {shown(value)}")
    return int(value)


def real_number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf, hint: str
) -> float:
    """The value as a float; it must be a number within the bounds. `hint` completes the error message."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {shown(value)}; {hint}")
    try:
        number = float(value)
    except OverflowError as error:  # a whole number of more than 308 digits
        raise ValueError(f"{name} must be at most {most:g}, got {shown(value)}; {hint}") from error
    if not (number > above and least <= number <= most):
        bounds = f"above {above:g}" if math.isfinite(above) else f"between {least:g} and {most:g}"
        raise ValueError(f"{name} must be {bounds}, got {number}; {hint}")
    return number


def shown(value: object) -> str:
    """A value and its type, shortened for a message."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 80 else text[:77] + '...'} of type {type(value).__name__}"
