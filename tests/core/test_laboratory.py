from typing import Any

import numpy as np
import pytest

from lobal.core.laboratory import input_matrix, target_labels, warnings_of
from lobal.core.tables import Table


def table(**columns: list[Any]) -> Table:
    arrays = {name: np.array(values, dtype=object) for name, values in columns.items()}
    n = len(next(iter(arrays.values())))
    return Table(source="a.csv", columns=arrays, lines=np.arange(2, n + 2))


LABELS = table(id=["a", "b", "c", "d", "e", "f"], y=["<310", ">5", "cracked", "n.a.", "1.5", "Cracked"])


def test_texts_are_failures_on_request_in_any_case() -> None:
    labels = target_labels(table(y=["1", "cracked", "N.A.", "", "-1"]), "y", failed=["CRACKED", "n.a.", "-1"])
    np.testing.assert_array_equal(labels.values, [1.0, np.nan, np.nan, np.nan, np.nan])
    assert labels.notes == ["Labels of a.csv that count as failed: 3 (-1, N.A., cracked)."]


def test_unknown_texts_are_refused_with_lines_and_options() -> None:
    with pytest.raises(ValueError, match=r"column 'y' of a\.csv") as error:
        target_labels(LABELS, "y", identifier="id")
    assert str(error.value) == (
        "column 'y' of a.csv has labels that are no numbers: '<310' (censored) in line 2 (id 'a'); '>5' (censored) in "
        "line 3 (id 'b'); 'cracked' in line 4 (id 'c'); 'n.a.' in line 5 (id 'd'); 'Cracked' in line 7 (id 'f'); pass "
        "--failed Cracked,cracked,n.a. if these failed; pass --censored drop to count censored labels as failed, or "
        "--censored bound to use their bounds; or correct them"
    )


@pytest.mark.parametrize(
    ("censored", "values", "note"),
    [
        ("drop", [np.nan, np.nan], "Censored labels of a.csv that count as failed: 2 (<310; >5)."),
        (
            "bound",
            [310.0, 5.0],
            "Censored labels of a.csv that are used as if their bounds were measured: 2 (<310; >5).",
        ),
    ],
)
def test_censored_labels_are_dropped_or_their_bounds(censored: str, values: list[float], note: str) -> None:
    labels = target_labels(LABELS, "y", failed=["cracked", "n.a."], censored=censored)
    np.testing.assert_array_equal(labels.values, [*values, np.nan, np.nan, 1.5, np.nan])
    assert note in labels.notes


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1,234", "2.5"], r"'1,234', which has a thousands separator: write it as 1234 in line 2; correct them$"),
        (["not done", "1"], r"pass --failed 'not done' if these failed; or correct them$"),
        (["<many", "1"], r"'<many' in line 2; pass --failed '<many' if"),
        (["?"] * 12, r"'\?' in line 2, line 3, .*, line 11 and 2 more; pass"),
    ],
)
def test_other_labels_are_named(values: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target_labels(table(y=values), "y")


def test_censored_labels_have_two_uses() -> None:
    with pytest.raises(ValueError, match="--censored has to be one of drop, bound, got 'ignore'"):
        target_labels(LABELS, "y", censored="ignore")


INPUTS = table(id=["a", "b", "c", "d"], x=["1", "", "n.d.", "4"], z=["1", "?", "3", "inf"])


def test_all_incomplete_rows_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"a\.csv") as error:
        input_matrix(INPUTS, ["x", "z"], identifier="id")
    assert str(error.value) == (
        "3 rows of a.csv without a number for every input: line 3 (id 'b'): 'x' is missing, 'z' is '?'; line 4 (id "
        "'c'): 'x' is 'n.d.'; line 5 (id 'd'): 'z' is infinite; correct them, leave them out with --skip-incomplete, "
        "or choose other columns with --inputs"
    )


def test_ten_incomplete_rows_are_shown_and_the_others_counted() -> None:
    with pytest.raises(ValueError, match=r"^13 rows of a\.csv .*; line 11: 'x' is missing and 3 more; correct them"):
        input_matrix(table(x=[""] * 13 + ["1"]), ["x"])


def test_incomplete_rows_are_left_out_on_request() -> None:
    rows, values, notes = input_matrix(INPUTS, ["x", "z"], skip_incomplete=True)
    assert (rows.tolist(), values.tolist()) == ([0], [[1.0, 1.0]])
    assert notes[0].startswith("3 rows of a.csv are left out as incomplete: line 3: 'x' is missing, 'z' is '?'; line 4")


def test_the_notes_name_inputs_and_what_should_not_be_one() -> None:
    mine = table(
        nr=["1", "2", "3"],
        x=["3", "1", "2"],
        alloy=["a", "b", "b"],
        day=["1.3.2024", "", "31.12.23"],
        iso=["2024-03-01", "2024-03-02T10:00", "2024-03-03 10:00:00"],
        compact=["20240301", "20240302", "20231231"],
    )
    assert warnings_of(mine, ["nr", "x"]) == [
        "Inputs: nr, x.",
        "Columns of dates are not used as inputs: day, iso, compact.",
        "Text columns are not used as inputs: alloy. Categories are possible in a search space.",
        "Inputs that only count the rows: nr. Leave them out with --inputs, or pass one that identifies the rows as "
        "--id.",
    ]


@pytest.mark.parametrize("values", [["0", "1", "2"], [1, 2, 3], ["1", "2", "3"]])
def test_rows_are_counted_from_zero_or_one(values: list[Any]) -> None:
    assert any("only count the rows: n" in note for note in warnings_of(table(n=values), ["n"]))


@pytest.mark.parametrize("values", [["1", "2"], ["2", "3", "4"], ["1", "3", "2"], ["1.0", "2.0", "3.5"]])
def test_other_numbers_do_not_count_rows(values: list[Any]) -> None:
    assert warnings_of(table(n=values), ["n"]) == ["Inputs: n."]
