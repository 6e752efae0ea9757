"""How the error falls with the number of labels, and when that says that more labels do not pay."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from lobal.active.expected_savings import ExpectedSavings

FEWEST_SIZES, MOST_SIZES = 3, 4  # at the end of a learning curve that are extrapolated from
GAIN, SHARE = 0.05, 0.1  # of the stopping rules, by default


class Trend(NamedTuple):
    """The power of n by which the error changes: -0.5 if it falls with the root of the number of labels."""

    slope: float
    standard_error: float


def learning_curve(fits: Iterable[tuple[int | None, float | None]]) -> list[tuple[int, float]]:
    """Numbers of labels and validation errors of fits, in order, those that are known; of equal numbers the last."""
    return sorted((n, error) for n, error in dict(fits).items() if n and error)


def trend(curve: list[tuple[int, float]]) -> Trend | None:
    """Of the last sizes of a curve; none if they are too few.

    Logarithms of errors are fitted by a line in log n; those at n labels have a variance of at least 1 / (2 n), that of
    a root mean square of n normal errors.
    """
    if len(curve) < FEWEST_SIZES:
        return None
    n, error = np.array(curve[-MOST_SIZES:]).T
    x, y = np.log(n), np.log(error)
    slope, intercept = np.polyfit(x, y, 1, w=np.sqrt(n))
    residual = np.square(y - slope * x - intercept) @ n / (len(n) - 2)
    spread = n @ np.square(x - np.average(x, weights=n))
    return Trend(float(slope), math.sqrt(max(residual, 0.5) / spread))


def most_gained_by_doubling(curve: list[tuple[int, float]]) -> float:
    """By what share twice the labels lower the error, plus its standard error; everything if that is not known."""
    found = trend(curve)
    return 1.0 if found is None else 1.0 - 2.0 ** (found.slope - found.standard_error)


def is_flat(curve: list[tuple[int, float]], gain: float = GAIN) -> bool:
    """Whether twice as many labels are expected to lower the error by less than this share of it."""
    return most_gained_by_doubling(curve) < gain


def has_no_advantage(savings: ExpectedSavings | None, share: float = SHARE) -> bool:
    """Whether following the local complexity is expected to save less than this share of the labels."""
    return savings is not None and savings.by_chance is not None and savings.share + savings.by_chance < share
