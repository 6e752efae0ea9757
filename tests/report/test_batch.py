import numpy as np
import pytest

from lobal import ActiveLearner, Pool
from lobal.report.batch import CHECK, DENSITY, SPREAD, START, batch_rows, batch_table, last_batch, nearest_labels
from lobal.report.variables import variables_of
from tests.report.setting import MODEL, campaign


def test_rows_say_what_is_predicted_and_how_complex_it_is_there() -> None:
    learner = campaign(2)
    rows = batch_rows(learner, variables_of(2), str, {"y": learner.model})
    assert [row.name for row in rows] == [str(n) for n in learner.pending]
    mean, lower, upper = learner.model.predict(learner.candidates.X[learner.pending], return_interval=0.95)
    np.testing.assert_allclose([row.predictions["y"] for row in rows], np.stack([mean, lower, upper], axis=1))
    complexity = learner.local_complexity()
    assert [row.complexity for row in rows] == pytest.approx(complexity[learner.pending] / np.median(complexity))


def test_the_first_points_of_a_step_are_those_that_check() -> None:
    learner = campaign(1)
    learner.ask(12)
    shares = [row.share for row in batch_rows(learner, variables_of(1), str, {})]
    check = learner.history[-1].check
    assert check > 0
    assert shares == [CHECK] * check + [SPREAD] * (12 - check)


def test_points_of_random_draws_follow_the_density() -> None:
    learner = ActiveLearner(Pool(np.linspace(0.0, 1.0, 40)[:, None]), model=MODEL, draw="random")
    learner.tell(np.arange(0, 40, 3), np.zeros(14) + np.arange(14) % 3)
    learner.ask(3)
    assert {row.share for row in batch_rows(learner, variables_of(1), str, {})} == {DENSITY}


def test_without_a_model_points_are_a_start() -> None:
    learner = campaign(2, labels=5)
    rows = batch_rows(learner, variables_of(2), str, {})
    assert {row.share for row in rows} == {START}
    assert {row.complexity for row in rows} == {None}


def test_only_the_last_step_is_the_batch() -> None:
    learner = campaign(1)
    asked = learner.ask(4)
    np.testing.assert_array_equal(last_batch(learner).points, asked)
    learner.tell(asked[:3], np.zeros(3))
    np.testing.assert_array_equal(last_batch(learner).points, asked[3:])


def test_the_nearest_label_of_a_labelled_point_is_its_own() -> None:
    learner = campaign(2)
    rows, distance = nearest_labels(learner, learner.labelled.X[4:7])
    np.testing.assert_array_equal(rows, [4, 5, 6])
    np.testing.assert_allclose(distance, 0.0, atol=1e-5)


def test_columns_that_nothing_is_known_for_are_left_out() -> None:
    learner = campaign(1, labels=0)
    table = batch_table(batch_rows(learner, variables_of(1), str, {}), variables_of(1))
    assert "<th>why</th>" in table
    assert "complexity" not in table
