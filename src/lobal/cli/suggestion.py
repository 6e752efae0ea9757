"""The next points to label, from a table of candidates and a table of labels: the body of `lobal suggest`."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Pool
from lobal.core.files import write_atomically
from lobal.core.tables import Table, read_table, table_content
from lobal.report.html import campaign_report
from lobal.report.savings import expectation

ROW = "row"  # column of row numbers, where rows have no identifiers
SCORES = ("local_complexity", "superior_density")  # columns added to the suggested rows


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `lobal suggest`."""

    pool: Path
    labels: Path
    target: str  # column of the labels
    number: int
    inputs: tuple[str, ...] | None = None  # columns of the pool; by default all numeric ones
    identifier: str | None = None  # column that identifies rows in all files; by default rows match by their inputs
    pending: tuple[Path, ...] = ()  # tables of rows that are being labelled
    seed: int = 0


class Labels(NamedTuple):
    """Labels by row of the pool, NaN for failures, and the number of labels of points outside the pool."""

    rows: Int[ndarray, " n"]
    y: Float[ndarray, " n"]
    outside: int


class Suggestion(NamedTuple):
    """The points as columns, the learner that chose them, and notes for the user."""

    columns: dict[str, ndarray]
    learner: ActiveLearner
    inputs: list[str]  # names of the input columns
    notes: list[str]


def suggest(request: Request) -> Suggestion:
    """The points of the pool to label next.

    Raises:
        ValueError: the files do not fit together, or hold too few points; the message says what to do.
    """
    pool, labels, name = read_table(request.pool), read_table(request.labels), request.identifier
    inputs = input_columns(pool, target=request.target, identifier=name, chosen=request.inputs)
    X = pool.matrix(inputs)
    index = Index(pool, inputs, name)
    known = matched_labels(index, labels, target=request.target)
    pending, outside = pending_rows(index, [read_table(path) for path in request.pending], known)
    learner = ActiveLearner(Pool(X), seed=request.seed)
    learner.tell(known.rows, known.y)
    learner.expect(pending)
    notes = _notes(pool, request, known, len(learner.pending), outside)
    rows = np.asarray(learner.ask(request.number))
    first = {ROW: rows} if name is None else {name: pool.column(name)[rows]}
    columns = first | {each: pool.column(each)[rows] for each in inputs} | _scores(learner, rows)
    return Suggestion(columns, learner, inputs, notes)


def write_suggestion(suggestion: Suggestion, output: Path, report: Path) -> None:
    """Write the points as a table, and the report."""
    write_atomically(output, table_content(suggestion.columns, output))
    title = f"The next {len(next(iter(suggestion.columns.values())))} points to label"
    campaign_report(suggestion.learner, report, title=title, names=suggestion.inputs, notes=suggestion.notes)


def outlook(learner: ActiveLearner) -> str:
    """The expected savings, in one sentence."""
    if learner.model is None:
        return "too few labels for a model yet: these points are spread evenly"
    return f"expected: {expectation(learner.expected_savings())}"


def input_columns(
    pool: Table, *, target: str, identifier: str | None, chosen: Sequence[str] | None = None
) -> list[str]:
    """The chosen columns of the pool; by default all except target, identifier and text."""
    if len(pool) == 0:
        raise ValueError(f"{pool.source} has no rows below its header; it must contain all candidates")
    if identifier is not None:
        pool.column(identifier)
    others = [name for name in pool.columns if name not in (target, identifier)]
    names = [name for name in others if not pool.is_text(name)] if chosen is None else [*chosen]
    if not names:
        raise ValueError(
            f"{pool.source} has no numeric input columns; its columns are {', '.join(pool.columns)}; choose "
            "inputs with --inputs"
        )
    wrong = [name for name in names if name in (target, identifier) or names.count(name) > 1]
    if wrong:
        raise ValueError(f"inputs are columns other than target and identifier, each once, got {', '.join(names)}")
    clash = [name for name in names if name in SCORES or (name == ROW and identifier is None)]
    if clash:
        raise ValueError(
            f"column {clash[0]!r} of {pool.source} has the name of a column of the output; rename it, exclude it with "
            "--inputs or, if it identifies the rows, use --id"
        )
    return names


@final
class Index:
    """Finds rows of other tables in the pool: by the identifier or, exactly, by the inputs.

    If several rows of the pool have the same inputs, the first one is used.
    """

    def __init__(self, pool: Table, inputs: Sequence[str], identifier: str | None) -> None:
        self.pool = pool
        self._inputs = inputs
        self._identifier = identifier
        keys = self._keys(pool)
        self._first = {key: row for row, key in reversed([*enumerate(keys)])}
        if identifier is not None and len(self._first) < len(pool):
            twice = next(key for row, key in enumerate(keys) if self._first[key] < row)
            raise ValueError(
                f"identifiers must be unique, but {pool.source} has {twice!r} in column {identifier!r} twice"
            )

    def rows(self, table: Table) -> list[int | None]:
        """The row of the pool for each row of the table; none if it is not in the pool.

        Raises:
            ValueError: there are rows, but not one of them is in the pool.
        """
        keys = self._keys(table)
        found = [self._first.get(key) for key in keys]
        if keys and all(row is None for row in found):
            by = "the inputs" if self._identifier is None else f"the identifier {self._identifier!r}"
            raise ValueError(
                f"no row of {table.source} is in {self.pool.source} by {by}, e.g. {keys[0]} and "
                f"{next(iter(self._first))}; the pool must contain all inputs, labelled or not"
            )
        return found

    def _keys(self, table: Table) -> list[Hashable]:
        if self._identifier is not None:
            return [*table.identifiers(self._identifier)]
        missing = [name for name in self._inputs if name not in table.columns]
        if missing:
            raise ValueError(
                f"{table.source} has no column {missing[0]!r}, which is needed to find its rows in the pool; its "
                f"columns are {', '.join(table.columns)}; add the pool's input columns, choose them with --inputs, "
                "or use an identifier with --id"
            )
        return [tuple(row) for row in table.matrix(self._inputs).tolist()]


def matched_labels(index: Index, labels: Table, *, target: str) -> Labels:
    """The labels, each with its row of the pool.

    A row may have several labels. A row without a target failed, unless it has a label elsewhere.
    """
    y = labels.numbers(target, missing=True)
    matched = [(row, value) for row, value in zip(index.rows(labels), y.tolist(), strict=True) if row is not None]
    labelled = {row for row, value in matched if math.isfinite(value)}
    kept = [(row, value) for row, value in matched if math.isfinite(value) or row not in labelled]
    return Labels(
        rows=np.array([row for row, _ in kept], dtype=np.int64),
        y=np.array([value for _, value in kept], dtype=np.float64),
        outside=len(y) - len(matched),
    )


def pending_rows(index: Index, tables: Sequence[Table], known: Labels) -> tuple[list[int], int]:
    """The rows of the pool in one of the tables that have neither a label nor failed, and how many are outside it."""
    found = [row for table in tables for row in index.rows(table)]
    return sorted({row for row in found if row is not None} - {*known.rows.tolist()}), found.count(None)


def _scores(learner: ActiveLearner, rows: Int[ndarray, " n"]) -> dict[str, ndarray]:
    """Complexity and superior density of the suggested points; NaN without a model."""
    if learner.model is None:
        return dict.fromkeys(SCORES, np.full(len(rows), math.nan))
    return dict(zip(SCORES, (learner.local_complexity()[rows], learner.superior_density()[rows]), strict=True))


def _notes(pool: Table, request: Request, known: Labels, pending: int, outside: int) -> list[str]:
    failed = len(set(known.rows[np.isnan(known.y)].tolist()))
    others = [name for name in pool.columns if name not in (request.target, request.identifier)]
    text = [] if request.inputs is not None else [name for name in others if pool.is_text(name)]
    notes = {
        f"Text columns are not used as inputs: {', '.join(text)}.": len(text),
        f"{failed} rows without a target count as failed: they are not used and not suggested again.": failed,
        f"{known.outside} labels of points outside the pool are not used.": known.outside,
        f"{pending} rows are pending: they are not suggested again, and the new points are chosen as if they were "
        "labelled.": pending,
        f"{outside} pending rows outside the pool are not used.": outside,
    }
    return [note for note, number in notes.items() if number]
