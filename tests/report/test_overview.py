import dataclasses

from lobal.report.overview import counts
from tests.report.setting import campaign


def test_candidates_and_inputs_are_counted_too() -> None:
    learner = campaign(2)
    summary = dataclasses.replace(learner.summary(), pending_since=None)
    assert counts(learner, summary, 2) == "30 labels, 5 pending, 0 failed. 80 candidates with 2 inputs."
    assert counts(learner, summary, 1).endswith("with one input.")
