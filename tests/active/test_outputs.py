import math
from typing import Any

import numpy as np
import pytest

from lobal import Box, Curve, Output, Pool
from lobal.active.outputs import (
    check_outputs,
    checked_outputs,
    has_label,
    labels_of,
    outputs_from_json,
    outputs_to_json,
)

pd = pytest.importorskip("pandas")

TWO = (Output("strength", 2.0, "MPa"), Output("cost"))


def test_names_become_outputs_of_weight_one() -> None:
    assert checked_outputs(["a", Output("b", 3.0)]) == (Output("a"), Output("b", 3.0))


@pytest.mark.parametrize("outputs", [TWO, Curve("spectrum", 20, 0.9, "eV")])
def test_outputs_come_back_from_json(outputs: Any) -> None:
    entries = outputs_to_json(outputs)
    check_outputs(entries, "outputs")
    assert outputs_from_json(entries) == outputs


BAD = [([], "at least one"), (["a", "a"], "different names"), ([Output("a", 0.0)], "weight above zero"), (3, "got 3")]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_outputs_that_cannot_be_are_refused(given: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Pool([[0.0], [1.0]], outputs=given)


@pytest.mark.parametrize("make", [lambda: Output(""), lambda: Output("a", -1.0), lambda: Curve("a", 0)])
def test_an_output_is_checked_when_it_is_made(make: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"name|weight|n_points"):
        make()


@pytest.mark.parametrize("entries", [[], [{"name": "a"}], {"name": "a", "unit": None, "n_points": 0, "variance": 1.0}])
def test_outputs_of_a_damaged_file_are_refused(entries: object) -> None:
    with pytest.raises(ValueError, match="must"):
        check_outputs(entries, "outputs")


def test_labels_are_rows_with_nan_for_what_is_not_finite() -> None:
    labels = labels_of(TWO, [[1.0, math.inf], [None, 2.0]], 2, name="labels")
    np.testing.assert_array_equal(labels, [[1.0, math.nan], [math.nan, 2.0]])
    assert labels_of(TWO, [1.0, 2.0], 1, name="labels").shape == (1, 2)


def test_labels_of_another_width_are_refused_with_the_names() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*strength.*write NaN"):
        labels_of(TWO, [1.0, 2.0, 3.0], 3, name="labels")


@pytest.mark.parametrize("table", [pd.DataFrame, dict], ids=["frame", "dictionary"])
def test_columns_of_a_table_are_found_by_their_names(table: Any) -> None:
    values = table({"cost": [3.0, None], "note": ["a", "b"], "strength": [1.0, 2.0]})
    np.testing.assert_array_equal(labels_of(TWO, values, 2, name="labels"), [[1.0, 3.0], [2.0, math.nan]])
    for wrong in ({"cost": [3.0], "stiffness": [1.0]}, {"cost": [3.0]}):
        with pytest.raises(ValueError, match=r"each of the columns \['strength', 'cost'\] once, got .*; name them"):
            labels_of(TWO, table(wrong), 1, name="labels")


def test_columns_without_names_are_in_the_order_of_the_outputs() -> None:
    assert labels_of(TWO, pd.DataFrame([[1.0, 3.0]]), 1, name="labels").tolist() == [[1.0, 3.0]]
    spectrum = pd.DataFrame([[1.0, 3.0]], columns=["400 nm", "401 nm"])
    assert labels_of(Curve("spectrum", 2), spectrum, 1, name="labels").tolist() == [[1.0, 3.0]]


def test_a_point_is_labelled_by_any_output_and_by_a_whole_curve_only() -> None:
    labels = np.array([[1.0, math.nan], [math.nan, math.nan], [1.0, 2.0]])
    assert has_label(TWO, labels).tolist() == [True, False, True]
    assert has_label(Curve("c", 2), labels).tolist() == [False, False, True]


def test_the_space_hands_its_outputs_to_the_candidates() -> None:
    assert Box([0.0], [1.0], n_candidates=8, outputs=TWO).candidates(0).outputs == TWO
    assert Pool([[0.0], [1.0], [3.0]], density=1.0).candidates(0).outputs is None
