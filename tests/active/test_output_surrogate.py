"""Several outputs behind one surrogate: closed forms of the common complexity, labels with gaps, files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal import ActiveLearner, Box, Curve, Output
from lobal.active.output_models import CurveBasis
from lobal.active.output_surrogate import FittedOutputs
from tests.learner_setting import bumpy, learner, pool

GRID = np.linspace(0.0, 1.0, 30)


def two(X: np.ndarray) -> np.ndarray:
    """Complex on the left, and complex on the right a hundred times larger."""
    return np.stack([bumpy(X), 100.0 * bumpy(1.0 - X)], axis=1)


def curves(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(6.0 * X) * GRID + np.cos(3.0 * X) * (1.0 - GRID))


def told(outputs: Any, oracle: Any, n: int = 40, **changes: Any) -> ActiveLearner:
    """A learner with n labels of a pool."""
    space = pool()
    found = learner(type(space)(space.X, outputs=outputs), **changes)
    batch = found.ask(n)
    found.tell(batch, oracle(space.X[batch]))
    return found


def fitted_of(found: ActiveLearner) -> FittedOutputs:
    assert isinstance(found.fitted, FittedOutputs)
    return found.fitted


def test_equal_outputs_have_the_density_of_a_single_one() -> None:
    single = told(None, bumpy)
    double = told(("a", "b"), lambda X: np.stack([bumpy(X), 3.0 - 5.0 * bumpy(X)], axis=1))
    np.testing.assert_allclose(double.superior_density(), single.superior_density(), rtol=1e-6)
    assert double.ask(5).tolist() == single.ask(5).tolist()


def test_an_output_of_weight_zero_is_predicted_but_not_followed() -> None:
    found, single = told(("a", Output("b", 0.0)), two), told(("a",), lambda X: two(X)[:, :1])
    np.testing.assert_allclose(found.superior_density(), single.superior_density(), rtol=1e-12)
    assert np.isfinite(found.model.predict(GRID[:, None])[:, 1]).all()


def test_the_common_density_is_high_where_either_output_is_complex() -> None:
    found, first = told(("a", "b"), two, n=60), told(("a", Output("b", 0.0)), two, n=60)
    right = found.candidates.X[:, 0] > 0.8
    assert found.superior_density()[right].mean() > 1.2 * first.superior_density()[right].mean()


def test_units_of_the_outputs_do_not_matter() -> None:
    here, there = told(("a", "b"), two), told(("a", "b"), lambda X: two(X) * [1.0, 0.01])
    np.testing.assert_allclose(here.superior_density(), there.superior_density(), rtol=1e-4)


def test_complexities_add_up_with_their_factors() -> None:
    found = fitted_of(told(("a", "b"), two))
    X = GRID[:, None]
    parts = [each.model for each in found.outputs]
    expected = sum(
        np.exp(summary.log_factor) * model.noise_variance(X) / model.local_bandwidth(X) ** found.dimension
        for summary, model in zip(found.summaries, parts, strict=True)
        if model is not None
    )
    ratio = found.local_bandwidth(X) ** -found.dimension / expected
    np.testing.assert_allclose(ratio, ratio[0])


def test_the_factor_spreads_the_models_own_error_over_the_labels() -> None:
    found = told(("a", "b"), two)
    fitted, X = fitted_of(found), found.labelled.X
    weight, density = found.importance_weights(), found.training_density()[found.labelled.candidate]
    for summary, report in zip(fitted.summaries, fitted.outputs, strict=True):
        assert report.model is not None
        complexity = report.model.noise_variance(X) * report.model.local_bandwidth(X) ** -fitted.dimension
        mean = np.average(np.exp(summary.log_factor) * complexity / density, weights=weight)
        np.testing.assert_allclose(mean, summary.weight * summary.excess)


def test_errors_are_in_units_of_every_outputs_spread() -> None:
    found = told((Output("a", 3.0), "b"), two)
    fitted, spread = fitted_of(found), found.labelled.y.std(axis=0)
    relative = np.array(fitted.errors, dtype=float) / spread
    assert fitted.validation_error == pytest.approx(np.sqrt(np.average(relative**2, weights=[3.0, 1.0])))


def test_each_model_learns_from_the_points_that_have_its_output() -> None:
    def gaps(X: np.ndarray) -> np.ndarray:
        return np.where((X < 0.5) & (np.arange(2) == 0), np.nan, two(X))

    found = told(("a", "b"), gaps)
    assert np.isnan(found.labelled.y).any(axis=1).sum() > 5
    X, y, _ = found.labelled
    has_first = np.isfinite(y[:, 0])
    model = fitted_of(found).outputs[0].model
    assert model is not None
    # Exact experts know their own labels only.
    assert model.leave_one_out(X[has_first], y[has_first, 0])[0].shape == (has_first.sum(),)
    errors = fitted_of(found).squared_errors(X, y)
    assert errors is not None
    assert np.isfinite(errors).all()


def test_an_output_with_few_labels_has_no_model_yet() -> None:
    def rare(X: np.ndarray) -> np.ndarray:
        return np.where((np.arange(len(X))[:, None] >= 5) & (np.arange(2) == 1), np.nan, two(X))

    found = told(("a", "b"), rare)
    assert [*found.model.models] == ["a"]
    assert np.isnan(found.model.predict(GRID[:, None])[:, 1]).all()
    assert found.fitted is not None
    assert fitted_of(found).outputs[1].validation_error is None


def test_without_ten_labels_of_any_output_there_is_no_model() -> None:
    def alternating(X: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(X))[:, None] % 2 == np.arange(2), np.nan, two(X))

    assert told(("a", "b"), alternating, n=14).fitted is None


def test_labels_with_gaps_survive_in_the_journal(tmp_path: Path) -> None:
    found = told(("a", "b"), two, path=tmp_path / "c")
    batch = found.ask(3)
    found.tell(batch, [[1.0, np.nan], [np.nan, np.nan], [np.nan, 2.0]])
    found.close()
    last = [json.loads(line) for line in (tmp_path / "c" / "journal.jsonl").read_text().splitlines()][-2:]
    assert last[0]["labels"] == [[1.0, None], [None, 2.0]]
    assert last[1]["event"] == "failed"
    with ActiveLearner.load(tmp_path / "c") as again:
        np.testing.assert_array_equal(again.labelled.y, found.labelled.y)
        assert again.failed.tolist() == [batch[1]]


def test_a_loaded_campaign_has_the_same_models_and_asks_for_the_same(tmp_path: Path) -> None:
    found = told(("a", Output("b", 2.0, "mm")), two, path=tmp_path / "c")
    found.ask(3)
    mean, bandwidth = found.model.predict(GRID[:, None]), found.local_bandwidth()
    found.close()
    with ActiveLearner.load(tmp_path / "c") as again:
        np.testing.assert_array_equal(again.local_bandwidth(), bandwidth)
        np.testing.assert_array_equal(again.model.predict(GRID[:, None]), mean)
        assert again.history[-1].errors == found.history[-1].errors
        assert len(again.history[-1].errors) == 2
        assert again.history[-1].standard_errors == found.history[-1].standard_errors
        assert all(sure is not None for sure in again.history[-1].standard_errors)
        assert again.model.outputs[1].unit == "mm"


def test_a_damaged_model_of_several_outputs_is_refused(tmp_path: Path) -> None:
    found = told(("a", "b"), two, n=15)
    fitted_of(found).save(tmp_path / "model")
    with pytest.raises(ValueError, match="must be 3 models"):
        learner(Box([0.0], [1.0], n_candidates=8, outputs=("a", "b", "c"))).surrogate.load(tmp_path / "model")


def test_one_number_labels_with_null_are_refused(tmp_path: Path) -> None:
    with learner(path=tmp_path / "c") as found:
        found.expect([0])
        with pytest.raises(ValueError, match="labels of the same shape"):
            found._state._append({"event": "told", "points": [0], "labels": [None]})


def test_curves_are_learned_by_their_components(tmp_path: Path) -> None:
    found = told(Curve("spectrum", 30), curves, path=tmp_path / "c")
    assert [*found.model.models] == ["spectrum, component 1", "spectrum, component 2"]
    X = GRID[:, None]
    mean, deviation = found.model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (30, 30)
    assert np.abs(mean - curves(X)).max() < 0.05
    found.ask(2)
    found.close()
    with ActiveLearner.load(tmp_path / "c") as again:
        np.testing.assert_allclose(again.model.predict(X), mean, rtol=0.0, atol=1e-9)


def test_a_curve_with_a_gap_has_failed() -> None:
    found = learner(type(pool())(pool().X, outputs=Curve("c", 3)))
    found.tell([0, 1], [[1.0, np.nan, 2.0], [1.0, 2.0, 3.0]])
    assert found.failed.tolist() == [0]


def test_components_explain_the_wanted_share() -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(50, 3)) * [5.0, 1.0, 0.1] @ np.linalg.qr(rng.normal(size=(10, 3)))[0].T
    few, all_of_them = CurveBasis.of(sample, 0.9), CurveBasis.of(sample, 1.0)
    assert len(few.components) == 1
    np.testing.assert_allclose(all_of_them.curves(all_of_them.scores(sample)), sample)
    assert few.left_out.sum() < 0.1 * sample.var(axis=0).sum()


def test_shrinking_is_refused() -> None:
    with pytest.raises(ValueError, match="shrink_inducing must be False"):
        learner(Box([0.0], [1.0], n_candidates=8, outputs=("a",)), shrink_inducing=True)


def test_validation_labels_have_the_outputs(tmp_path: Path) -> None:
    X = np.random.default_rng(3).random((50, 1))
    found = told(("a", "b"), two, validation=(X, two(X)), path=tmp_path / "c")
    expected = np.sqrt(np.square(found.model.predict(X) - two(X)).mean(axis=0))
    np.testing.assert_allclose(fitted_of(found).errors, expected)
    found.close()
    ActiveLearner.load(tmp_path / "c").close()
