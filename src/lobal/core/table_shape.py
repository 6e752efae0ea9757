"""What is wrong with the shape of a table: its header, and lines with other numbers of cells than that."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from lobal.core.csv_text import WORDS, Cells
from lobal.core.dialects import SEPARATORS
from lobal.core.numerals import number

MOST_SHOWN = 500  # characters of names of columns in a message
MOST_ROWS = 10  # rows with the same mistake in a message
ALIKE = 0.6  # share of letters that names have in common if one may be meant by the other
ABOVE = "if there are lines above the names of the columns, delete them"


def counted(number: int, noun: str) -> str:
    """A number of things for a message: "1 row", "2 rows"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def some_of(texts: Sequence[str], *, between: str = "; ") -> str:
    """A list for a message: the first ones, and how many more there are."""
    more = f" and {len(texts) - MOST_ROWS} more" if len(texts) > MOST_ROWS else ""
    return f"{between.join(texts[:MOST_ROWS])}{more}"


def listed(names: Iterable[str]) -> str:
    """Names for a message, not too many."""
    text = ", ".join(names)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def check_header(header: list[str], path: Path) -> None:
    """Raise a ValueError unless all columns have different names, which are not all numbers."""
    named = Counter(header)
    repeated = [name for name in header if named[name] > 1 or not name]
    if repeated:
        places = " and ".join(str(place) for place, name in enumerate(header, start=1) if name == repeated[0])
        raise ValueError(
            f"every column of {path} needs a name of its own, got {repeated[0][:80]!r} for column {places} in "
            f"{listed(header)}{f'; {ABOVE}' if '' in header else ''}"
        )
    # pandas names columns 0, 1, ... by default.
    if header and all(number(name) is not None for name in header) and header != [str(j) for j in range(len(header))]:
        raise ValueError(f"the first line of {path} has to name the columns, got {listed(header)}")


def check_widths(cells: Cells, width: int, separator: str, path: Path) -> None:
    """Raise a ValueError where rows have fewer cells than the header, or more that are not empty; says which.

    Rows of workbooks may be short.
    """
    is_sheet = path.suffix.lower() == ".xlsx"
    wrong = [
        (line, row)
        for line, row in zip(cells.lines, cells.rows, strict=True)
        if any(cell != "" for cell in row[width:]) or (len(row) < width and not is_sheet)
    ]
    if not wrong:
        return
    shown = some_of([f"line {line} has {len(row)}" for line, row in wrong], between=", ")
    advice = _advice([row for _, row in wrong], cells, width, "" if is_sheet else separator)
    raise ValueError(f"the header of {path} has {counted(width, 'cell')}, but {shown}; {advice}")


def _advice(wrong: Sequence[list[object]], cells: Cells, width: int, separator: str) -> str:
    """What to do about rows with other numbers of cells; in workbooks nothing separates them."""
    for other in [each for each in ("\t", ";", ",") if separator and each != separator]:
        if all(len(row) == 1 and str(row[0]).count(other) == width - 1 > 0 for row in wrong):
            return f"separate their cells by {WORDS[separator]}, as in the header, not by {WORDS[other]}"
    if separator == "," and any(len(row) > width for row in wrong):
        return "correct them or leave them out; if commas are decimal marks there, pass --sep ';' --decimal ','"
    if len(wrong) == len(cells.rows) - 1 and all(len(row) > width for row in wrong):
        return ABOVE
    return "correct them or leave them out"


def meant(name: str, columns: Sequence[str]) -> str:
    """The end of a message that there is no such column: which one may be meant, or why there is only one."""
    if len(columns) == 1 and any(separator in columns[0] for separator in SEPARATORS):
        return "; each of its lines is a single cell in quotes: save it anew, with its columns apart"
    alike = [each for each in columns if each.casefold().split() == name.casefold().split()]
    found = alike or difflib.get_close_matches(name, columns, n=1, cutoff=ALIKE)
    if found:
        return f"; did you mean {found[0]!r}?"
    return f"; {ABOVE}" if len(columns) == 1 else ""
