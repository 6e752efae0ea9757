"""Which points were asked for, have labels or failed: the state of a campaign, computed from its events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from lobal.core.checks import shown
from lobal.core.schema import flag, real, table

Event = dict[str, Any]
GROWN = "grown"  # the event of other candidates taking the place of those nobody has asked for
LATEST = 2.5e11  # seconds since 1970, in the year 9892: beyond it there are no dates
# What any event may have: when it was recorded, and whether it is of the same call as the event before it.
NOTES = table({}, time=real(0.0, LATEST), continues=flag)


class Observations(NamedTuple):
    """The labelled points in the order they were asked for; a point labelled twice is there twice."""

    X: ndarray  # inputs of models, one entry a label
    y: ndarray  # labels: numbers or, for several outputs and molecules, rows of numbers, NaN where one is missing
    candidate: Int[ndarray, " n"]  # the candidate each point is, or lies next to


@final
@dataclass(kw_only=True)
class Entry:
    """One point of the campaign."""

    candidate: int
    x: tuple[float, ...]
    labels: list[Any] = field(default_factory=list)  # a number or a list of numbers each
    failed: bool = False
    since: float | None = None  # when it entered, in seconds since 1970; none in journals of earlier versions

    @property
    def is_pending(self) -> bool:
        """Whether its label is still to come."""
        return not self.labels and not self.failed


@final
class Ledger:
    """All points of a campaign by number, in the order they entered it.

    `n_columns` numbers are recorded for every point. Points of a box are known by exactly these inputs, others by their
    candidate; which points are meant by rounded inputs is decided before anything is recorded. Of several labels of one
    point, all count or the last one only (`keeps_repeats`). The order does not depend on the order in which labels
    arrive, so that a run with many workers, or one that was interrupted, ends with the same data. Where labels are rows
    of numbers, some of these may be missing (`allows_gaps`): null in JSON.
    """

    def __init__(
        self, n_columns: int, *, is_box: bool = False, keeps_repeats: bool = True, allows_gaps: bool = False
    ) -> None:
        self.n_columns, self.is_box, self.keeps_repeats = n_columns, is_box, keeps_repeats
        self.allows_gaps = allows_gaps
        self.entries: list[Entry] = []
        self.n_labels = 0
        self.batches: list[range] = []  # the points of every step
        self._numbers: dict[int | tuple[float, ...], int] = {}

    def check(self, event: Event, n_candidates: int) -> None:
        """Refuse an event that cannot be the next one.

        Raises:
            ValueError: it is of no known kind, or names points, candidates or labels that cannot be.
        """
        NOTES(event, "event")
        match event:
            case {"event": "asked" | "added", "candidates": list() | tuple() as candidates, "inputs": list() as inputs}:
                _check_numbers("candidates", candidates, n_candidates)
                if not _has_shape(inputs, len(candidates), self.n_columns):
                    raise ValueError(
                        f"expected {len(candidates)} inputs of {self.n_columns} numbers, got {shown(inputs)}"
                    )
            case {"event": "told", "points": list() as points, "labels": list() as labels}:
                _check_numbers("points", points, len(self.entries))
                width = [len(labels[0])] if labels and isinstance(labels[0], list) else []
                filled = _without_nulls(labels) if self.allows_gaps else labels
                if not labels or not _has_shape(filled, len(points), *width):
                    raise ValueError(f"expected {len(points)} labels of the same shape, got {shown(labels)}")
            case {"event": "failed", "points": list() as points}:
                _check_numbers("points", points, len(self.entries))
            case {"event": "grown", "n": int() as n}:
                self._check_growth(n)
            case _:
                raise ValueError(f"expected points asked, added, told or failed, got {event.get('event')!r}")

    def _check_growth(self, n: int) -> None:
        if n <= len(self.entries):
            raise ValueError(
                f"expected more than {len(self.entries)} candidates, the points so far among them, got {n}"
            )
        if self.pending:
            raise ValueError(f"expected no pending points when candidates change, got {len(self.pending)}")

    def apply(self, event: Event) -> None:
        """Take note of one event: points "asked" for or "added", labels "told", points that "failed", other candidates.

        After "grown" the points so far are the first candidates, in their order.
        """
        match event["event"]:
            case "asked" | "added" as kind:
                if kind == "asked":
                    self.batches.append(range(len(self.entries), len(self.entries) + len(event["candidates"])))
                for candidate, x in zip(event["candidates"], event["inputs"], strict=True):
                    self._numbers[tuple(x) if self.is_box else candidate] = len(self.entries)
                    self.entries.append(Entry(candidate=candidate, x=tuple(x), since=event.get("time")))
            case "told":
                for number, label in zip(event["points"], event["labels"], strict=True):
                    self._label(self.entries[number], label)
            case "failed":
                for number in event["points"]:
                    self.entries[number].failed = True
            case "grown":
                for number, entry in enumerate(self.entries):
                    entry.candidate = number
                self._numbers = {number: number for number in range(len(self.entries))}

    def _label(self, entry: Entry, label: Any) -> None:  # noqa: ANN401 - a number or a list of numbers
        entry.failed = False
        if entry.labels and not self.keeps_repeats:
            entry.labels = []
            self.n_labels -= 1
        entry.labels.append(label)
        self.n_labels += 1

    def number(self, candidate: int, x: tuple[float, ...]) -> int | None:
        """The point that is this candidate, or in a box the one at exactly this input; none if it is new."""
        return self._numbers.get(x if self.is_box else candidate)

    @property
    def last_batch(self) -> range:
        """The points that were asked for last."""
        return self.batches[-1] if self.batches else range(0)

    @property
    def pending(self) -> list[int]:
        """Points whose label is still to come."""
        return [number for number, entry in enumerate(self.entries) if entry.is_pending]

    @property
    def failed(self) -> list[int]:
        """Points that have no label and will have none."""
        return [number for number, entry in enumerate(self.entries) if entry.failed]

    @property
    def size(self) -> int:
        """Points that have a label or will have one."""
        return sum(not entry.failed for entry in self.entries)

    @property
    def n_drawn(self) -> int:
        """All points, those that failed included."""
        return len(self.entries)

    @property
    def used_candidates(self) -> list[int]:
        """Candidates not to be asked for again."""
        return sorted({entry.candidate for entry in self.entries})

    @property
    def answered(self) -> list[int]:
        """Points that are not pending."""
        return [number for number, entry in enumerate(self.entries) if not entry.is_pending]

    def has_label(self, numbers: Sequence[int]) -> Bool[ndarray, " n"]:
        """Whether points have a label."""
        return np.array([bool(self.entries[number].labels) for number in numbers], dtype=bool)

    def inputs(self, numbers: Sequence[int]) -> Float[ndarray, "n d"]:
        """The recorded inputs of some points."""
        rows = [self.entries[number].x for number in numbers]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.n_columns)

    def candidates(self, numbers: Sequence[int]) -> Int[ndarray, " n"]:
        """The candidates of some points."""
        return np.array([self.entries[number].candidate for number in numbers], dtype=np.int64)

    def labelled(self) -> tuple[list[int], ndarray]:
        """The point of every label, and all labels."""
        rows = [(number, label) for number, entry in enumerate(self.entries) for label in entry.labels]
        return [number for number, _ in rows], np.array([label for _, label in rows], dtype=np.float64)


def _check_numbers(name: str, numbers: Sequence[Any], end: int) -> None:
    wrong = [number for number in numbers if type(number) is not int or not 0 <= number < end]
    if wrong:
        raise ValueError(f"{name} must be whole numbers below {end}, got {wrong[0]!r}")


def with_nulls(labels: Float[ndarray, "n *label"]) -> list[Any]:
    """Labels as JSON can hold them: None for numbers that are missing."""
    values = labels.astype(object)
    values[~np.isfinite(labels)] = None
    return list(values.tolist())


def _without_nulls(labels: list[Any]) -> list[Any]:
    """Rows of labels with zeros where a number is missing."""
    return [[0.0 if each is None else each for each in row] if isinstance(row, list) else row for row in labels]


def _has_shape(values: list[Any], *shape: int) -> bool:
    """Whether nested lists hold finite numbers, in this shape."""
    try:
        array = np.array(values)
    except ValueError:  # of different lengths
        return False
    return array.shape == shape and (array.size == 0 or (array.dtype.kind in "iuf" and bool(np.isfinite(array).all())))
