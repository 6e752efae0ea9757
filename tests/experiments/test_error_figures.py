import numpy as np
import pytest

from experiments.figures.errors import ErrorCurve, by_size, error_panels, measured_curve, sample_sizes
from lobal.report.figures import LINES, RANDOM

SIZES = np.array([512, 1024, 3000])
CURVES = {
    name: ErrorCurve(SIZES, height / SIZES**0.5, 0.1 / SIZES**0.5)
    for name, height in (("isotropic", 4.0), ("anisotropic", 3.0), ("mixture", 2.0), ("active", 1.0))
}
RESULTS = [
    {"n": 8, "seed": 0, "even_rmse": 3.0, "even_max_error": 6.0, "random_rmse": 6.0},
    {"n": 8, "seed": 1, "even_rmse": 1.0, "even_max_error": 4.0, "random_rmse": 2.0},
    {"n": 16, "seed": 0, "even_rmse": 1.0, "even_max_error": 2.0, "random_rmse": 1.0},
]


def test_curves_are_dotted_dash_dotted_dashed_and_solid() -> None:
    (axes,) = error_panels({"RMSE": CURVES}).axes
    lines = [container[0] for container in axes.containers]
    assert [line.get_linestyle() for line in lines] == [":", "-.", "--", "-"]
    assert [line.get_color() for line in lines] == list(LINES[::-1])
    for line, curve in zip(lines, CURVES.values(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), np.stack([curve.sizes, curve.mean], axis=1))
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylabel()) == ("log", "log", "RMSE")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["$2^{9}$", "$2^{10}$", "3000"]


def test_panels_share_one_legend() -> None:
    figure = error_panels({f"{what} RMSE": CURVES for what in ("energy", "force", "other")})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(CURVES)
    assert [axes.get_ylabel() for axes in figure.axes] == ["energy RMSE", "force RMSE", "other RMSE", ""]


def test_the_slope_of_the_learning_rate_lies_below_all_curves() -> None:
    (axes,) = error_panels({"RMSE": CURVES}, rate=0.5).axes
    x, y = axes.lines[-1].get_data()
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(-0.5)
    assert np.all(y < CURVES["active"].mean[[0, -1]])
    assert axes.lines[-1].get_label() == "slope $n^{-1/2}$"


def test_random_labels_have_the_same_colour_wherever_they_stand() -> None:
    for names in (("random", "active"), ("active", "random test sampling")):
        (axes,) = error_panels({"RMSE": dict.fromkeys(names, CURVES["active"])}).axes
        colours = [container[0].get_color() for container in axes.containers]
        assert [colour == RANDOM for colour in colours] == [name.startswith("random") for name in names]


def test_root_mean_squares_are_pooled_and_largest_errors_averaged() -> None:
    rmse, largest = (measured_curve(RESULTS, name) for name in ("even_rmse", "even_max_error"))
    np.testing.assert_array_equal(rmse.sizes, [8, 16])
    np.testing.assert_allclose(rmse.mean, [np.sqrt(5.0), 1.0])
    np.testing.assert_allclose(largest.mean, [5.0, 2.0])
    np.testing.assert_allclose(largest.standard_error, [1.0, 0.0])


def test_relative_sample_sizes_are_squared_ratios_of_errors_at_every_size() -> None:
    found = sample_sizes(RESULTS, "even", "random")
    assert found["8"]["rho"] == pytest.approx(0.25)
    assert found["16"] == {"rho": pytest.approx(1.0), "standard_error": None}


def test_names_with_sizes_become_one_result_for_every_size_and_seed() -> None:
    rows = by_size([{"n": 16, "seed": 3, "even_rmse_8": 2.0, "even_rmse_16": 1.0, "profile": [1.0]}])
    assert rows == [{"n": 8, "seed": 3, "even_rmse": 2.0}, {"n": 16, "seed": 3, "even_rmse": 1.0}]
