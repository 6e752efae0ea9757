"""The next points to label, from a table of candidates and a table of labels: the body of `lobal suggest`."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.learner import ActiveLearner
from lobal.problems.spaces import Pool
from lobal.record import write_atomically
from lobal.report.html import campaign_report
from lobal.report.savings import expectation
from lobal.tables import Table, read_table, table_content

ROW = "row"  # column of row numbers, where rows have no identifiers
SCORES = ("local_complexity", "superior_density")  # columns that say why


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
    used = len(set(known.rows.tolist()))
    if request.number > len(pool) - used:
        raise ValueError(
            f"{request.number} points are asked for, but {pool.source} has {len(pool) - used} left: "
            f"{used} of its {len(pool)} are labelled or failed"
        )
    learner = ActiveLearner(Pool(X), seed=request.seed)
    if used:
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
    clash = [name for name in names if name in SCORES or (name == ROW and identifier is None)]
    if clash:
        raise ValueError(
            f"column {clash[0]!r} of {pool.source} has the name of one that is added to the inputs; rename it or, "
            "where it names the rows, say so with --id"
        )
    return names


def matched_labels(pool: Table, labels: Table, inputs: Sequence[str], *, target: str, identifier: str | None) -> Labels:
    """The labels by the row of the pool they belong to, the first where several have the same inputs.

    A row may have several labels. One without a target failed, unless it has a label elsewhere.
    """
    y = labels.numbers(target, missing=True)
    pool_keys, label_keys = (_keys(table, inputs, identifier) for table in (pool, labels))
    first = {key: row for row, key in reversed([*enumerate(pool_keys)])}
    if identifier is not None and len(first) < len(pool):
        twice = next(key for row, key in enumerate(pool_keys) if first[key] < row)
        raise ValueError(
            f"identifiers have to be unique, but {pool.source} has {twice!r} in column {identifier!r} twice"
        )
    matched = [(first[key], value) for key, value in zip(label_keys, y.tolist(), strict=True) if key in first]
    if label_keys and not matched:
        raise ValueError(_no_overlap(pool, labels, identifier, pool_keys[0], label_keys[0]))
    labelled = {row for row, value in matched if math.isfinite(value)}
    kept = [(row, value) for row, value in matched if math.isfinite(value) or row not in labelled]
    return Labels(
        rows=np.array([row for row, _ in kept], dtype=np.int64),
        y=np.array([value for _, value in kept], dtype=np.float64),
        outside=len(label_keys) - len(matched),
    )


def suggestion_columns(
    pool: Table, rows: Int[ndarray, " n"], inputs: Sequence[str], identifier: str | None
) -> dict[str, ndarray]:
    """Identifiers (or row numbers) and inputs of some rows of the pool, as they were read."""
    first = {ROW: rows} if identifier is None else {identifier: pool.column(identifier)[rows]}
    return first | {name: pool.column(name)[rows] for name in inputs}


def _scores(learner: ActiveLearner, rows: Int[ndarray, " n"]) -> dict[str, ndarray]:
    """Complexity and superior density of the suggested points; NaN before there is a model."""
    if learner.model is None:
        return {name: np.full(len(rows), math.nan) for name in SCORES}
    return dict(zip(SCORES, (learner.local_complexity()[rows], learner.superior_density()[rows]), strict=True))


def _keys(table: Table, inputs: Sequence[str], identifier: str | None) -> list[Hashable]:
    """What the rows of a table are known by: the identifier or, exactly, the inputs."""
    if identifier is not None:
        return [*table.identifiers(identifier)]
    missing = [name for name in inputs if name not in table.columns]
    if missing:
        raise ValueError(
            f"{table.source} has no column {missing[0]!r}, by which its rows would be found in the pool; its columns "
            f"are {', '.join(table.columns)}; add the pool's input columns, or name a shared identifier with --id"
        )
    return [tuple(row) for row in table.matrix(inputs).tolist()]


def _no_overlap(pool: Table, labels: Table, identifier: str | None, candidate: Hashable, labelled: Hashable) -> str:
    by = "the inputs" if identifier is None else f"the identifier {identifier!r}"
    return (
        f"no row of {labels.source} is in {pool.source} by {by}, e.g. {labelled} and {candidate}; the pool stands for "
        "all inputs to be predicted and has to hold the labelled ones too"
    )


def _notes(known: Labels) -> list[str]:
    failed = len(set(known.rows[np.isnan(known.y)].tolist()))
    notes = {
        f"{failed} rows without a target count as failed: they are not learned from, and not suggested again.": failed,
        f"{known.outside} labels are of points that are not in the pool, and are not used.": known.outside,
    }
    return [note for note, number in notes.items() if number]
