from pathlib import Path

import numpy as np
import pytest

from lobal.cli.matching import Index, Labels, matched_labels, pending_rows
from lobal.cli.suggestion import Request, input_columns, suggest, write_suggestion
from lobal.core.tables import Table


def table(source: str, **columns: list[object]) -> Table:
    return Table(source=source, columns={name: np.array(values) for name, values in columns.items()})


POOL = table("pool.csv", name=["a", "b", "c"], x=[0.1, 0.2, 0.3])


def matched(labels: Table, pool: Table = POOL, identifier: str | None = "name") -> Labels:
    return matched_labels(Index(pool, ["x"], identifier), [labels], target="y")


def pending(*tables: Table, known: Labels | None = None, identifier: str | None = "name") -> tuple[list[int], int]:
    labels = matched(table("labels.csv", name=[], x=[], y=[]), identifier=identifier) if known is None else known
    return pending_rows(Index(POOL, ["x"], identifier), tables, labels)[:2]


@pytest.mark.parametrize(
    ("labels", "identifier", "rows", "y", "outside"),
    [
        ({"name": ["c", "a"], "y": ["3", "1"]}, "name", [2, 0], [3.0, 1.0], 0),
        ({"x": ["0.30", "0.1"], "y": [3.0, 1.0]}, None, [2, 0], [3.0, 1.0], 0),
        ({"name": ["a", "b"], "y": ["", "2"]}, "name", [0, 1], [np.nan, 2.0], 0),  # a row without a target failed
        ({"name": ["a", "a"], "y": ["", "2"]}, "name", [0], [2.0], 0),  # unless it has a label elsewhere
        ({"name": ["a", "z"], "y": [1.0, 2.0]}, "name", [0], [1.0], 1),
        ({"name": [], "y": []}, "name", [], [], 0),
    ],
    ids=["by identifier", "by inputs", "failure", "failure made good", "outside the pool", "none"],
)
def test_labels_find_their_rows(
    labels: dict[str, list[object]], identifier: str | None, rows: list[int], y: list[float], outside: int
) -> None:
    found = matched(table("labels.csv", **labels), identifier=identifier)
    assert (found.rows.tolist(), found.outside) == (rows, outside)
    np.testing.assert_array_equal(found.y, y)


def test_of_equal_inputs_the_first_row_takes_all_labels() -> None:
    pool = table("pool.csv", x=[0.5, 0.1, 0.5])
    found = matched(table("labels.csv", x=[0.5, 0.5], y=[1.0, 2.0]), pool, identifier=None)
    assert (found.rows.tolist(), found.y.tolist()) == ([0, 0], [1.0, 2.0])


@pytest.mark.parametrize("identifier", ["name", None])
def test_files_without_a_row_in_common_are_refused(identifier: str | None) -> None:
    with pytest.raises(ValueError, match=r"no row of labels\.csv is in pool\.csv .* must contain all inputs"):
        matched(table("labels.csv", name=["z"], x=[0.9], y=[1.0]), identifier=identifier)


def test_identifiers_of_the_pool_have_to_be_unique() -> None:
    pool = table("pool.csv", name=["a", "b", "a"], x=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"pool\.csv has 'a' in column 'name' twice, in row 0 and row 2; correct"):
        matched(table("labels.csv", name=["b"], y=[1.0]), pool)


def test_labels_without_the_inputs_need_an_identifier() -> None:
    with pytest.raises(ValueError, match=r"no column 'x'.*columns are name, y.*--id"):
        matched(table("labels.csv", name=["a"], y=[1.0]), identifier=None)


def test_inputs_are_those_chosen_or_all_numeric_columns_but_target_and_identifier() -> None:
    pool = table("pool.csv", name=["a"], x=[0.1], y=[1.0], z=[2.0])
    assert input_columns(pool, target="y", identifier="name") == ["x", "z"]
    assert input_columns(pool, target="y", identifier="name", chosen=["z"]) == ["z"]
    pool = table("pool.csv", note=["good", "n/a", ""], x=["0.1", "", "2"], mixed=["12A", "13", "14"])
    assert input_columns(pool, target="y", identifier=None) == ["x", "mixed"]  # whose gaps and letters are errors


@pytest.mark.parametrize("chosen", [["y"], ["name", "x"], ["x", "x"], []], ids=str)
def test_target_and_identifier_cannot_be_chosen_and_nothing_twice(chosen: list[str]) -> None:
    pool = table("pool.csv", name=["a"], x=[0.1], y=[1.0])
    with pytest.raises(ValueError, match=r"inputs are columns other than|no numeric input columns"):
        input_columns(pool, target="y", identifier="name", chosen=chosen)


@pytest.mark.parametrize("identifier", ["name", None])
def test_pending_rows_are_found_like_labels_in_any_number_of_tables(identifier: str | None) -> None:
    first, second = table("a.csv", name=["c"], x=[0.3]), table("b.csv", name=["a", "c"], x=[0.1, 0.3])
    assert pending(first, second, identifier=identifier) == ([0, 2], 0)
    assert pending(identifier=identifier) == ([], 0)


def test_rows_with_a_label_or_a_failure_are_pending_no_more() -> None:
    known = matched(table("labels.csv", name=["a", "b"], y=["1", ""]))
    assert pending(table("next.csv", name=["a", "b", "c", "z"]), known=known) == ([2], 1)


def test_a_pending_table_without_a_row_of_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no row of next\.csv is in pool\.csv"):
        pending(table("next.csv", name=["z"]))


@pytest.mark.parametrize("name", ["row", "local_complexity", "superior_density"])
def test_inputs_may_not_have_the_names_of_what_is_added(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' of pool.csv"):
        input_columns(table("pool.csv", x=[0.1], **{name: [1.0]}), target="y", identifier=None)


def test_a_pool_without_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="no numeric input columns; its columns are name"):
        input_columns(table("pool.csv", name=["a"]), target="y", identifier="name")


@pytest.mark.parametrize(("identifier", "names"), [("name", ["a1", "a2"]), (None, ["row 0", "row 2"])])
def test_the_report_knows_target_and_identifiers(identifier: str | None, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("name,x\na1,0.1\nbad,\na2,0.3\n")
    (tmp_path / "labels.csv").write_text("name,x,HV\na1,0.1,7\n")
    files = {"pool": tmp_path / "pool.csv", "labels": (tmp_path / "labels.csv",)}
    request = Request(**files, target="HV", number=1, inputs=("x",), identifier=identifier, skip_incomplete=True)
    suggestion = suggest(request)
    assert (suggestion.target, suggestion.identifiers) == ("HV", names)
    write_suggestion(suggestion, tmp_path / "next.csv", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<td>{names[1]}</td>" in page
    assert f"<td>7 ({names[0]})</td>" in page
