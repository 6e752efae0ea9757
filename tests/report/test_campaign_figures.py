from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid

from lobal import ActiveLearner, Box
from lobal.report import campaign_figures
from lobal.report.campaign_figures import (
    Curve,
    inputs_of,
    landscape,
    learning_curve_figure,
    training_histogram_figure,
)
from lobal.report.savings import pooled_errors
from lobal.report.variables import variables_of
from tests.report.setting import MODEL, campaign, invented_landscape

CURVES = {
    "random": Curve([100, 200, 400], np.array([[0.4, 0.3, 0.2], [0.5, 0.3, 0.25]])),
    "active": Curve([100, 200, 400], np.array([[0.3, 0.2, 0.15], [0.3, 0.25, 0.1]])),
}


def test_learning_curves_are_pooled_errors_on_logarithmic_axes() -> None:
    (axes,) = learning_curve_figure(CURVES).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for container, curve in zip(axes.containers, CURVES.values(), strict=True):
        np.testing.assert_allclose(container[0].get_ydata(), pooled_errors(curve.rmse)[0])


def test_the_bars_of_a_learning_curve_are_one_standard_error_long() -> None:
    (axes,) = learning_curve_figure(CURVES).axes
    pooled, error = pooled_errors(CURVES["random"].rmse)
    ends = np.array([segment[:, 1] for segment in axes.containers[0][2][0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([pooled - error, pooled + error], axis=1))


@pytest.mark.parametrize("rate", [0.5, 0.4])
def test_the_guide_has_the_slope_of_the_rate_and_lies_below_all_curves(rate: float) -> None:
    (axes,) = learning_curve_figure(CURVES, rate).axes
    guide = next(line for line in axes.lines if str(line.get_label()).startswith("slope"))
    sizes, height = (np.asarray(values) for values in guide.get_data())
    np.testing.assert_allclose(np.diff(np.log(height)) / np.diff(np.log(sizes)), -rate)
    assert (height < pooled_errors(CURVES["active"].rmse)[0]).all()


def test_the_histogram_and_both_densities_have_area_one() -> None:
    place = replace(invented_landscape(1), failed=np.empty((0, 1)))
    (axes,) = training_histogram_figure(place).axes
    area = sum(patch.get_width() * patch.get_height() for bars in axes.containers for patch in bars)
    assert area == pytest.approx(1.0)
    assert len(axes.lines) == 2
    for line in axes.lines:
        assert trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1.0)


def test_a_histogram_without_suggested_points_has_one_kind_of_bar() -> None:
    place = replace(invented_landscape(1), suggested=np.empty((0, 1)), failed=np.empty((0, 1)))
    legend = training_histogram_figure(place).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][:2] == ["labelled, 30", "training density $p_k$"]


def test_the_landscape_repeats_the_learner() -> None:
    learner = campaign(2)
    shown = landscape(learner, variables_of(2, ["east", "north"]), {"y": learner.model})
    assert [variable.name for variable in shown.variables] == ["east", "north"]
    np.testing.assert_array_equal(shown.points, learner.candidates.X)
    np.testing.assert_array_equal(shown.complexity, learner.local_complexity())
    np.testing.assert_array_equal(shown.superior_density, learner.superior_density())
    np.testing.assert_array_equal(shown.labelled, learner.labelled.X)
    np.testing.assert_allclose(shown.predictions["y"], learner.model.predict(learner.candidates.X))


def test_of_many_candidates_some_are_shown_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_figures, "MOST_POINTS", 20)
    learner = campaign(1)
    shown = landscape(learner)
    rows = [np.flatnonzero(learner.candidates.X[:, 0] == x).item() for x in shown.points[:, 0]]
    assert rows == sorted(rows)
    assert len(rows) == 20
    np.testing.assert_array_equal(shown.complexity, learner.local_complexity()[rows])


def test_suggested_inputs_are_those_that_are_pending() -> None:
    learner = campaign(2)
    np.testing.assert_array_equal(inputs_of(learner, learner.ledger.pending), learner.candidates.X[learner.pending])


def test_a_box_suggests_inputs_themselves() -> None:
    learner = ActiveLearner(Box([0.0, 0.0], [1.0, 2.0], n_candidates=64), seed=0, model=MODEL)
    assert inputs_of(learner, learner.ledger.pending).shape == (0, 2)
    asked = learner.ask(3)
    np.testing.assert_array_equal(inputs_of(learner, learner.ledger.pending), asked)


def test_without_a_model_there_is_no_landscape() -> None:
    with pytest.raises(ValueError, match="3 labels are too few"):
        landscape(campaign(1, labels=3))


def test_a_histogram_marks_what_failed() -> None:
    place = invented_landscape(1)
    (axes,) = training_histogram_figure(place).axes
    (crosses,) = [line for line in axes.lines if line.get_label() == "failed, 4"]
    np.testing.assert_array_equal(crosses.get_xdata(), place.failed[:, 0])
