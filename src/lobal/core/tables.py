"""Tables of named columns, read from and written to CSV, Excel and parquet files.

In messages, rows are lines of the file, where it has lines, and count from zero below the header where not. Text is
converted to numbers on request only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.core.csv_text import Cells, csv_content, read_csv
from lobal.core.dialects import FOUND, PLAIN, Dialect, TableOptions
from lobal.core.numerals import found_decimal, is_like_number, is_missing, read_number
from lobal.core.parquet import parquet_content, read_parquet
from lobal.core.table_shape import check_header, check_widths, listed, meant, some_of
from lobal.core.workbooks import read_workbook, workbook_content

Columns: TypeAlias = Mapping[str, ndarray]

SAMPLE = 10_000  # rows in which the decimal mark is looked for
FORMATS = (".csv", ".xlsx", ".parquet")
TEXT = (".csv", ".tsv", ".txt")  # read alike, whatever separates their cells


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns of equal length by name, and the name of the file they come from, for messages."""

    source: str
    columns: dict[str, ndarray]  # of text or numbers, (n,) each
    dialect: Dialect = PLAIN
    lines: Int[ndarray, " n"] | None = None  # of the file, where it has lines

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def at(self, rows: Int[ndarray, " k"]) -> "Table":
        """Some rows."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, columns=columns, lines=None if self.lines is None else self.lines[rows])

    def like(self, other: "Table") -> "Table":
        """The table with the other's decimal mark, if it does not show its own."""
        if self.dialect.decided or not other.dialect.decided:
            return self
        return replace(self, dialect=replace(self.dialect, decimal=other.dialect.decimal, decided=True))

    def place(self, row: int, identifier: str | None = None) -> str:
        """A row for messages: its line, and its identifier if there is a column of them."""
        where = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        if identifier is None or identifier not in self.columns:
            return where
        return f"{where} ({identifier} {str(self.columns[identifier][row])[:80]!r})"

    def column(self, name: str) -> ndarray:
        """The values of a column as they were read."""
        if name not in self.columns:
            raise ValueError(
                f"{self.source} has no column {name!r}; its columns are {listed(self.columns)}"
                f"{meant(name, [*self.columns])}"
            )
        return self.columns[name]

    def numbers(self, name: str, *, missing: bool = False) -> Float[ndarray, " n"]:
        """A column as finite numbers; with `missing`, values that are missing or infinite are NaN."""
        values, wrong = self.parsed(name)
        if wrong:
            found = some_of([f"{self.place(row)} {reason}" for row, reason in wrong.items()])
            raise ValueError(
                f"column {name!r} of {self.source} has to hold numbers, but {found}; correct it, or leave the column "
                "out"
            )
        gaps = ~np.isfinite(values)
        if gaps.any() and not missing:
            where = some_of([self.place(int(row)) for row in np.flatnonzero(gaps)])
            raise ValueError(
                f"column {name!r} of {self.source} has no finite number in {where}; fill it in or leave the row out"
            )
        return np.where(gaps, np.nan, values)

    def is_text(self, name: str) -> bool:
        """Whether a column has values, none of which is a number, also not with another decimal mark."""
        column = self.column(name)
        if column.dtype.kind in "biuf":
            return False
        values = column.tolist()
        texts = [value for value in values if isinstance(value, str) and not is_missing(value)]
        is_numeric = any(isinstance(value, int | float) and value == value for value in values)
        return len(texts) > 0 and not is_numeric and not any(map(is_like_number, texts))

    def matrix(self, names: Sequence[str]) -> Float[ndarray, "n d"]:
        """Several columns as finite numbers side by side."""
        return np.stack([self.numbers(name) for name in names], axis=1)

    def identifiers(self, name: str) -> list[str]:
        """A column as text that identifies rows, none of it missing; 7.0 becomes "7"."""
        values = self.column(name)
        if values.dtype.kind == "f" and (np.isfinite(values) & (values == np.round(values))).all():
            values = values.astype(np.int64)
        texts = [_identifier(value) if values.dtype == object else str(value) for value in values.tolist()]
        empty = [self.place(row) for row, text in enumerate(texts) if is_missing(text)]
        if empty:
            raise ValueError(f"column {name!r} of {self.source} has no identifier in {some_of(empty)}; fill it in")
        return texts

    def parsed(self, name: str) -> tuple[Float[ndarray, " n"], dict[int, str]]:
        """A column as numbers, NaN where there is none, and by row what is wrong where there is something else."""
        column = self.column(name)
        if column.dtype.kind in "biuf":
            return column.astype(np.float64), {}
        read = [_number(value, self.dialect) for value in column.tolist()]
        wrong = {row: value for row, value in enumerate(read) if isinstance(value, str)}
        return np.array([np.nan if isinstance(value, str) else value for value in read], dtype=np.float64), wrong


def _number(value: object, dialect: Dialect) -> float | str:
    return float(value) if isinstance(value, int | float) else read_number(str(value), dialect)


def _identifier(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def read_table(path: Path, options: TableOptions = FOUND) -> Table:
    """The table of a .csv, .tsv, .txt, .xlsx or .parquet file.

    A CSV file or sheet names its columns in its first line. Separator, decimal mark and encoding are found in the file
    unless the options say them; blank rows and columns are left out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no table, or may be read in several ways; the message says what to do.
    """
    kind = ".csv" if path.suffix.lower() in TEXT else table_format(path, "save it as such")
    if kind == ".parquet":
        named = read_parquet(path)
        check_header([name for name, _ in named], path)
        return Table(source=str(path), columns=dict(named))
    cells, dialect = (read_workbook(path, options), PLAIN) if kind == ".xlsx" else read_csv(path, options)
    return _table(cells, dialect, path, options.decimal)


def table_content(columns: Columns, path: Path, dialect: Dialect = PLAIN) -> bytes:
    """The content of a file of that name; numbers and text are read back unchanged.

    In CSV and workbooks, text that a spreadsheet would take for a formula has an apostrophe before it.

    Args:
        columns: of equal length, by name.
        path: of the file, whose suffix is one of `FORMATS`.
        dialect: of CSV, such as that of a table that was read. Where it is not UTF-8, UTF-8 with a mark is written.
    """
    kind = table_format(path)
    if kind == ".xlsx":
        return workbook_content(columns, path, dialect)
    return csv_content(columns, dialect) if kind == ".csv" else parquet_content(columns)


def table_format(path: Path, advice: str = "choose such a name") -> str:
    """The suffix of the file, one of `FORMATS`."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"a table's name must end in one of {', '.join(FORMATS)}, got {path.name!r}; {advice}")
    return suffix


def _table(cells: Cells, dialect: Dialect, path: Path, decimal: str | None) -> Table:
    if not cells.rows:
        raise ValueError(f"{path} is empty; its first line has to name the columns")
    body = cells.rows[1:]
    header = _filled_header([_identifier(name) for name in cells.rows[0]], body)
    check_header([name for _, name in header], path)
    width = max((place for place, _ in header), default=-1) + 1
    check_widths(cells, width, dialect.separator, path)
    # Objects: arrays of text would give every cell the length of the longest.
    columns = {name: np.array([_cell(row, j) for row in body], dtype=object) for j, name in header}
    texts = (cell for row in islice(body, SAMPLE) for cell in row if isinstance(cell, str))
    mark, decided = (decimal, True) if decimal else found_decimal(texts, dialect.separator)
    lines = np.array(cells.lines[1:], dtype=np.int64)
    return Table(
        source=str(path), columns=columns, dialect=replace(dialect, decimal=mark, decided=decided), lines=lines
    )


def _cell(row: list[object], place: int) -> object:
    return row[place] if place < len(row) else ""


def _filled_header(names: list[str], body: list[list[object]]) -> list[tuple[int, str]]:
    """Places and names of columns, without those that have neither a name nor a value."""
    kept = ((place, name or any(_cell(row, place) != "" for row in body)) for place, name in enumerate(names))
    return [(place, names[place]) for place, is_kept in kept if is_kept]
