"""Excel workbooks (.xlsx), with openpyxl, which is an extra.

A workbook is a zip archive, so sizes are checked before anything is unpacked.
"""

import datetime
import io
import math
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy import ndarray

from lobal.core.csv_text import Cells, guarded, unguarded
from lobal.core.dialects import Dialect, TableOptions
from lobal.core.files import read_plain

LARGEST_GROWTH, SMALL = 100, 2**24  # of unpacked to packed bytes; workbooks this small unpacked are read anyway
LAST_ROW = 2**20  # of a sheet
LONGEST_CELL = 32_767  # characters; openpyxl cuts off the rest without a word
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
LARGEST_EXACT = 2**53  # a cell's numbers are floating-point numbers


def read_workbook(path: Path, options: TableOptions) -> Cells:
    """The rows of a sheet that are not blank, with their numbers; dates become text, formulas their stored values."""
    content = read_plain(path)
    openpyxl = _openpyxl()
    try:
        _check_sizes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that are not needed
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            try:
                sheets = {sheet.title: _cells(sheet) for sheet in book.worksheets}
            finally:
                book.close()
    except Exception as error:  # of zipfile, the XML parser and openpyxl, which have no common class
        raise ValueError(
            f"{path} cannot be read as an Excel workbook: {error or type(error).__name__}; save it anew, or as CSV"
        ) from error
    return _chosen(sheets, path, options.sheet)


def _check_sizes(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > max(LARGEST_GROWTH * len(content), SMALL):
            raise ValueError(f"it would have {unpacked} bytes unpacked, which is too much for {len(content)}")
        for entry in archive.infolist():
            with archive.open(entry) as file:
                if b"<!DOCTYPE" in file.read(4096).replace(b"\0", b""):
                    raise ValueError(f"{entry.filename!r} defines entities, which no spreadsheet does")


def _cells(sheet: Any) -> Cells:  # noqa: ANN401 - of an optional module
    sheet.reset_dimensions()  # the declared ones may be wrong, and every row would have that many cells
    rows: list[list[object]] = []
    lines: list[int] = []
    for line, row in enumerate(sheet.iter_rows(max_row=LAST_ROW, values_only=True), start=1):
        if all(cell is None for cell in row):  # there may be a million of them
            continue
        cells = unguarded([_value(cell) for cell in row])
        while cells and cells[-1] == "":
            cells.pop()
        if cells:
            rows.append(cells)
            lines.append(line)
    return Cells(rows, lines)


def _value(cell: object) -> object:
    if cell is None:
        return ""
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return cell if isinstance(cell, bool | int | float) else str(cell).strip()


def _chosen(sheets: dict[str, Cells], path: Path, name: str | None) -> Cells:
    """The sheet of that name or, in a workbook with a single sheet that is not empty, that one."""
    if name in sheets:
        return sheets[name]
    filled = [title for title, cells in sheets.items() if cells.rows]
    if len(sheets) > 1 and (name is not None or len(filled) > 1):
        titles = ", ".join(map(repr, sheets))
        found = "has several sheets" if name is None else f"has no sheet {name!r}"
        raise ValueError(f"{path} {found}; pass one of its sheets as --sheet: {titles}")
    return sheets[filled[0]] if filled else Cells([], [])


def workbook_content(columns: Mapping[str, ndarray], path: Path, dialect: Dialect) -> bytes:
    """A workbook of one sheet with these columns; text is guarded as in CSV, in case it is exported."""
    openpyxl = _openpyxl()
    columns_of_cells = [[name, *column.tolist()] for name, column in columns.items()]
    try:
        rows = [[_written(value, dialect) for value in row] for row in zip(*columns_of_cells, strict=True)]
    except ValueError as error:
        raise ValueError(f"{path} cannot be written: {error} cannot be stored in a workbook; write CSV") from error
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("table")
    for row in rows:
        sheet.append([_exact(openpyxl, sheet, value) if isinstance(value, float) else value for value in row])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _written(value: object, dialect: Dialect) -> object:
    if isinstance(value, str):
        if len(value) > LONGEST_CELL:
            raise ValueError(f"a text of {len(value)} characters, more than {LONGEST_CELL},")
        if NOT_IN_XML.search(value):
            raise ValueError(f"the control characters in {value[:80]!r}")
        return guarded(value, dialect)
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    return str(value) if isinstance(value, int) and abs(value) > LARGEST_EXACT else value


def _exact(openpyxl: Any, sheet: Any, value: float) -> Any:  # noqa: ANN401 - of an optional module
    """A cell with all digits of a number, of which openpyxl would write 16."""
    cell = openpyxl.cell.WriteOnlyCell(sheet, value=repr(value))
    cell.data_type = "n"
    return cell


def _openpyxl() -> Any:  # noqa: ANN401 - an optional module
    try:
        import openpyxl
    except ImportError as error:
        raise ValueError("Excel workbooks need openpyxl: pip install 'lobal[tables]', or use CSV") from error
    return openpyxl
