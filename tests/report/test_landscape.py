from dataclasses import replace

import numpy as np
import pytest

from lobal import ActiveLearner, Box
from lobal.report import landscape as module
from lobal.report.landscape import landscape, suggested_inputs
from tests.report.setting import MODEL, campaign, invented_landscape


def test_the_landscape_repeats_the_learner() -> None:
    learner = campaign(2)
    shown = landscape(learner, ["east", "north"])
    assert shown.names == ("east", "north")
    np.testing.assert_array_equal(shown.points, learner.candidates.X)
    np.testing.assert_array_equal(shown.complexity, learner.local_complexity())
    np.testing.assert_array_equal(shown.superior_density, learner.superior_density())
    np.testing.assert_array_equal(shown.labelled, learner.labelled.X)


def test_of_many_candidates_some_are_shown_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 20)
    learner = campaign(1)
    shown = landscape(learner)
    rows = [np.flatnonzero(learner.candidates.X[:, 0] == x).item() for x in shown.points[:, 0]]
    assert rows == sorted(rows)
    assert len(rows) == 20
    np.testing.assert_array_equal(shown.complexity, learner.local_complexity()[rows])


def test_suggested_inputs_are_those_that_are_pending() -> None:
    learner = campaign(2)
    np.testing.assert_array_equal(suggested_inputs(learner), learner.candidates.X[learner.pending])


def test_a_box_suggests_inputs_themselves() -> None:
    learner = ActiveLearner(Box([0.0, 0.0], [1.0, 2.0], n_candidates=64), seed=0, model=MODEL)
    assert suggested_inputs(learner).shape == (0, 2)
    asked = learner.ask(3)
    np.testing.assert_array_equal(suggested_inputs(learner), asked)


def test_a_dollar_in_a_name_begins_no_formula() -> None:
    assert landscape(campaign(1), ["cost$"]).names == (r"cost\$",)


def test_without_a_model_there_is_no_landscape() -> None:
    with pytest.raises(ValueError, match="3 labels are too few"):
        landscape(campaign(1, labels=3))


def test_every_column_needs_a_name() -> None:
    with pytest.raises(ValueError, match=r"2 input columns need as many names, got \['a'\]"):
        replace(invented_landscape(2), names=("a",))
