import dataclasses

import lobal
from lobal.report.overview import counts
from tests.report.setting import campaign


def test_candidates_and_inputs_are_counted_too() -> None:
    learner = campaign(2)
    summary = dataclasses.replace(learner.summary(), pending_since=None)
    assert counts(learner, summary, 2) == "30 labels, 5 pending, 0 failed. 80 candidates with 2 inputs."
    assert counts(learner, summary, 1).endswith("with one input.")


def test_of_a_space_without_a_table_any_point_is_a_candidate() -> None:
    learner = lobal.ActiveLearner(lobal.Box([0.0, 0.0], [1.0, 1.0], n_candidates=256), seed=0)
    assert counts(learner, learner.summary(), 2) == "0 labels, 0 pending, 0 failed. Any feasible point of 2 inputs."
