import pytest

from docs import numbers
from docs.numbers import PAGES, TABLE, TOP, number, updated
from docs.tables import TABLES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_numbers_of_a_page_are_those_of_the_records(page: numbers.Path) -> None:
    text = page.read_text()
    assert text.count("<!-- numbers:") == len(TABLE.findall(text))  # none is passed over
    assert updated(text) == text, f"{page.relative_to(TOP)} differs from docs/results; run make docs-numbers"


def test_tables_and_numbers_are_written_between_their_marks() -> None:
    text = "<!-- numbers: tuning -->\nold\n<!-- /numbers -->\nand <!--n:tuning/summary/0/n:d-->1<!--/n--> labels"
    table, sentence = updated(text).split("<!-- /numbers -->\n")
    assert table.startswith("<!-- numbers: tuning -->\n| model | RMSE |")
    assert sentence == "and <!--n:tuning/summary/0/n:d-->2048<!--/n--> labels"
    assert updated(updated(text)) == updated(text)


def test_a_mean_comes_with_its_standard_error() -> None:
    assert number("tuning/summary/0/default_rmse", ".3f") == "0.248 ± 0.013"


def test_a_number_without_a_record_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        number("nowhere/n", "d")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_rows_of_equal_length(name: str) -> None:
    lengths = {line.count(" | ") for line in TABLES[name]().splitlines()}
    assert len(lengths) == 1
