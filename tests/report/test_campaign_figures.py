from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from scipy.integrate import trapezoid

from lobal import ActiveLearner, Box
from lobal.report import campaign_figures
from lobal.report.campaign_figures import (
    Curve,
    complexity_panels_figure,
    landscape,
    learning_curve_figure,
    logarithmic_ticks,
    suggested_inputs,
    telling_columns,
    training_histogram_figure,
)
from lobal.report.savings import pooled_errors
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
    place = invented_landscape(1)
    (axes,) = training_histogram_figure(place).axes
    area = sum(patch.get_width() * patch.get_height() for bars in axes.containers for patch in bars)
    assert area == pytest.approx(1.0)
    assert len(axes.lines) == 2
    for line in axes.lines:
        assert trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1.0)


def test_a_histogram_without_suggested_points_has_one_kind_of_bar() -> None:
    place = replace(invented_landscape(1), suggested=np.empty((0, 1)))
    legend = training_histogram_figure(place).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][:2] == ["labelled, 30", "training density $p_k$"]


def test_maps_show_complexity_density_and_labels() -> None:
    place = invented_landscape(2)
    figure = complexity_panels_figure(place)
    shown = {axes.get_title(): axes.collections[0] for axes in figure.axes[3:6]}
    relative = place.superior_density / np.median(place.superior_density)
    np.testing.assert_array_equal(shown["superior training density, median = 1"].get_array(), np.sort(relative))
    labelled = shown["30 labelled inputs, 10 suggested (rings)"]
    assert isinstance(labelled, PathCollection)
    np.testing.assert_array_equal(labelled.get_offsets(), place.labelled[:, [1, 0]])


@pytest.mark.parametrize("even", [np.linspace(1.0, 1.1, 200), np.ones(200)])
def test_what_hardly_varies_has_hardly_any_contrast(even: np.ndarray) -> None:
    figure = complexity_panels_figure(replace(invented_landscape(2), superior_density=even))
    lower, upper = figure.axes[4].collections[0].get_clim()
    assert upper / lower == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("lower", "upper", "ticks"),
    [
        (0.9, 60.0, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]),
        (0.9, 2000.0, [1.0, 10.0, 100.0, 1000.0]),
        (0.5, 1.4, [0.6, 0.8, 1.0, 1.2, 1.4]),
    ],
)
def test_a_logarithmic_scale_has_ticks_to_read_it_by(lower: float, upper: float, ticks: list[float]) -> None:
    assert logarithmic_ticks(lower, upper) == pytest.approx(ticks)


@pytest.mark.parametrize("dimension", [2, 5])
def test_the_telling_columns_come_in_the_order_of_what_they_tell(dimension: int) -> None:
    place = invented_landscape(dimension, n=2000)
    assert telling_columns(place.points, place.complexity) == (dimension - 1, 0)


def test_one_column_leaves_no_choice_of_two() -> None:
    with pytest.raises(ValueError, match=r"\(200, 1\)"):
        telling_columns(invented_landscape(1).points, np.ones(200))


def test_panels_name_the_columns_that_complexity_depends_on() -> None:
    figure = complexity_panels_figure(invented_landscape(5, n=2000))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles[1:3] == ["along column 4", "along column 0"]
    assert {axes.get_xlabel() for axes in figure.axes[3:6]} == {"column 4"}


def test_panels_can_be_drawn_of_columns_that_do_not_vary() -> None:
    place = invented_landscape(3)
    constant = replace(place, points=np.ones((200, 3)), complexity=np.ones(200), superior_density=np.ones(200))
    complexity_panels_figure(constant).draw_without_rendering()


def test_the_landscape_repeats_the_learner() -> None:
    learner = campaign(2)
    shown = landscape(learner, ["east", "north"])
    assert shown.names == ("east", "north")
    np.testing.assert_array_equal(shown.points, learner.candidates.X)
    np.testing.assert_array_equal(shown.complexity, learner.local_complexity())
    np.testing.assert_array_equal(shown.superior_density, learner.superior_density())
    np.testing.assert_array_equal(shown.labelled, learner.labelled.X)


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
