"""The next points to label, from a table of candidates and a table of labels: the body of `lobal suggest`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Pool
from lobal.cli.matching import Index, Labels, matched_labels, pending_rows
from lobal.core.dialects import FOUND, Dialect, TableOptions
from lobal.core.files import write_atomically
from lobal.core.laboratory import dialect_notes, holds_dates, input_matrix, warnings_of
from lobal.core.table_shape import some_of
from lobal.core.tables import Table, read_table, table_content, table_format
from lobal.mixture.mixed_units import labels_in_other_units
from lobal.report.html import campaign_report
from lobal.report.savings import expectation

ROW = "row"  # column of row numbers, where rows have no identifiers
SCORES = ("local_complexity", "superior_density")  # columns added to the suggested rows


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `lobal suggest`."""

    pool: Path
    labels: tuple[Path, ...]
    target: str  # column of the labels
    number: int
    inputs: tuple[str, ...] | None = None  # columns of the pool; by default all numeric ones
    identifier: str | None = None  # column that identifies rows in all files; by default rows match by their inputs
    pending: tuple[Path, ...] = ()  # tables of rows that are being labelled
    options: TableOptions = FOUND
    skip_incomplete: bool = False  # leave rows out whose inputs are missing or no numbers
    failed: tuple[str, ...] = ()  # labels that say that a measurement failed
    censored: str | None = None  # what labels such as "<310" are: failures ("drop") or their bounds ("bound")
    seed: int = 0


class Suggestion(NamedTuple):
    """The points as columns, the learner that chose them, and notes for the user."""

    columns: dict[str, ndarray]
    learner: ActiveLearner
    inputs: list[str]  # names of the input columns
    notes: list[str]
    dialect: Dialect  # of the pool
    X: Float[ndarray, "n d"]  # the inputs of the points as numbers
    target: str  # column of the labels
    identifiers: list[str]  # of all candidates


def suggest(request: Request) -> Suggestion:
    """The points of the pool to label next.

    Raises:
        ValueError: the files do not fit together, or hold too few points; the message says what to do.
    """
    pool, name = read_table(request.pool, request.options), request.identifier
    inputs = input_columns(pool, target=request.target, identifier=name, chosen=request.inputs)
    given = input_matrix(pool, inputs, identifier=name, skip_incomplete=request.skip_incomplete)
    index = Index(pool.at(given.rows), inputs, name, skip_incomplete=request.skip_incomplete)
    labels, waiting = (read_tables(paths, request.options, pool) for paths in (request.labels, request.pending))
    known = matched_labels(index, labels, target=request.target, failed=request.failed, censored=request.censored)
    pending = pending_rows(index, waiting, known)
    learner = ActiveLearner(Pool(given.values), seed=request.seed)
    learner.tell(known.rows, known.y)
    learner.expect(pending.rows)
    notes = [
        *dialect_notes([pool, *labels, *waiting]),
        *warnings_of(pool, inputs, _others(pool, request)),
        *given.notes,
        *known.notes,
        *pending.notes,
        *_counts(known, len(learner.pending), pending.outside),
        *unit_notes(given.values, known),
    ]
    rows = np.asarray(learner.ask(request.number))
    own = given.rows[rows]
    first = {ROW: own} if name is None else {name: pool.column(name)[own]}
    columns = first | {each: pool.column(each)[own] for each in inputs} | _scores(learner, rows)
    known_as = [f"{ROW} {row}" for row in given.rows.tolist()]
    identifiers = known_as if name is None else [str(each) for each in pool.column(name)[given.rows].tolist()]
    given_inputs = given.values[rows]
    return Suggestion(columns, learner, inputs, notes, pool.dialect, given_inputs, request.target, identifiers)


def read_tables(paths: Sequence[Path], options: TableOptions, pool: Table) -> list[Table]:
    """Several tables, with the pool's decimal mark where they do not show their own."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError(f"a file is given twice: {', '.join(map(str, paths))}; give each once")
    return [read_table(path, options).like(pool) for path in paths]


def write_suggestion(suggestion: Suggestion, output: Path, report: Path) -> None:
    """Write the points as a table, and the report."""
    columns = suggestion.columns
    if table_format(output) != ".csv":  # where numbers are not text
        columns = columns | dict(zip(suggestion.inputs, suggestion.X.T, strict=True))
    write_atomically(output, table_content(columns, output, suggestion.dialect))
    title = f"The next {len(suggestion.X)} points to label"
    campaign_report(
        suggestion.learner,
        report,
        title=title,
        names=suggestion.inputs,
        notes=suggestion.notes,
        target=suggestion.target,
        identifiers=suggestion.identifiers,
    )


def outlook(learner: ActiveLearner) -> str:
    """The expected savings, in one sentence."""
    if learner.model is None:
        return "too few labels for a model yet: these points are spread evenly"
    return f"expected: {expectation(learner.expected_savings())}"


def input_columns(
    pool: Table, *, target: str, identifier: str | None, chosen: Sequence[str] | None = None
) -> list[str]:
    """The chosen columns of the pool; by default all except target, identifier, text and dates."""
    if len(pool) == 0:
        raise ValueError(f"{pool.source} has no rows below its header; it must contain all candidates")
    if identifier is not None:
        pool.column(identifier)
    others = [name for name in pool.columns if name not in (target, identifier)]
    numeric = (name for name in others if not pool.is_text(name) and not holds_dates(pool, name))
    names = [*numeric] if chosen is None else [*chosen]
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


def _scores(learner: ActiveLearner, rows: Int[ndarray, " n"]) -> dict[str, ndarray]:
    """Complexity and superior density of the suggested points; NaN without a model."""
    if learner.model is None:
        return dict.fromkeys(SCORES, np.full(len(rows), math.nan))
    return dict(zip(SCORES, (learner.local_complexity()[rows], learner.superior_density()[rows]), strict=True))


def _others(pool: Table, request: Request) -> list[str]:
    """Columns that it needs no note to leave out: target and identifier or, if the user chose inputs, all others."""
    if request.inputs is not None:
        return [*pool.columns]
    return [name for name in (request.target, request.identifier) if name is not None]


def unit_notes(X: Float[ndarray, "n d"], known: Labels) -> list[str]:
    """A warning of labels that are all about the same multiple of what the others predict; X are the pool's inputs."""
    finite = np.flatnonzero(np.isfinite(known.y))
    rows, factor = labels_in_other_units(X[known.rows[finite]], known.y[finite])
    if len(rows) == 0:
        return []
    shown = some_of([f"{known.places[row]}: {known.y[row]:.4g}" for row in finite[rows].tolist()])
    return [
        f"Warning: {len(rows)} labels seem to be in other units, about {factor:.2g} times what the others predict: "
        f"{shown}. Correct them if so."
    ]


def _counts(known: Labels, pending: int, outside: int) -> list[str]:
    failed = len(set(known.rows[np.isnan(known.y)].tolist()))
    notes = {
        f"{failed} rows without a target count as failed: they are not used and not suggested again.": failed,
        f"{known.outside} labels of points outside the pool are not used.": known.outside,
        f"{pending} rows are pending: they are not suggested again, and the new points are chosen as if they were "
        "labelled.": pending,
        f"{outside} pending rows outside the pool are not used.": outside,
    }
    return [note for note, number in notes.items() if number]
