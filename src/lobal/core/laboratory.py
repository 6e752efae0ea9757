"""What laboratories write into tables beside numbers: failures, censored labels, gaps, dates and counters.

Nothing is guessed: what has several meanings is refused, with the options that say which is meant.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.core.numerals import is_like_number, is_missing, read_number, shortened
from lobal.core.table_shape import counted, some_of
from lobal.core.tables import Table

CENSORED = re.compile(r"(?:<=?|>=?|≤|≥)\s*(?P<bound>[^\s<>=].*)")  # only a bound is known: "<310"
CHOICES = ("drop", "bound")  # for censored labels
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([T ]\d{1,2}:\d{2}.*)?")
COMPACT_DATE = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
FEWEST = 3  # rows that can be counted


class TargetLabels(NamedTuple):
    """The labels of a table, NaN for failures, and notes for the user."""

    values: Float[ndarray, " n"]
    notes: list[str]


class InputMatrix(NamedTuple):
    """The rows of a table that have all inputs, these inputs, and notes for the user."""

    rows: Int[ndarray, " k"]
    values: Float[ndarray, "k d"]
    notes: list[str]


def input_matrix(
    table: Table, names: Sequence[str], *, identifier: str | None = None, skip_incomplete: bool = False
) -> InputMatrix:
    """Columns as finite numbers.

    Args:
        table: with the inputs.
        names: of the input columns.
        identifier: column that names rows in messages.
        skip_incomplete: leave rows out whose inputs are missing or no numbers.

    Raises:
        ValueError: there are such rows, and they are not to be left out; all of them are named.
    """
    flaws: dict[int, list[str]] = defaultdict(list)
    columns = []
    for name in names:
        values, wrong = table.parsed(name)
        columns.append(values)
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            reason = wrong.get(row, "is missing" if np.isnan(values[row]) else "is infinite")
            flaws[row].append(f"{name!r} {reason}")
    kept = np.array([row for row in range(len(table)) if row not in flaws], dtype=np.int64)
    matrix = np.stack(columns, axis=1)[kept] if columns else np.zeros((len(kept), 0))
    if not flaws:
        return InputMatrix(kept, matrix, [])
    shown = some_of([f"{table.place(row, identifier)}: {', '.join(flaws[row])}" for row in sorted(flaws)])
    if not skip_incomplete:
        raise ValueError(
            f"{counted(len(flaws), 'row')} of {table.source} without a number for every input: {shown}; correct them, "
            "leave them out with --skip-incomplete, or choose other columns with --inputs"
        )
    return InputMatrix(
        kept, matrix, [f"{counted(len(flaws), 'row')} of {table.source} are left out as incomplete: {shown}."]
    )


def target_labels(
    table: Table,
    target: str,
    *,
    identifier: str | None = None,
    failed: Iterable[str] = (),
    censored: str | None = None,
) -> TargetLabels:
    """The labels in a column; empty cells are failures.

    Args:
        table: with the labels.
        target: name of their column.
        identifier: column that names rows in messages.
        failed: texts, in upper or lower case, that say that a measurement failed, such as "cracked".
        censored: labels such as "<310" are failures ("drop"), or as large as their bound ("bound").

    Raises:
        ValueError: there are other texts; all of them are named with the options that say what they are.
    """
    if censored not in (None, *CHOICES):
        raise ValueError(f"--censored has to be one of {', '.join(CHOICES)}, got {censored!r}")
    values, wrong = table.parsed(target)
    texts = [str(value).strip() for value in table.column(target).tolist()]
    failures = {text.strip().casefold() for text in failed}
    is_failed = [text.casefold() in failures and not is_missing(text) for text in texts]
    values = np.where(np.isfinite(values) & ~np.array(is_failed, dtype=bool), values, np.nan)
    others = {row: reason for row, reason in wrong.items() if not is_failed[row]}
    bounds = {row: bound for row in others if (bound := _bound(texts[row], table)) is not None}
    unknown = {row: reason for row, reason in others.items() if row not in bounds}
    if unknown or (bounds and censored is None):
        raise ValueError(_unknown(table, target, identifier, unknown, [*bounds] if censored is None else []))
    if censored == "bound":
        values[[*bounds]] = [*bounds.values()]
    return TargetLabels(values, _label_notes(table, texts, is_failed, [*bounds], censored))


def _bound(text: str, table: Table) -> float | None:
    match = CENSORED.fullmatch(text)
    value = None if match is None else read_number(match["bound"], table.dialect)
    return value if isinstance(value, float) and np.isfinite(value) else None


def _unknown(
    table: Table, target: str, identifier: str | None, unknown: dict[int, str], censored: Sequence[int]
) -> str:
    """What to do about labels that are no numbers, by their distinct texts."""
    places: dict[str, list[int]] = defaultdict(list)
    for row in sorted([*unknown, *censored]):
        places[unknown.get(row, f"is {shortened(str(table.column(target)[row]))} (censored)")].append(row)
    shown = some_of(
        [f"{reason.removeprefix('is ')} in {_places(table, rows, identifier)}" for reason, rows in places.items()]
    )
    texts = {str(table.column(target)[row]) for row in unknown}
    failures = ",".join(sorted(text for text in texts if not is_like_number(text) and "," not in text))
    advice = [f"pass --failed {shlex.quote(failures[:200])} if these failed"] if failures else []
    if censored:
        advice.append(
            "pass --censored drop to count censored labels as failed, or --censored bound to use their bounds"
        )
    found = f"column {target!r} of {table.source} has labels that are no numbers: {shown}"
    return "; ".join([found, *advice, "or correct them" if advice else "correct them"])


def _places(table: Table, rows: Sequence[int], identifier: str | None) -> str:
    return some_of([table.place(row, identifier) for row in rows], between=", ")


def _label_notes(
    table: Table, texts: Sequence[str], is_failed: Sequence[bool], bounds: Sequence[int], censored: str | None
) -> list[str]:
    found = sorted({text for text, one in zip(texts, is_failed, strict=True) if one})
    use = "count as failed" if censored == "drop" else "are used as if their bounds were measured"
    shown = some_of([texts[row] for row in bounds])
    notes = {
        f"Labels of {table.source} that count as failed: {sum(is_failed)} ({', '.join(found)}).": sum(is_failed),
        f"Censored labels of {table.source} that {use}: {len(bounds)} ({shown}).": len(bounds),
    }
    return [note for note, number in notes.items() if number]


def dialect_notes(tables: Sequence[Table]) -> list[str]:
    """How files are written that are not plain CSV."""
    described = [(table.source, table.dialect.description) for table in tables]
    return [f"{source} was read as {text}." for source, text in described if text is not None]


def holds_dates(table: Table, name: str) -> bool:
    """Whether all values of a column are dates."""
    texts = [text for text in map(str, table.column(name).tolist()) if not is_missing(text)]
    return len(texts) > 0 and any(all(map(pattern.fullmatch, texts)) for pattern in (DATE, COMPACT_DATE))


def counts_rows(table: Table, name: str) -> bool:
    """Whether a column counts the rows, from zero or one."""
    values, wrong = table.parsed(name)
    first = values[0] if len(values) >= FEWEST and not wrong else np.nan
    return first in (0.0, 1.0) and np.array_equal(values, first + np.arange(len(values)))


def warnings_of(
    table: Table, used: Sequence[str], others: Sequence[str] = (), *, categories: str = "in a search space"
) -> list[str]:
    """Notes on the columns of a table: which are used as inputs, and which look as if they should be or should not.

    Args:
        table: whose columns these are.
        used: the inputs.
        others: columns that are used as something else, such as identifier and target.
        categories: how texts can be inputs.
    """
    rest = [name for name in table.columns if name not in (*used, *others)]
    dates = [name for name in rest if holds_dates(table, name)]
    texts = [name for name in rest if name not in dates and table.is_text(name)]
    counters = [name for name in used if counts_rows(table, name)]
    notes = {
        f"Inputs: {', '.join(used)}.": used,
        f"Columns of dates are not used as inputs: {', '.join(dates)}.": dates,
        f"Text columns are not used as inputs: {', '.join(texts)}. Categories are possible {categories}.": texts,
        f"Inputs that only count the rows: {', '.join(counters)}. Leave them out with --inputs, or pass one that "
        "identifies the rows as --id.": counters,
    }
    return [note for note, names in notes.items() if names]
