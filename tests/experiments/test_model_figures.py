import numpy as np

from experiments.figures.models import COLOURS, comparison_figure, curve_panels
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import Curve
from lobal.report.figures import line_grid
from lobal.report.savings import pooled_errors

CURVES = {
    "p": {
        "active": Curve([32, 64], np.array([[0.4, 0.3], [0.5, 0.3]])),
        "random": Curve([32, 64], np.array([[0.6, 0.5], [0.5, 0.4]])),
    },
    "LFC": {"active": Curve([32, 64], np.array([[0.3, 0.2], [0.3, 0.25]]))},
}


def test_panels_have_the_pooled_errors_told_apart_by_colours_and_lines() -> None:
    figure = curve_panels({"all": CURVES, "some": {"LFC": CURVES["LFC"]}}, "points")
    assert [axes.get_title() for axes in figure.axes] == ["all", "some"]
    lines = [container[0] for axes in figure.axes for container in axes.containers]
    curves = [*CURVES["p"].values(), *CURVES["LFC"].values(), *CURVES["LFC"].values()]
    for line, curve in zip(lines, curves, strict=True):
        np.testing.assert_allclose(line.get_ydata(), pooled_errors(curve.rmse)[0])
    assert [line.get_color() for line in lines] == [COLOURS[0], COLOURS[0], COLOURS[1], COLOURS[1]]
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-", "-"]
    legend = figure.axes[-1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["p", "LFC", "active", "random"]


def test_predictions_are_compared_one_below_the_other() -> None:
    x = np.linspace(0.01, 1.0, 40)
    models = {
        name: MixtureRegressor(n_inducing=20, n_gate_inducing=10, random_state=0, **options).fit(x[:, None], np.sin(x))
        for name, options in {"mixture": {}, "single": {"bandwidths": [1.0]}}.items()
    }
    figure = comparison_figure(models, x[:, None], np.sin(x), np.sin)
    points = line_grid(x[:, None]).points
    for axes, (name, model) in zip(figure.axes[::2], models.items(), strict=True):
        line = next(line for line in axes.lines if line.get_label() == name)
        np.testing.assert_allclose(line.get_ydata(), model.predict(points), atol=1e-7)
