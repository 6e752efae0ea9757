"""CSV files as spreadsheets of any country write them: encoding and separator are found, lines are counted."""

import codecs
import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from numpy import ndarray

from lobal.core.dialects import SEPARATORS, Dialect, TableOptions
from lobal.core.files import read_plain
from lobal.core.numerals import number, written

QUOTED = re.compile(r'"[^"]*"')
HINT = re.compile(r'"?sep=([,;\t])"?;*\r?\n', re.IGNORECASE)  # a first line for Excel
SAMPLE = 2**16  # characters in which the separator is looked for
WORDS = {",": "commas", ";": "semicolons", "\t": "tabs"}
OPTION = {",": "','", ";": "';'", "\t": "tab"}
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# A spreadsheet takes text that begins so for a formula, and runs it; after an apostrophe it does not.
FORMULA = re.compile(r"[=+\-@\t\r]")
MARKED = re.compile(r"'(?='*[=+\-@\t\r])")


class Cells(NamedTuple):
    """Rows of cells, the header first, and the line of the file that each row begins in."""

    rows: list[list[object]]
    lines: list[int]


def read_csv(path: Path, options: TableOptions) -> tuple[Cells, Dialect]:
    """The cells of a CSV file that are not blank, and how they are separated and encoded."""
    text, encoding = _decoded(read_plain(path), path, options.encoding)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(
            f"{path} has a NUL character in line {line}: it is damaged, no text, or encoded otherwise; save it as "
            "UTF-8 or pass its --encoding, such as utf-16-le"
        )
    hint = HINT.match(text)
    skipped = 0 if hint is None else 1
    text = text if hint is None else text[hint.end() :]
    separator = options.separator or (hint[1] if hint else _separator(text, path))
    return _rows(text, separator, path, skipped), Dialect(separator=separator, encoding=encoding)


def _decoded(content: bytes, path: Path, encoding: str | None) -> tuple[str, str]:
    """The text, and its encoding: as given, as marked, or UTF-8 and, where it is not, cp1252."""
    marked = next((name for mark, name in MARKS.items() if content.startswith(mark)), None)
    for name in (encoding,) if encoding else (marked,) if marked else ("utf-8", "cp1252"):
        try:
            text = content.decode("utf-8-sig" if name.lower() in ("utf-8", "utf8") else name)
        except UnicodeDecodeError as error:
            wrong = error
            continue
        return text, name
    raise ValueError(
        f"{path} is not text in {encoding or marked or 'UTF-8 or cp1252'}: {wrong}; save it as UTF-8, or pass its "
        "--encoding"
    ) from wrong


def _separator(text: str, path: Path) -> str:
    """The only separator in the header, or the only one by which header and first rows have equally many cells."""
    header = QUOTED.sub("", text[:SAMPLE]).lstrip("\n").partition("\n")[0]
    counts = {each: header.count(each) for each in SEPARATORS if each in header}
    if len(counts) < 2:
        return next(iter(counts), ",")
    even = [each for each in counts if _is_even(text, each)]
    best = even or [each for each in counts if counts[each] == max(counts.values())]
    if len(best) > 1:
        words = " or ".join(WORDS[each] for each in best)
        passed = " or ".join(f"--sep {OPTION[each]}" for each in best)
        raise ValueError(f"the columns of {path} may be separated by {words}; pass {passed}, or save it anew")
    return best[0]


def _is_even(text: str, separator: str) -> bool:
    sample = text[:SAMPLE].rpartition("\n")[0] if len(text) > SAMPLE else text
    try:
        widths = {len(row) for row in csv.reader(io.StringIO(sample, newline=None), delimiter=separator) if row}
    except csv.Error:
        return False
    return len(widths) == 1


def _rows(text: str, separator: str, path: Path, skipped: int) -> Cells:
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=separator)
    rows: list[list[object]] = []
    lines: list[int] = []
    begin = 1
    try:
        for row in reader:
            cells = [_unmarked(cell.strip()) for cell in row]
            if len(cells) == 1 or any(cells):
                rows.append([*cells])
                lines.append(begin + skipped)
            begin = reader.line_num + 1
    except csv.Error as error:
        where = f"{error} in line {begin + skipped}"
        raise ValueError(f"{path} cannot be read as a CSV file: {where}; correct it or save it anew") from error
    return Cells(rows, lines)


def csv_content(columns: Mapping[str, ndarray], dialect: Dialect) -> bytes:
    """Columns as CSV, in UTF-8; where the dialect has another encoding, with the mark by which Excel recognises it."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=dialect.separator, lineterminator="\n")
    cell = cell_writer(dialect)
    writer.writerow(map(cell, columns))
    writer.writerows(zip(*(map(cell, column.tolist()) for column in columns.values()), strict=True))
    plain = dialect.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    return text.getvalue().encode("utf-8" if plain else "utf-8-sig")


def cell_writer(dialect: Dialect) -> Callable[[object], object]:
    """A function from values to cells: text that a spreadsheet would take for a formula has an apostrophe before it."""

    def cell(value: object) -> object:
        if isinstance(value, float):
            return "" if math.isnan(value) else written(value, dialect)
        return guarded(value, dialect) if isinstance(value, str) else value

    return cell


def guarded(text: str, dialect: Dialect) -> str:
    """A text with an apostrophe before it if a spreadsheet would take it for a formula."""
    is_formula = FORMULA.match(text) or MARKED.match(text)
    return f"'{text}" if is_formula and number(text, dialect.decimal) is None else text


def unguarded(cells: Sequence[object]) -> list[object]:
    """Cells as they were before `guarded`."""
    return [_unmarked(cell) if isinstance(cell, str) else cell for cell in cells]


def _unmarked(text: str) -> str:
    return MARKED.sub("", text, count=1) if text[:1] == "'" else text
