import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal.core.tables import Table, read_table, table_content


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_file_keeps_text_until_numbers_are_asked_for(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", "id,x\n007,1.5\n008,2\n"))
    assert table.identifiers("id") == ["007", "008"]
    np.testing.assert_array_equal(table.numbers("x"), [1.5, 2.0])
    assert len(table) == 2


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_found_in_the_header(tmp_path: Path, separator: str) -> None:
    text = "\ufeff" + separator.join(["x", '"long, name"']) + "\n" + separator.join("12") + "\n\n"
    table = read_table(written(tmp_path / "a.csv", text))
    np.testing.assert_array_equal(table.matrix(["x", "long, name"]), [[1.0, 2.0]])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npz"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, name: str, rng: np.random.Generator) -> None:
    columns = {"id": np.array(["a", "b", "ü"]), "row": np.arange(3), "x": np.array([0.1 + 0.2, np.nan, 1e-300])}
    path = tmp_path / name
    path.write_bytes(table_content(columns, path))
    table = read_table(path)
    assert list(table.columns) == ["id", "row", "x"]
    assert table.identifiers("id") == ["a", "b", "ü"]
    np.testing.assert_array_equal(table.numbers("row"), columns["row"])
    np.testing.assert_array_equal(table.numbers("x", missing=True), columns["x"])


def test_a_matrix_of_an_npz_file_becomes_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=np.ones(2))
    assert list(read_table(tmp_path / "a.npz").columns) == ["X_0", "X_1", "y"]


def test_the_named_index_of_a_parquet_file_is_a_column(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"x": [1.0, 2.0]}, index=pandas.Index([7, 8], name="id")).to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table.identifiers("id") == ["7", "8"]


@pytest.mark.parametrize("gap", ["", "NaN", "na", "None", "inf"])
def test_gaps_are_nan_where_they_are_allowed_and_named_where_not(tmp_path: Path, gap: str) -> None:
    table = read_table(written(tmp_path / "a.csv", f"x,y\n1,2\n3,{gap}\n"))
    np.testing.assert_array_equal(table.numbers("y", missing=True), [2.0, np.nan])
    with pytest.raises(ValueError, match=r"'y' of .*a\.csv has no finite number in row 1"):
        table.numbers("y")


def test_what_is_no_number_is_named_with_its_column_and_row(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", "x\n1\n2,5\n".replace("2,5", "'two'")))
    with pytest.raises(ValueError, match=r"column 'x' of .* has \"'two'\" in row 1"):
        table.numbers("x")


def test_a_missing_column_lists_those_there_are(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", "x,y\n1,2\n"))
    with pytest.raises(ValueError, match="no column 'z'; its columns are x, y"):
        table.column("z")


def test_whole_numbers_that_became_floats_are_the_same_identifiers() -> None:
    assert Table(source="", columns={"id": np.array([1.0, 2.0])}).identifiers("id") == ["1", "2"]


def test_an_identifier_may_not_be_empty() -> None:
    with pytest.raises(ValueError, match="no identifier in row 1"):
        Table(source="", columns={"id": np.array(["a", ""])}).identifiers("id")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("x,x\n1,2\n", "name of its own, got 'x'"),
        ("x,\n1,2\n", "name of its own, got ''"),
        ("0.5,1.5\n1,2\n", "first line .* got 0.5, 1.5"),
        ("x,y\n1,2\n3\n", "row 1 of .* has 1 cells, the header has 2"),
    ],
)
def test_a_csv_file_that_is_no_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_table(written(tmp_path / "a.csv", text))


def test_columns_that_pandas_numbered_are_named_by_numbers(tmp_path: Path) -> None:
    assert list(read_table(written(tmp_path / "a.csv", "0,1\n0.5,2\n")).columns) == ["0", "1"]


@pytest.mark.parametrize("name", ["a.npz", "a.parquet"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(written(tmp_path / name, "x\n1\n"))


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=name):
        read_table(tmp_path / name)


def test_arrays_of_different_lengths_are_no_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones(2), y=np.ones(3))
    with pytest.raises(ValueError, match=r"equal length, got \{'x': 2, 'y': 3\}"):
        read_table(tmp_path / "a.npz")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.csv, \.parquet, \.npz, got 'a\.xlsx'"):
        read_table(tmp_path / "a.xlsx")


def test_without_pandas_a_parquet_file_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pandas(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ValueError, match=r"lobal\[tables\]"):
        read_table(tmp_path / "a.parquet")


def test_a_column_of_text_has_not_a_single_number() -> None:
    columns = {"text": ["a", "", "n/a"], "mixed": ["a", "1"], "gaps": ["", "nan"], "numbers": [1.0, 2.0]}
    made = Table(source="table.csv", columns={name: np.array(values) for name, values in columns.items()})
    assert [name for name in columns if made.is_text(name)] == ["text"]
