"""Which candidates, or pending points, are meant by points as users give them, perhaps with a few digits only."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial import KDTree

from lobal.active.frames import UserInput
from lobal.active.region import Region
from lobal.core.checks import shown
from lobal.core.variables import SLACK

PART = 2**22  # differences computed at a time
NEAREST = 8  # candidates that are compared, variable by variable
FARTHEST = 0.02  # of a range: by so much may values differ of which one is the other, rounded


@runtime_checkable
class Axis(Protocol):
    """A variable, or a column of a box."""

    @property
    def n_values(self) -> int | None:
        """How many values there are; none where they are real numbers."""

    def differences(self, first: Float[ndarray, "..."], second: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """How far values are apart, in shares of the range."""


@final
@dataclass(frozen=True, eq=False)
class RowFinder:
    """Finds candidates, the rows of a table or all points of a finite space, by label or by value."""

    region: Region
    codes: Float[ndarray, "N v"]
    index: list[Any] | None  # labels of a table's rows, where they are not 0, 1, ...
    is_table: bool

    def labelled(self, labels: UserInput) -> list[int]:
        """The rows of a table that have these labels.

        Raises:
            ValueError: there are no such rows, or points have no labels.
        """
        given = np.asarray(labels, dtype=object).reshape(-1).tolist()
        unknown = [label for label in given if not self.is_table or label not in self._rows]
        if unknown:
            what = "or labels of rows of the pool's table" if self.is_table else "with a column for every variable"
            raise ValueError(
                f"points must be a data frame, a dictionary of columns or a list of dictionaries {what}, got "
                f"{shown(unknown[0] if self.is_table else labels)}"
            )
        return [self._rows[label] for label in given]

    def of(self, codes: Float[ndarray, "n v"], labels: list[Any] | None, pending: Sequence[int]) -> list[int]:
        """The rows that labels and values agree on, else the rows of these values, pending ones first.

        Raises:
            ValueError: no row has these values.
        """
        numbers = self._by_labels(codes, labels)
        return self._by_values(codes, pending) if numbers is None else numbers

    def _by_labels(self, codes: Float[ndarray, "n v"], labels: list[Any] | None) -> list[int] | None:
        if labels is None or not self.is_table or not all(label in self._rows for label in labels):
            return None
        rows = [self._rows[label] for label in labels]
        pairs = zip(self.region.variables, codes.T, self.codes[rows].T, strict=True)
        agree = all((each.differences(told, known) <= SLACK).all() for each, told, known in pairs)
        return rows if agree else None

    def _by_values(self, codes: Float[ndarray, "n v"], pending: Sequence[int]) -> list[int]:
        """Of equal rows that are pending one after the other."""
        wanted: ndarray = self.codes[list(pending)].reshape(-1, self.codes.shape[1])
        same: dict[tuple[float, ...], list[int]] = {}
        for number, row in zip(pending, wanted.tolist(), strict=True):
            same.setdefault(tuple(row), []).append(number)
        numbers = []
        for place, row in zip(nearest_within(self.region.variables, codes, wanted, SLACK).tolist(), codes, strict=True):
            equal = same[tuple(wanted[place].tolist())] if place >= 0 else [self._nearest(row)]
            numbers.append(equal.pop(0) if len(equal) > 1 else equal[0])
        return numbers

    def _nearest(self, codes: Float[ndarray, " v"]) -> int:
        """The candidate of these values."""
        row = codes[None]
        _, places = self._tree.query(self.region.inputs(row)[0], k=range(1, min(NEAREST, len(self.codes)) + 1))
        place = int(nearest_within(self.region.variables, row, self.codes[places], SLACK)[0])
        if place < 0:
            self.region.check(row, slack=SLACK)
            values = ", ".join(f"{name} = {column[0]}" for name, column in self.region.columns(row).items())
            raise ValueError(f"points must be rows of the pool, got {values}; check the values, or leave the point out")
        return int(places[place])

    @cached_property
    def _rows(self) -> dict[Any, int]:
        """Candidates by the labels of their rows."""
        return {label: row for row, label in enumerate(range(len(self.codes)) if self.index is None else self.index)}

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.region.inputs(self.codes))


def rounded_from(region: Region, points: Float[ndarray, "n v"], known: Float[ndarray, "m v"]) -> Int[ndarray, " n"]:
    """For every point the known one whose values it has, rounded to fewer digits; -1 where there is none, or several.

    Numbers are rounded ones of others if they differ by at most half a unit of their own last digit: 19.1 may be
    19.0757, but 19.12 may not. Whole numbers and levels have to be equal.
    """
    found = np.full(len(points), -1, dtype=np.int64)
    for row, point in enumerate(points):
        near = np.ones(len(known), dtype=bool)
        for variable, value, column in zip(region.variables, point[:, None], known.T, strict=True):
            apart = variable.differences(value, column)
            if variable.n_values is None:
                is_rounded = np.abs(value - column) <= 0.5 * last_unit(value.item())
                near &= (apart <= SLACK) | ((apart <= FARTHEST) & is_rounded)
            else:
                near &= apart == 0.0
        if near.sum() == 1:
            found[row] = near.argmax()
    return found


def last_unit(value: float) -> float:
    """What one of the last digit that a number has is worth: 0.1 of 19.1, 10 of 190."""
    return 10.0 ** int(Decimal(repr(value)).normalize().as_tuple().exponent)


def largest_differences(
    region: Region, first: Float[ndarray, "n v"], second: Float[ndarray, "n v"]
) -> Float[ndarray, " n"]:
    """By how much each point differs from another in the variable in which it does most, in shares of the range."""
    pairs = zip(region.variables, first.T, second.T, strict=True)
    apart = [np.asarray(variable.differences(*pair), dtype=np.float64) for variable, *pair in pairs]
    return np.asarray(np.max(apart, axis=0, initial=0.0))


def nearest_within(
    axes: Sequence[Axis], points: Float[ndarray, "n v"], known: Float[ndarray, "m v"], slack: float
) -> Int[ndarray, " n"]:
    """For every point the nearest known one that is within `slack` of every range; -1 where there is none."""
    found = np.full(len(points), -1, dtype=np.int64)
    if not len(known):
        return found
    size = max(1, PART // len(known))
    for start in range(0, len(points), size):
        part = points[start : start + size]
        furthest = np.zeros((len(part), len(known)))
        total = np.zeros_like(furthest)
        for axis, told, column in zip(axes, part.T, known.T, strict=True):
            apart = axis.differences(told[:, None], column[None, :])
            furthest, total = np.maximum(furthest, apart), total + apart**2
        nearest = np.where(furthest <= slack, total, np.inf).argmin(axis=1)
        is_near = furthest[np.arange(len(part)), nearest] <= slack
        found[start : start + size] = np.where(is_near, nearest, -1)
    return found
