from pathlib import Path

import pytest

from lobal.core.dialects import Dialect
from lobal.core.numerals import found_decimal, is_like_number, number, read_number
from lobal.core.tables import read_table


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("1.5", ".", 1.5),
        ("1,5", ",", 1.5),
        ("-1e-3", ",", -0.001),
        ("\u22122,5", ",", -2.5),
        ("1.5", ",", None),
        ("1,5", ".", None),
        ("1_000", ".", None),
        ("\u0661", ".", None),
        ("cracked", ".", None),
    ],
)
def test_numbers_have_one_decimal_mark_and_nothing_else(text: str, decimal: str, value: float | None) -> None:
    assert number(text, decimal) == value


@pytest.mark.parametrize(
    ("texts", "separator", "found"),
    [
        (["25,14", "1,234"], ";", (",", True)),
        (["25.14", "1,234"], ";", (".", True)),
        (["0,123"], ";", (",", True)),
        (["1.234,5"], ";", (",", True)),
        (["1,234", "a"], ";", (".", False)),
        (["1.234"], ";", (".", False)),
        (["1.234"], ",", (".", True)),
        (["5", "a"], ";", (".", True)),
    ],
)
def test_the_decimal_mark_is_what_the_cells_show(texts: list[str], separator: str, found: tuple[str, bool]) -> None:
    assert found_decimal(texts, separator) == found


@pytest.mark.parametrize(
    ("text", "dialect", "reason"),
    [
        ("1.234,5", Dialect(decimal=","), "is '1.234,5', which has a thousands separator: write it as 1234,5"),
        ("1,234.5", Dialect(), "is '1,234.5', which has a thousands separator: write it as 1234.5"),
        ("1'234", Dialect(), 'is "1\'234", which has a thousands separator: write it as 1234'),
        ("-1.234.567", Dialect(), "is '-1.234.567', which has a thousands separator: write it as -1234567"),
        (
            "1,234",
            Dialect(decided=False),
            "is '1,234', which has a decimal comma or a thousands separator: pass --decimal , if it is a decimal "
            "comma, or write it as 1234",
        ),
        (
            "25.14",
            Dialect(decimal=","),
            "is '25.14', though the table has decimal commas: write it as 25,14, or pass --decimal .",
        ),
        ("cracked", Dialect(), "is 'cracked'"),
    ],
)
def test_what_is_no_number_is_explained(text: str, dialect: Dialect, reason: str) -> None:
    assert read_number(text, dialect) == reason
    assert is_like_number(text) == (text != "cracked")


def test_thousands_are_refused_by_line_and_never_taken_for_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1;2,5\n1.234;3,5\n1.250,5;3\n")
    table = read_table(tmp_path / "a.csv")
    assert not table.is_text("x")
    with pytest.raises(
        ValueError, match=r"line 3 is '1\.234', which has a thousands separator.*; line 4 is '1\.250,5'"
    ):
        table.numbers("x")


def test_a_table_takes_the_mark_that_it_does_not_show_from_another(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1,234;2\n")
    (tmp_path / "b.csv").write_text("x;y\n1,25;2\n")
    table = read_table(tmp_path / "a.csv")
    assert table.like(read_table(tmp_path / "b.csv")).numbers("x").tolist() == [1.234]
    with pytest.raises(ValueError, match=r"pass --decimal , if it is a decimal comma, or write it as 1234"):
        table.numbers("x")
