import numpy as np
import pytest

from experiments.figures.models import comparison_figure, learning_curve_panels
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import Curve
from lobal.report.figures import line_grid
from lobal.report.savings import pooled_errors

CURVES = {
    "random": Curve([100, 200], np.array([[0.4, 0.3], [0.5, 0.3]])),
    "active": Curve([100, 200], np.array([[0.3, 0.2], [0.3, 0.25]])),
}


def test_every_model_has_a_panel_with_the_pooled_errors_of_its_arms() -> None:
    panels = learning_curve_panels({"forest": CURVES, "network": CURVES}).axes
    assert [axes.get_title() for axes in panels] == ["forest", "network"]
    for axes in panels:
        for container, curve in zip(axes.containers, CURVES.values(), strict=True):
            np.testing.assert_allclose(container[0].get_ydata(), pooled_errors(curve.rmse)[0])


def test_no_models_and_too_many_curves_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one model"):
        learning_curve_panels({})
    with pytest.raises(ValueError, match="4 curves, got 5"):
        learning_curve_panels({"forest": {str(number): CURVES["random"] for number in range(5)}})


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
