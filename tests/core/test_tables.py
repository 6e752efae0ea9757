import sys
from pathlib import Path

import numpy as np
import pytest

from lobal.core.tables import Table, read_table, table_content


def csv_table(folder: Path, text: str) -> Table:
    (folder / "a.csv").write_text(text, encoding="utf-8")
    return read_table(folder / "a.csv")


def test_a_csv_file_keeps_text_until_numbers_are_asked_for(tmp_path: Path) -> None:
    table = csv_table(tmp_path, "id,x\n007,1.5\n008,2\n")
    assert table.identifiers("id") == ["007", "008"]
    np.testing.assert_array_equal(table.numbers("x"), [1.5, 2.0])
    assert len(table) == 2


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_found_in_the_header(tmp_path: Path, separator: str) -> None:
    text = "\ufeff" + separator.join(["x", '"long, name"']) + "\n" + separator.join("12") + "\n\n"
    np.testing.assert_array_equal(csv_table(tmp_path, text).matrix(["x", "long, name"]), [[1.0, 2.0]])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, name: str) -> None:
    columns = {"id": np.array(["a", "b", "ü"]), "row": np.arange(3), "x": np.array([0.1 + 0.2, np.nan, 1e-300])}
    columns["object"] = np.array(["7", "8", "9"], dtype=object)
    (tmp_path / name).write_bytes(table_content(columns, tmp_path / name))
    table = read_table(tmp_path / name)
    assert list(table.columns) == list(columns)
    assert table.identifiers("id") == ["a", "b", "ü"]
    assert table.identifiers("object") == ["7", "8", "9"]
    np.testing.assert_array_equal(table.numbers("row"), columns["row"])
    np.testing.assert_array_equal(table.numbers("x", missing=True), columns["x"])


FORMULAS = ["=1+1", "+cmd", "-2-3", "@sum", "\tx", "'=1", "'plain"]


def test_no_cell_and_no_name_of_a_csv_file_is_a_formula(tmp_path: Path) -> None:
    text = table_content({"=name": np.array([*FORMULAS, "\rx"])}, tmp_path / "a.csv").decode()
    assert not [cell for cell in text.split("\n") if cell.strip('"')[:1] in ("=", "+", "-", "@", "\t", "\r")]


def test_what_looks_like_a_formula_reads_back_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(table_content({"=name": np.array(FORMULAS)}, tmp_path / "a.csv"))
    assert read_table(tmp_path / "a.csv").identifiers("=name") == FORMULAS


def test_numbers_are_written_as_numbers_also_negative_ones(tmp_path: Path) -> None:
    columns = {"x": np.array([-1.5, 2.0]), "text": np.array(["-1.5", "+2"])}
    assert table_content(columns, tmp_path / "a.csv") == b"x,text\n-1.5,-1.5\n2.0,+2\n"


def test_the_index_of_a_parquet_file_is_a_column_if_it_has_a_name(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"x": [1.0, 2.0]}, index=pandas.Index([7, 8], name="id")).to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").identifiers("id") == ["7", "8"]
    assert b"__index_level_0__" not in table_content({"x": np.ones(2)}, tmp_path / "a.parquet")


@pytest.mark.parametrize("gap", ["", "NaN", "na", "None", "inf"])
def test_gaps_are_nan_where_they_are_allowed_and_named_where_not(tmp_path: Path, gap: str) -> None:
    table = csv_table(tmp_path, f"x,y\n1,2\n3,{gap}\n")
    np.testing.assert_array_equal(table.numbers("y", missing=True), [2.0, np.nan])
    with pytest.raises(
        ValueError, match=r"'y' of .*a\.csv has no finite number in line 3; fill it in or leave the row"
    ):
        table.numbers("y")


def test_what_is_no_number_or_not_there_is_named(tmp_path: Path) -> None:
    table = csv_table(tmp_path, "x,y\n1,2\n'two',3\n")
    with pytest.raises(ValueError, match=r"column 'x' of .* numbers, but line 3 is \"'two'\"; correct it"):
        table.numbers("x")
    with pytest.raises(ValueError, match="no column 'z'; its columns are x, y"):
        table.column("z")


def test_identifiers_are_whole_or_text_and_never_missing() -> None:
    columns = {"whole": [1.0, 2.0], "broken": [1.0, 2.5], "infinite": [1.0, np.inf], "gap": ["a", "NA"]}
    table = Table(source="", columns={name: np.array(values) for name, values in columns.items()})
    assert table.identifiers("whole") == ["1", "2"]
    assert table.identifiers("broken") == ["1.0", "2.5"]
    assert table.identifiers("infinite") == ["1.0", "inf"]
    with pytest.raises(ValueError, match="no identifier in row 1"):
        table.identifiers("gap")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("x,x\n1,2\n", "name of its own, got 'x'"),
        ("x,\n1,2\n", "name of its own, got ''"),
        ("0.5,1.5\n1,2\n", "first line .* got 0.5, 1.5"),
        ("x,y\n1,2\n3\n", "the header of .* has 2 cells, but line 3 has 1; correct them"),
    ],
)
def test_a_csv_file_that_is_no_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        csv_table(tmp_path, text)


@pytest.mark.parametrize("header", ["0,1", "x,2"])
def test_columns_may_be_named_by_numbers_that_count_them_or_beside_text(tmp_path: Path, header: str) -> None:
    assert list(csv_table(tmp_path, f"{header}\n0.5,2\n").columns) == header.split(",")


@pytest.mark.parametrize(("name", "message"), [("parquet", "cannot be read"), ("csv", "not text in UTF-8 or cp1252")])
def test_a_file_of_another_kind_or_none_is_refused(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / f"a.{name}"
    with pytest.raises(FileNotFoundError, match=path.name):
        read_table(path)
    path.write_bytes(b"x\n\x81\n")
    with pytest.raises(ValueError, match=message):
        read_table(path)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.csv, \.xlsx, \.parquet, got 'a\.xls'; save it as such"):
        read_table(tmp_path / "a.xls")


def test_without_pandas_a_parquet_file_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"lobal\[tables\]"):
        read_table(tmp_path / "a.parquet")


def test_a_column_of_text_has_not_a_single_number() -> None:
    columns = {"text": ["a", "", "n/a"], "mixed": ["a", "1"], "gaps": ["", "n/a"], "numbers": [1.0, 2.0]}
    made = Table(source="table.csv", columns={name: np.array(values) for name, values in columns.items()})
    assert [name for name in columns if made.is_text(name)] == ["text"]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.CSV"])
def test_text_is_read_whatever_its_name_says_of_separators(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x;y\n1,5;2\n")
    assert read_table(tmp_path / name).numbers("x").tolist() == [1.5]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("Probe,Härte HV\nA,1\n", "härte  hv", r"its columns are Probe, Härte HV; did you mean 'Härte HV'\?"),
        ("Probe,Haerte HV\nA,1\n", "Härte HV", r"did you mean 'Haerte HV'\?"),
        ("Probe,mass\nA,1\n", "Härte HV", "its columns are Probe, mass$"),
        (
            "Order 17\nProbe;HV\nA;1\n",
            "HV",
            "its columns are Order 17; if there are lines above the names .* delete them",
        ),
        ('"Probe;HV"\n"A;1,5"\n', "HV", "each of its lines is a single cell in quotes: save it anew, with its columns"),
    ],
)
def test_a_column_that_is_not_there_is_compared_with_those_that_are(
    tmp_path: Path, text: str, name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        csv_table(tmp_path, text).column(name)


def test_a_name_to_write_to_must_be_one_of_the_formats(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end in one of \.csv, \.xlsx, \.parquet, got 'a\.txt'; choose such a name"):
        table_content({"x": np.zeros(2)}, tmp_path / "a.txt")
