import dataclasses

import numpy as np
import pytest

from lobal import ActiveLearner, Box, MixtureRegressor, Pool
from tests.faults.setting import X as ROWS
from tests.faults.setting import begun

MODEL = MixtureRegressor(n_inducing=16, n_gate_inducing=8)


@pytest.fixture(scope="module")
def pool() -> ActiveLearner:
    X = np.random.default_rng(0).random((120, 2))
    learner = ActiveLearner(Pool(X), seed=0, model=MODEL)
    batch = learner.ask(30)
    learner.tell(batch, np.sin(9.0 * X[batch, 0]))
    learner.ask(10)
    return learner


@pytest.fixture(scope="module")
def box() -> ActiveLearner:
    learner = ActiveLearner(Box([0.0, 0.0], [1.0, 10.0], n_candidates=256), seed=0, model=MODEL)
    x = learner.ask(30)
    learner.tell(x, np.where(x[:, 0] > 0.5, 1.0, 0.0))
    learner.ask(10)
    return learner


@pytest.mark.parametrize("name", ["pool", "box"])
def test_the_prediction_is_that_of_the_model(name: str, request: pytest.FixtureRequest) -> None:
    learner = request.getfixturevalue(name)
    inputs = learner.candidates.X[learner.pending] if name == "pool" else learner.pending
    mean, deviation = learner.model.predict(inputs, return_std=True)
    _, lower, upper = learner.model.predict(inputs, return_interval=0.95)
    reasons = learner.reasons()
    assert [each.prediction for each in reasons] == pytest.approx(mean)
    assert [each.standard_deviation for each in reasons] == pytest.approx(deviation)
    assert [each.interval for each in reasons] == [*zip(lower.tolist(), upper.tolist(), strict=True)]


@pytest.mark.parametrize("name", ["pool", "box"])
def test_the_nearest_label_is_that_of_the_nearest_point_in_the_metric_of_the_model(
    name: str, request: pytest.FixtureRequest
) -> None:
    learner = request.getfixturevalue(name)
    metric = learner.fitted.metric(learner.candidates)
    for reason in learner.reasons():
        x = learner.candidates.X[reason.point] if name == "pool" else np.array(reason.point)
        there = metric.coordinates(learner.labelled.X)
        squared = metric.squared_distances(metric.coordinates(x[None]), there)[0]
        assert reason.nearest.distance == pytest.approx(squared.min().sqrt().item(), abs=1e-6)
        assert reason.nearest.label == learner.labelled.y[int(squared.argmin())]


def test_a_point_at_a_step_lies_between_labels_that_differ(box: ActiveLearner) -> None:
    (reason,) = box.reasons([[0.5, 5.0]])
    assert reason.difference == 1.0
    assert reason.between is not None
    assert {each.label for each in reason.between} == {0.0, 1.0}
    assert "between two labels that differ by 1" in reason.sentence()


def test_the_first_points_of_a_batch_are_checks_and_the_others_spread() -> None:
    X = np.random.default_rng(0).random((120, 2))
    learner = ActiveLearner(Pool(X), seed=0, model=MODEL, draw="spread")
    first = learner.ask(30)
    learner.tell(first, np.sin(9.0 * X[first, 0]))
    batch, check = learner.ask(10), learner.history[-1].check
    assert [each.share for each in learner.reasons(batch)] == ["check"] * check + ["spread"] * (10 - check)
    assert check > 0


def test_before_there_is_a_model_points_are_the_start() -> None:
    learner = begun()
    batch = learner.ask(3)
    (reason, *_) = learner.reasons(batch)
    assert (reason.share, reason.prediction, reason.nearest, reason.complexity) == ("start", None, None, None)
    assert reason.sentence() == f"row {batch[0]}: it is one of the first points, which are spread evenly."
    learner.tell(batch[:1], [2.5])
    assert learner.reasons([int(batch[1])])[0].nearest.label == 2.5  # type: ignore[union-attr]  # there is one


def test_points_of_other_draws_follow_the_density_and_points_nobody_asked_for_have_no_share() -> None:
    learner = begun()
    learner.tell(range(12), np.sin(9.0 * ROWS[:12, 0]))
    batch = learner.ask(2)
    assert [each.share for each in learner.reasons()] == ["density"] * 2
    other = next(row for row in range(12, 60) if row not in batch)
    assert learner.reasons([other])[0].share is None
    assert learner.reasons([]) == []


def test_complexity_is_relative_to_the_median_of_all_candidates(pool: ActiveLearner) -> None:
    complexity = pool.local_complexity()
    expected = complexity[pool.pending] / np.median(complexity)
    assert [each.complexity for each in pool.reasons()] == pytest.approx(expected)


def test_sentences_have_the_names_that_are_given(box: ActiveLearner, pool: ActiveLearner) -> None:
    sentence = box.reasons([[0.25, 5.0]])[0].sentence(["temperature", "pressure"])
    assert sentence.startswith("temperature = 0.25, pressure = 5: predicted ")
    assert "; nearest label 0 at temperature = " in sentence
    assert "local complexity" in sentence
    names = [f"sample {row}" for row in range(120)]
    assert pool.reasons()[0].sentence(names).startswith(f"sample {pool.pending[0]}: predicted ")


def test_vectors_are_shown_as_such(pool: ActiveLearner) -> None:
    reason = dataclasses.replace(pool.reasons()[0], prediction=(1.0, 2.0), interval=((0.0, 1.0), (2.0, 3.0)))
    assert "predicted (1, 2) (95% between (0, 1) and (2, 3))" in reason.sentence()
    named = reason.sentence(outputs=["strength", "price"])
    assert "predicted strength 1 (95% between 0 and 2), price 2 (95% between 1 and 3); nearest" in named
    missing = dataclasses.replace(reason, prediction=(np.nan, 2.0), difference=(np.nan, 0.5))
    sentence = missing.sentence(outputs=["strength", "price"])
    assert "predicted price 2 (95% between 1 and 3); " in sentence
    assert "differ by price 0.5" in sentence
