"""Which pending points are meant by points that are told with fewer digits: one rule for boxes and search spaces.

A pipeline that keeps inputs as float32, or a table with a few digits, returns numbers that are not those that were
asked for. A point that is within `SLACK`, a thousandth of the range, of a pending one in every variable is that point.
So few digits are what people write and instruments take, numbers of float32 are ten thousand times nearer, and evenly
spread points are further apart until there are hundreds of them in a column. Where there are, two pending points can be
as near, and what may be one of two is neither: it is a point of its own, and a warning says so.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from lobal.active.recognition import Axis, last_unit, nearest_within
from lobal.core.variables import SLACK

logger = logging.getLogger(__name__)

# Where the digits of a point do not tell how it was rounded, as those of float32, another pending point may be meant
# too unless it is ten times as far as the nearest one: errors of rounding are seldom a tenth of the largest.
FARTHER = 10.0


@final
@dataclass(frozen=True)
class BoxColumn:
    """One input of a box."""

    width: float

    @property
    def n_values(self) -> int | None:
        """None: there are real numbers in it."""
        return None

    def differences(self, first: Float[ndarray, "..."], second: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """How far values are apart, in shares of the width."""
        return np.asarray(np.abs(first - second) / self.width)


class Recognised(NamedTuple):
    """Points, those that nearly equal pending ones in the place of which they are."""

    inputs: Float[ndarray, "n v"]
    candidates: Int[ndarray, " n"]  # of the pending points that are meant; -1 where none is


def recognised(
    axes: Sequence[Axis],
    inputs: Float[ndarray, "n v"],
    pending: Callable[[], tuple[list[int], Float[ndarray, "m v"]]],
    is_known: Callable[[tuple[float, ...]], bool],
) -> Recognised:
    """Points as they are recorded: those that nearly equal one pending point are this one, with a note in the log.

    Points that are known, with exactly these inputs, stay as they are, and so do those that may be several pending
    points, or that compete with different points of the same call for one. Pending points that the call has exactly are
    not meant by others.
    """
    told = [tuple(row) for row in inputs.tolist()]
    others = np.flatnonzero([not is_known(row) for row in told])
    none = Recognised(inputs, np.full(len(inputs), -1, dtype=np.int64))
    if not len(others):
        return none
    numbers, waiting = pending()
    exact = {*told}
    left = np.flatnonzero([tuple(row) not in exact for row in waiting.tolist()])
    near, is_doubtful = meant_among(axes, inputs[others], waiting[left])
    rows, found = others[near >= 0], left[near[near >= 0]]
    none.candidates[rows] = np.array(numbers, dtype=np.int64)[found]
    meant = inputs.copy()
    meant[rows] = waiting[found]
    if len(rows):
        logger.info("%d points nearly equal pending ones and are taken for these", len(rows))
    if is_doubtful.any():
        logger.warning(
            "%d points, such as %s, nearly equal pending ones, but not clearly one each, and are taken for further "
            "points; if they are the pending ones, call undo() and give them with all digits, as learner.pending does",
            is_doubtful.sum(),
            inputs[others[is_doubtful.argmax()]].tolist(),
        )
    return Recognised(meant, none.candidates)


def meant_among(
    axes: Sequence[Axis], points: Float[ndarray, "n v"], known: Float[ndarray, "m v"]
) -> tuple[Int[ndarray, " n"], Bool[ndarray, " n"]]:
    """For every point the known one that is meant, -1 for none; and at which points others may be meant as well."""
    near = np.full(len(points), -1, dtype=np.int64)
    is_doubtful, has_neighbour = np.zeros((2, len(points)), dtype=bool)
    for row in np.flatnonzero(nearest_within(axes, points, known, SLACK) >= 0).tolist():
        near[row], has_neighbour[row], is_doubtful[row] = _nearest(axes, points[row], known)
    for place in np.unique(near[near >= 0]).tolist():
        rows = np.flatnonzero(near == place)
        if len(np.unique(points[rows], axis=0)) > 1 or (len(rows) > 1 and has_neighbour[rows].any()):
            is_doubtful[rows] = True
    near[is_doubtful] = -1
    return near, is_doubtful


class _Nearest(NamedTuple):
    """The known point that is nearest to another, and how clearly."""

    place: int  # -1 if none is within the slack, with the same whole numbers and levels
    has_neighbour: bool  # whether other known points are within the slack
    may_be_other: bool  # whether one of those may be meant


def _nearest(axes: Sequence[Axis], point: Float[ndarray, " v"], known: Float[ndarray, "m v"]) -> _Nearest:
    columns = zip(axes, point[:, None], known.T, strict=True)
    apart = np.stack([axis.differences(value, column) for axis, value, column in columns], axis=1)
    is_whole = np.array([axis.n_values is not None for axis in axes])
    is_near = (apart <= np.where(is_whole, 0.0, SLACK)).all(axis=1)
    if not is_near.any():
        return _Nearest(-1, has_neighbour=False, may_be_other=False)
    distances = np.where(is_near, np.square(apart).sum(axis=1), np.inf)
    place = int(distances.argmin())
    others = is_near & (known != known[place]).any(axis=1)
    units = np.array([last_unit(value) for value in point.tolist()])
    is_rounded = (is_whole | (np.abs(point - known) <= 0.5 * units)).all(axis=1)
    rivals = is_rounded if is_rounded[place] else distances < FARTHER**2 * distances[place]
    return _Nearest(place, has_neighbour=bool(others.any()), may_be_other=bool((others & rivals).any()))
