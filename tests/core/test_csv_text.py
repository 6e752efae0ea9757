import codecs
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobal.core.dialects import Dialect, TableOptions
from lobal.core.tables import Table, read_table, table_content

GERMAN = "Probe;Kupfer;Mangan;Härte\nA1;25,14;3;310\nA2;1,5;4;298,5\n"


def table_of(folder: Path, content: str | bytes, **options: str) -> Table:
    path = folder / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, TableOptions(**options))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_german_table_is_read_as_it_is_meant(tmp_path: Path, encoding: str) -> None:
    table = table_of(tmp_path, GERMAN.encode(encoding))
    np.testing.assert_array_equal(table.matrix(["Kupfer", "Mangan", "Härte"]), [[25.14, 3, 310], [1.5, 4, 298.5]])
    assert (table.dialect.separator, table.dialect.decimal) == (";", ",")
    assert not table.is_text("Kupfer")


def test_what_is_not_plain_is_described(tmp_path: Path) -> None:
    dialect = table_of(tmp_path, GERMAN.encode("cp1252")).dialect
    assert dialect.description == "separated by semicolons, with decimal commas, encoded as cp1252"
    assert table_of(tmp_path, "x\n1\n").dialect.description is None


def test_the_options_decide_what_the_file_leaves_open(tmp_path: Path) -> None:
    table = table_of(tmp_path, "a;b,c\n1,234;2\n".encode("latin-1"), separator="semicolon", decimal=",")
    assert table.numbers("a").tolist() == [1.234]
    assert table_of(tmp_path, GERMAN.encode("utf-16-le"), encoding="utf-16-le").numbers("Kupfer")[0] == 25.14


def test_the_line_that_tells_excel_the_separator_is_no_header(tmp_path: Path) -> None:
    table = table_of(tmp_path, "sep=;\nx;y\n1,5;2\n")
    assert ([*table.columns], table.place(0), table.numbers("x").tolist()) == (["x", "y"], "line 3", [1.5])


def test_a_comma_in_a_name_does_not_separate(tmp_path: Path) -> None:
    assert [*table_of(tmp_path, "Temp, C;x\n25;3\n").columns] == ["Temp, C", "x"]


def test_blank_rows_and_columns_are_left_out_and_lines_are_those_of_the_file(tmp_path: Path) -> None:
    table = table_of(tmp_path, 'x;y;;\n1;2;;\n;;;\n\n"3";"4";;\n;;;\n;;;\n')
    assert ([*table.columns], len(table)) == (["x", "y"], 2)
    assert [table.place(row, "x") for row in range(2)] == ["line 2 (x '1')", "line 5 (x '3')"]


def test_a_cell_of_several_lines_counts_as_such(tmp_path: Path) -> None:
    assert table_of(tmp_path, 'x,note\n1,"a\nb"\n2,c\n').place(1) == "line 4"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b;c\n1,2;3\n", r"a\.csv may be separated by commas or semicolons; pass --sep ',' or --sep ';', or save"),
        ("x\n25,14\n", r"a\.csv has 1 cell, but line 2 has 2; .* decimal marks there, pass --sep ';' --decimal"),
        ("x,y\n1,2,3\n", r"the header of .*a\.csv has 2 cells, but line 2 has 3; correct them or leave them out"),
        ("x;y\n1\n2;3\n4\n", r"has 2 cells, but line 2 has 1, line 4 has 1; correct them or leave them out"),
        ("x;y\n1\t2\n3;4\n", r"line 2 has 1; separate their cells by semicolons, as in the header, not by tabs"),
        ("Order 17;\nx;y\n1;2\n", r"got '' for column 2 in Order 17, ; if there are lines above the names .* delete"),
        ("a;b;a\n1;2;3\n", r"needs a name of its own, got 'a' for column 1 and 3 in a, b, a"),
        ("a;;c\n1;2;3\n", r"needs a name of its own, got '' for column 2 in a, , c"),
        (b"x,y\n1,\x00\n", r"a\.csv has a NUL character in line 2: .*save it as UTF-8 or pass its --encoding"),
        (b"x,y\n1,\x81\n", r"a\.csv is not text in UTF-8 or cp1252: .*; save it as UTF-8, or pass its --encoding"),
        (codecs.BOM_UTF16_LE + b"a", r"a\.csv is not text in utf-16: .*truncated"),
        (f"x,y\n1,2\n1,{'b' * 200_000}\n", r"field larger than field limit \(131072\) in line 3; correct it"),
    ],
)
def test_what_is_no_table_is_refused_by_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table_of(tmp_path, content)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"separator": "|"}, r"--sep has to be ',', ';' or 'tab', got '\|'; leave it out"),
        ({"decimal": ";"}, r"--decimal has to be '\.' or ',', got ';'; leave it out"),
        ({"encoding": "hex"}, r"--encoding 'hex' is unknown; give one such as utf-8, utf-16, cp1252"),
        ({"encoding": "klingon"}, r"--encoding 'klingon' is unknown"),
    ],
)
def test_options_are_checked(option: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableOptions(**option)


def test_a_table_is_written_as_another_was_read_for_excel(tmp_path: Path) -> None:
    dialect = table_of(tmp_path, GERMAN.encode("cp1252")).dialect
    columns = {"Härte": np.array([1.5, -2.0, np.nan]), "=id": np.array(["a;b", "-1,5", "-a"], dtype=object)}
    content = table_content(columns, tmp_path / "a.csv", dialect)
    assert content == codecs.BOM_UTF8 + "Härte;'=id\n1,5;\"a;b\"\n-2,0;-1,5\n;'-a\n".encode()


def test_a_number_that_could_be_thousands_gets_another_digit(tmp_path: Path) -> None:
    content = table_content({"x": np.array([1.234])}, tmp_path / "a.csv", Dialect(separator=";", decimal=","))
    assert content == b"x\n1,2340\n"


DIALECTS = st.builds(
    Dialect,
    separator=st.sampled_from([",", ";", "\t"]),
    decimal=st.sampled_from([".", ","]),
    encoding=st.sampled_from(["utf-8", "cp1252"]),
)
TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
FLOATS = st.floats(allow_infinity=False)


@settings(max_examples=40, deadline=None)
@given(
    dialect=DIALECTS,
    rows=st.lists(st.tuples(TEXT, FLOATS), min_size=1, max_size=5),
    suffix=st.sampled_from([".csv", ".xlsx"]),
)
def test_what_is_written_in_any_dialect_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, dialect: Dialect, rows: list[tuple[str, float]], suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    columns = {"id": np.array(["a", *(text for text, _ in rows)], dtype=object)}
    columns["x"] = np.array([0.5, *(value for _, value in rows)])
    path.write_bytes(table_content(columns, path, dialect))
    table = read_table(path, TableOptions(separator=dialect.separator, decimal=dialect.decimal))
    assert table.column("id").tolist() == columns["id"].tolist()
    np.testing.assert_array_equal(table.numbers("x", missing=True), columns["x"])


@settings(max_examples=40, deadline=None)
@given(dialect=DIALECTS, values=st.lists(st.floats(0.001, 2000.0), min_size=3, max_size=5))
def test_a_table_of_numbers_shows_the_dialect_that_it_is_written_in(
    tmp_path_factory: pytest.TempPathFactory, dialect: Dialect, values: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    columns = {"x": np.array(values), "y": np.array(values[::-1])}
    path.write_bytes(table_content(columns, path, dialect))
    table = read_table(path)
    assert table.dialect.separator == dialect.separator
    np.testing.assert_array_equal(table.matrix(["x", "y"]), np.stack([*columns.values()], axis=1))
