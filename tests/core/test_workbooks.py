import datetime
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal.core.dialects import TableOptions
from lobal.core.tables import read_table, table_content

openpyxl = pytest.importorskip("openpyxl")


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


ROWS = [["Probe", "x", "y", None], [7, 25.14, "1,5", None], [None] * 4, [8, 3, None, None], [None] * 4]


def test_a_workbook_is_read_with_its_lines(tmp_path: Path) -> None:
    table = read_table(workbook(tmp_path / "a.xlsx", Tabelle1=ROWS, Tabelle2=[]))
    assert [*table.columns] == ["Probe", "x", "y"]
    assert (table.identifiers("Probe"), table.numbers("x").tolist()) == (["7", "8"], [25.14, 3.0])
    assert table.numbers("y", missing=True)[0] == 1.5
    assert table.place(1, "Probe") == "line 4 (Probe '8')"


def test_dates_become_text(tmp_path: Path) -> None:
    days = [[datetime.datetime(2024, 3, 1)], [datetime.datetime(2024, 3, 1, 12, 30)]]
    table = read_table(workbook(tmp_path / "a.xlsx", a=[["day"], *days]))
    assert table.column("day").tolist() == ["2024-03-01", "2024-03-01 12:30:00"]


def test_of_several_sheets_one_has_to_be_named(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", one=ROWS, two=[["z"], [1]])
    assert read_table(path, TableOptions(sheet="two")).numbers("z").tolist() == [1.0]
    with pytest.raises(ValueError, match=r"has several sheets; pass one of its sheets as --sheet: 'one', 'two'"):
        read_table(path)
    with pytest.raises(ValueError, match=r"has no sheet 'three'; pass one of its sheets as --sheet: 'one', 'two'"):
        read_table(path, TableOptions(sheet="three"))


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    values = [1.5365537813022428e16, 0.1 + 0.2, 1e-300, -0.0, np.nan]
    (tmp_path / "a.xlsx").write_bytes(table_content({"id": np.arange(5), "x": np.array(values)}, tmp_path / "a.xlsx"))
    np.testing.assert_array_equal(read_table(tmp_path / "a.xlsx").numbers("x", missing=True), values)


def test_text_in_a_workbook_is_never_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(table_content({"=a": np.array(["=1+1", "-2", "'=b"]), "n": np.array([2**60] * 3)}, path))
    table = read_table(path)
    assert table.identifiers("=a") == ["=1+1", "-2", "'=b"]
    assert table.identifiers("n") == [str(2**60)] * 3
    first = next(openpyxl.load_workbook(path).active.iter_rows(min_row=2))
    assert (first[0].data_type, first[0].value) == ("s", "'=1+1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" * 40_000, "a text of 40000 characters, more than 32767, cannot be stored"),
        ("\x01", "control characters in .* cannot be stored in a workbook; write CSV"),
    ],
)
def test_what_a_workbook_cannot_hold_is_not_cut_off(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table_content({"x": np.array([text])}, tmp_path / "a.xlsx")


def altered(path: Path, name: str, content: bytes) -> None:
    """The workbook with another content of one of its files."""
    with zipfile.ZipFile(workbook(path, a=ROWS)) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()} | {name: content}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, each in entries.items():
            archive.writestr(entry, each)


SHEET = "xl/worksheets/sheet1.xml"


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    altered(tmp_path / "a.xlsx", SHEET, b" " * 2**25)
    with pytest.raises(
        ValueError, match=r"a\.xlsx cannot be read .*it would have \d+ bytes unpacked, .*; save it anew"
    ):
        read_table(tmp_path / "a.xlsx")


def test_entities_are_refused(tmp_path: Path) -> None:
    altered(tmp_path / "a.xlsx", SHEET, b'<!DOCTYPE a [<!ENTITY b "c">]><worksheet/>')
    with pytest.raises(ValueError, match=r"sheet1\.xml' defines entities, which no spreadsheet does"):
        read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize("row", ["1048576", "999999999999"])
def test_declared_rows_and_columns_take_no_memory(tmp_path: Path, row: str) -> None:
    start = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    start += f'<dimension ref="A1:XFD{row}"/><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
    altered(tmp_path / "a.xlsx", SHEET, f'{start}<row r="{row}"/></sheetData></worksheet>'.encode())
    with pytest.raises(ValueError, match=r"the first line of .*a\.xlsx has to name the columns, got 1"):
        read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x,y\n1,2\n"])
def test_another_file_with_the_name_of_a_workbook_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.xlsx cannot be read as an Excel workbook: .*; save it anew, or as CSV"):
        read_table(tmp_path / "a.xlsx")


def test_an_empty_workbook_is_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.xlsx is empty; its first line has to name the columns"):
        read_table(workbook(tmp_path / "a.xlsx", a=[]))


def test_without_openpyxl_a_workbook_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.xlsx").write_bytes(io.BytesIO().getvalue())
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ValueError, match=r"need openpyxl: pip install 'lobal\[tables\]', or use CSV"):
        read_table(tmp_path / "a.xlsx")


def test_a_title_above_the_names_of_the_columns_is_to_be_deleted(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", a=[["Order 17"], [None], ["Probe", "HV"], ["A", 300]])
    with pytest.raises(
        ValueError, match=r"a\.xlsx has 1 cell, but line 3 has 2, line 4 has 2; if there are lines above"
    ):
        read_table(path)
