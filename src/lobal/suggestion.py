"""The next points to label, from a table of candidates and a table of labels: the body of `lobal suggest`."""

import logging
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.learner import ActiveLearner
from lobal.problems.spaces import Pool
from lobal.record import write_atomically
from lobal.report.html import campaign_report
from lobal.report.savings import expectation
from lobal.tables import Table, read_table, table_content

logger = logging.getLogger(__name__)

ROW = "row"  # column of row numbers, where rows have no identifiers


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """Which points are asked for, out of which files."""

    pool: Path
    labels: Path
    target: str  # column of the labels
    number: int
    identifier: str | None = None  # column that names rows in both files; without it, rows are known by their inputs
    seed: int = 0


class Labels(NamedTuple):
    """Labels by row of the pool, NaN where there is none to be had, and how many are of points outside the pool."""

    rows: Int[ndarray, " n"]
    y: Float[ndarray, " n"]
    outside: int


class Suggestion(NamedTuple):
    """The points as columns, the learner that chose them, and what the user should know."""

    columns: dict[str, ndarray]
    learner: ActiveLearner
    inputs: list[str]  # names of the input columns
    notes: list[str]


def suggest(request: Request) -> Suggestion:
    """The points of the pool to label next.

    Raises:
        ValueError: the files do not fit together, or hold too few points; the message says what to do.
    """
    pool, labels = read_table(request.pool), read_table(request.labels)
    inputs = input_columns(pool, target=request.target, identifier=request.identifier)
    X = pool.matrix(inputs)
    known = matched_labels(pool, labels, inputs, target=request.target, identifier=request.identifier)
    left = len(pool) - len(known.rows)
    if request.number > left:
        raise ValueError(
            f"{request.number} points are asked for, but {pool.source} has {left} left: "
            f"{len(known.rows)} of its {len(pool)} are labelled or failed"
        )
    learner = ActiveLearner(Pool(X), seed=request.seed)
    if len(known.rows):
        learner.tell(known.rows, known.y)
    rows = np.asarray(learner.ask(request.number))
    columns = suggestion_columns(pool, rows, inputs, request.identifier) | _scores(learner, rows)
    return Suggestion(columns, learner, inputs, _notes(known))


def write_suggestion(suggestion: Suggestion, output: Path, report: Path) -> None:
    """The points as a table, and the page that says why."""
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, table_content(suggestion.columns, output))
    title = f"The next {len(next(iter(suggestion.columns.values())))} points to label"
    campaign_report(suggestion.learner, report, title=title, names=suggestion.inputs, notes=suggestion.notes)


def outlook(learner: ActiveLearner) -> str:
    """What the labels so far promise, in one sentence."""
    if learner.model is None:
        return "too few labels for a model yet: these points are drawn at random"
    return expectation(learner.headroom())


def input_columns(pool: Table, *, target: str, identifier: str | None) -> list[str]:
    """The pool's columns that are neither the target nor the identifier."""
    if identifier is not None:
        pool.column(identifier)
    names = [name for name in pool.columns if name not in (target, identifier)]
    if not names:
        raise ValueError(f"{pool.source} has no input columns; its columns are {', '.join(pool.columns)}")
    return names


def matched_labels(
    pool: Table, labels: Table, inputs: Sequence[str], *, target: str, identifier: str | None
) -> Labels:
    """The labels by the row of the pool they belong to.

    Rows of equal inputs take labels in turn. A row without a target failed, unless it has a label elsewhere.
    """
    y = labels.numbers(target, missing=True)
    pool_keys, label_keys = (_keys(table, inputs, identifier) for table in (pool, labels))
    free: dict[Hashable, list[int]] = defaultdict(list)
    for row, key in enumerate(pool_keys):
        free[key].append(row)
    if identifier is not None:
        _check_unique(free, pool.source)
    for rows in free.values():
        rows.reverse()  # taken from the end, the first comes first
    found = {row: value for key, row, value in _in_turn(label_keys, y, free, labels.source)}
    outside = sum(key not in free for key in label_keys)
    if outside and outside == len(label_keys):
        raise ValueError(_no_overlap(pool, labels, identifier, pool_keys, label_keys))
    return Labels(np.array([*found], dtype=np.int64), np.array([*found.values()], dtype=np.float64), outside)
