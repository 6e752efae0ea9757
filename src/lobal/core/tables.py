"""Tables of named columns, read from and written to CSV and parquet files.

In messages, rows count from zero below the header. Text is converted to numbers on request only.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.core.files import read_plain

Columns: TypeAlias = Mapping[str, ndarray]

MISSING = ("", "na", "n/a", "nan", "null", "none", "<na>")  # spellings of a missing value, in lower case
SEPARATORS = (",", ";", "\t")
MOST_SHOWN = 500  # characters of names of columns in a message
QUOTED = re.compile(r'"[^"]*"')
FORMATS = (".csv", ".parquet")
# A spreadsheet takes text that begins so for a formula, and runs it; after an apostrophe it does not.
FORMULA = re.compile(r"[=+\-@\t\r]")
MARKED = re.compile(r"'(?='*[=+\-@\t\r])")


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns of equal length by name, and the name of the file they come from, for messages."""

    source: str
    columns: dict[str, ndarray]  # of text or numbers, (n,) each

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> ndarray:
        """The values of a column as they were read."""
        if name not in self.columns:
            raise ValueError(f"{self.source} has no column {name!r}; its columns are {_listed(self.columns)}")
        return self.columns[name]

    def numbers(self, name: str, *, missing: bool = False) -> Float[ndarray, " n"]:
        """A column as finite numbers; with `missing`, values that are missing or infinite are NaN."""
        values = self._parsed(name)
        gaps = ~np.isfinite(values)
        if gaps.any() and not missing:
            where = f"column {name!r} of {self.source} has no finite number in row {np.flatnonzero(gaps)[0]}"
            raise ValueError(f"{where}; fill it in or leave the row out")
        return np.where(gaps, np.nan, values)

    def is_text(self, name: str) -> bool:
        """Whether a column has values, none of which is a number."""
        column = self.column(name)
        if column.dtype.kind in "biuf":
            return False
        texts = [text for text in map(str, column.tolist()) if text.lower() not in MISSING]
        return len(texts) > 0 and not any(map(_is_number, texts))

    def matrix(self, names: Sequence[str]) -> Float[ndarray, "n d"]:
        """Several columns as finite numbers side by side."""
        return np.stack([self.numbers(name) for name in names], axis=1)

    def identifiers(self, name: str) -> list[str]:
        """A column as text that identifies rows, none of it missing; 7.0 becomes "7"."""
        values = self.column(name)
        if values.dtype.kind == "f" and (np.isfinite(values) & (values == np.round(values))).all():
            values = values.astype(np.int64)
        texts = [str(value) for value in values.tolist()]
        empty = next((row for row, text in enumerate(texts) if text.lower() in MISSING), None)
        if empty is not None:
            raise ValueError(f"column {name!r} of {self.source} has no identifier in row {empty}; fill it in")
        return texts

    def _parsed(self, name: str) -> Float[ndarray, " n"]:
        column = self.column(name)
        if column.dtype.kind in "biuf":
            return column.astype(np.float64)
        texts = ["nan" if text.lower() in MISSING else text for text in map(str, column.tolist())]
        wrong = next((row for row, text in enumerate(texts) if not _is_number(text)), None)
        if wrong is not None:
            where = f"column {name!r} of {self.source}"
            raise ValueError(
                f"{where} has to hold numbers, but has {texts[wrong][:80]!r} in row {wrong}; correct it, or leave the "
                "column out"
            )
        return np.array([float(text) for text in texts])


def read_table(path: Path) -> Table:
    """The table of a .csv or .parquet file.

    A CSV file names its columns in its first line and separates them by commas, semicolons or tabs.
    """
    columns = _without_marks(_read_csv(path)) if table_format(path) == ".csv" else _read_parquet(path)
    return Table(source=str(path), columns=columns)


def table_content(columns: Columns, path: Path) -> bytes:
    """The content of a file of that name; numbers and text are read back unchanged.

    In CSV, text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    return _csv_content(columns) if table_format(path) == ".csv" else _parquet_content(columns)


def table_format(path: Path) -> str:
    """The suffix of the file, one of `FORMATS`."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"a table's name must end in one of {', '.join(FORMATS)}, got {path.name!r}")
    return suffix


def _read_csv(path: Path) -> dict[str, ndarray]:
    try:
        text = read_plain(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}; save it as UTF-8") from error
    rows = _csv_rows(text, path)
    if not rows:
        raise ValueError(f"{path} is empty; its first line has to name the columns")
    header, body = rows[0], rows[1:]
    _check_header(header, path)
    uneven = next((number for number, row in enumerate(body) if len(row) != len(header)), None)
    if uneven is not None:
        raise ValueError(
            f"row {uneven} of {path} has {len(body[uneven])} cells, the header has {len(header)}; correct it or leave "
            "it out"
        )
    # Objects: arrays of text would give every cell the length of the longest.
    return {name: np.array([row[j] for row in body], dtype=object) for j, name in enumerate(header)}


def _csv_rows(text: str, path: Path) -> list[list[str]]:
    separator = max(SEPARATORS, key=QUOTED.sub("", text.partition("\n")[0]).count)
    try:
        lines = csv.reader(io.StringIO(text, newline=None), delimiter=separator)
        return [[cell.strip() for cell in row] for row in lines if row]
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as a CSV file: {error}; correct it or save it anew") from error


def _check_header(header: list[str], path: Path) -> None:
    named = Counter(header)
    repeated = [name for name in header if named[name] > 1 or not name]
    if repeated:
        raise ValueError(
            f"every column of {path} needs a name of its own, got {repeated[0][:80]!r} in {_listed(header)}"
        )
    # pandas names columns 0, 1, ... by default.
    if all(map(_is_number, header)) and header != [str(j) for j in range(len(header))]:
        raise ValueError(f"the first line of {path} has to name the columns, got {_listed(header)}")


def _listed(names: Iterable[str]) -> str:
    """Names for a message, not too many."""
    text = ", ".join(names)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _read_parquet(path: Path) -> dict[str, ndarray]:
    pandas = _pandas()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    content = read_plain(path)
    try:
        frame = pandas.read_parquet(io.BytesIO(content))
        if frame.index.name is not None:
            frame = frame.reset_index()
    except Exception as error:  # classes of pyarrow, which is optional
        raise ValueError(
            f"{path} cannot be read as a parquet file: {error or type(error).__name__}; restore it or save it anew"
        ) from error
    _check_header([str(name) for name in frame.columns], path)
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _pandas() -> Any:  # noqa: ANN401 - an optional module
    try:
        import pandas
        import pyarrow  # noqa: F401 - pandas reads parquet with it
    except ImportError as error:
        raise ValueError("parquet files need pandas and pyarrow: pip install 'lobal[tables]', or use CSV") from error
    return pandas


def _csv_content(columns: Columns) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    # Python's floats are written with the fewest digits that read back the same, NaN as an empty cell.
    writer.writerows(zip(*(map(_cell, column.tolist()) for column in columns.values()), strict=True))
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, str) and (FORMULA.match(value) or MARKED.match(value)) and not _is_number(value):
        return f"'{value}"
    return "" if isinstance(value, float) and math.isnan(value) else value


def _without_marks(columns: Columns) -> dict[str, ndarray]:
    """Columns of text as they were before `_cell` marked what looks like a formula."""
    unmarked = {MARKED.sub("", name, count=1): column for name, column in columns.items()}
    return {name: np.array([_unmarked(text) for text in column], dtype=object) for name, column in unmarked.items()}


def _unmarked(text: str) -> str:
    return MARKED.sub("", text, count=1) if text[:1] == "'" else text


def _parquet_content(columns: Columns) -> bytes:
    content: bytes = _pandas().DataFrame(dict(columns)).to_parquet(index=False)
    return content


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
