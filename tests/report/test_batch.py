import numpy as np
import pytest

from lobal import ActiveLearner, Box
from lobal.report.batch import batch_rows, batch_table, earlier_points, last_batch
from lobal.report.variables import variables_of
from tests.report.setting import MODEL, campaign


def named(number: int) -> str:
    return f"sample {number}"


def test_rows_have_the_reasons_of_the_learner() -> None:
    learner = campaign(2)
    rows = batch_rows(learner, variables_of(2), named)
    assert [row.name for row in rows] == [f"sample {number}" for number in learner.pending]
    assert [row.reason for row in rows] == learner.reasons()
    assert [row.nearest for row in rows] == [f"sample {each.nearest.point}" for each in learner.reasons()]  # type: ignore[union-attr]  # there are labels


def test_only_the_pending_points_of_the_last_step_are_the_batch() -> None:
    learner = campaign(1)
    asked = learner.ask(4)
    assert learner.ledger.candidates(last_batch(learner)).tolist() == asked.tolist()
    learner.tell(asked[:3], np.zeros(3))
    assert learner.ledger.candidates(last_batch(learner)).tolist() == asked[3:].tolist()


def test_points_of_earlier_steps_are_named_with_their_time() -> None:
    learner = campaign(1)
    earlier = [f"sample {number}" for number in learner.pending]
    assert earlier_points(learner, named) == ""
    learner.ask(4)
    since = learner.pending_since()[0]
    expected = f"5 points of earlier rounds still pending, the first since {since:%Y-%m-%d %H:%M} UTC: "
    assert earlier_points(learner, named) == f"{expected}{', '.join(earlier)}."
    assert "point 31, " in earlier_points(learner, lambda _: None)


def test_columns_that_nothing_is_known_for_are_left_out() -> None:
    learner = campaign(1, labels=0)
    table = batch_table(batch_rows(learner, variables_of(1), named), variables_of(1), ["y"])
    assert "<th>why</th>" in table
    assert "complexity" not in table
    assert "predicted" not in table


@pytest.fixture(scope="module")
def two_outputs() -> ActiveLearner:
    """The second output has few labels, and no model yet."""
    learner = ActiveLearner(Box(0.0, 1.0, n_candidates=64, outputs=("strength", "cost")), model=MODEL)
    x = learner.ask(16)
    learner.tell(x, np.column_stack([np.sin(9.0 * x[:, 0]), np.where(np.arange(16) < 5, 1.0, np.nan)]))
    learner.ask(3)
    return learner


def test_outputs_without_a_model_are_not_predicted(two_outputs: ActiveLearner) -> None:
    rows = batch_rows(two_outputs, variables_of(1), lambda _: None)
    table = batch_table(rows, variables_of(1), ["strength", "cost"])
    assert "<th>strength, predicted (95% interval)</th>" in table
    assert "<th>cost, predicted" not in table
    assert "<th>point</th>" not in table


def test_labels_are_compared_output_by_output(two_outputs: ActiveLearner) -> None:
    row = batch_rows(two_outputs, variables_of(1), lambda _: None)[0]
    assert row.reason.between is not None
    first, second = (each.label for each in row.reason.between)
    table = batch_table([row], variables_of(1), ["strength", "cost"])
    assert f"<td>{abs(first[0] - second[0]):.4g}, " in table
