import numpy as np
import pytest

from experiments.figures.inducing import COLOURS, inducing_point_panels
from lobal.report.campaign_figures import Curve
from lobal.report.savings import pooled_errors

CURVES = {
    "p": {
        "active": Curve([32, 64], np.array([[0.4, 0.3], [0.5, 0.3]])),
        "random": Curve([32, 64], np.array([[0.6, 0.5], [0.5, 0.4]])),
    },
    "LFC": {"active": Curve([32, 64], np.array([[0.3, 0.2], [0.3, 0.25]]))},
}


def test_every_choice_and_training_set_has_its_pooled_errors() -> None:
    (axes,) = inducing_point_panels({"all": CURVES}).axes
    expected = [curve for arms in CURVES.values() for curve in arms.values()]
    for container, curve in zip(axes.containers, expected, strict=True):
        np.testing.assert_allclose(container[0].get_ydata(), pooled_errors(curve.rmse)[0])


def test_colours_tell_choices_and_lines_training_sets_in_all_panels() -> None:
    lines = [
        container[0]
        for axes in inducing_point_panels({"all": CURVES, "some": {"LFC": CURVES["LFC"]}}).axes
        for container in axes.containers
    ]
    assert [line.get_color() for line in lines] == [COLOURS[0], COLOURS[0], COLOURS[1], COLOURS[1]]
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-", "-"]


def test_the_legend_names_every_choice_and_training_set_once() -> None:
    figure = inducing_point_panels({"all": CURVES, "again": CURVES})
    legend = figure.axes[-1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["p", "LFC", "active", "random"]


def test_no_panels_and_too_many_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one panel"):
        inducing_point_panels({})
    with pytest.raises(ValueError, match="7 colours, got 8"):
        inducing_point_panels({"all": {str(number): CURVES["p"] for number in range(8)}})
