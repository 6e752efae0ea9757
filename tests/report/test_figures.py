from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lobal.core.doppler import Doppler
from lobal.mixture.estimator import MixtureRegressor
from lobal.report import figures
from lobal.report.profile import line_grid, plane_grid

Data: TypeAlias = tuple[np.ndarray, np.ndarray]

TRUTH = Doppler()


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> MixtureRegressor:
    return MixtureRegressor(max_epochs=3, n_inducing=20, n_gate_inducing=10, random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module")
def line() -> Data:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.01, 1.0, size=60)
    return x[:, None], TRUTH.labels(x, rng)


@pytest.fixture(scope="module")
def model(line: Data) -> MixtureRegressor:
    return fitted(*line)


def scales(figure: Figure) -> list[str]:
    return [axes.get_xscale() for axes in figure.axes]


def plotted(axes: Axes, label: str) -> np.ndarray:
    """The y values of the line with this label."""
    return np.asarray(next(line for line in axes.lines if str(line.get_label()).startswith(label)).get_ydata())


def test_the_prediction_is_the_models_on_natural_and_logarithmic_x(model: MixtureRegressor, line: Data) -> None:
    figure = figures.prediction_figure(model, *line, TRUTH)
    assert scales(figure) == ["linear", "log"]
    points = line_grid(line[0]).points
    for axes in figure.axes:
        np.testing.assert_allclose(plotted(axes, "prediction"), model.predict(points), atol=1e-7)
        np.testing.assert_array_equal(plotted(axes, "truth"), TRUTH(points[:, 0]))
        np.testing.assert_array_equal(plotted(axes, "data"), line[1])


def test_the_band_is_two_standard_deviations_wide(model: MixtureRegressor, line: Data) -> None:
    (band,) = figures.prediction_figure(model, *line).axes[0].collections
    mean, std = model.predict(line_grid(line[0]).points, return_std=True)
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx((mean - 2 * std).min())
    assert heights.max() == pytest.approx((mean + 2 * std).max())


def test_the_truth_is_drawn_only_if_known(model: MixtureRegressor, line: Data) -> None:
    labels = [drawn.get_label() for drawn in figures.prediction_figure(model, *line).axes[0].lines]
    assert "truth" not in labels


def test_the_gate_has_one_labelled_area_per_expert(model: MixtureRegressor, line: Data) -> None:
    figure = figures.gate_figure(model, line[0])
    areas = figure.axes[0].collections
    L = len(model.mixture_.bandwidths)
    assert len(areas) == L
    smallest = model.gate(line_grid(line[0]).points)[:, 0]
    assert areas[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(smallest.max())
    legend = [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    assert legend[0].startswith(rf"$\sigma_{{{L}}}$")  # the largest bandwidth on top, as it is stacked


def test_the_local_bandwidth_has_a_logarithmic_axis_of_its_own(model: MixtureRegressor, line: Data) -> None:
    figure = figures.complexity_figure(model, line[0])
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log", "linear", "linear"]
    points = line_grid(line[0]).points
    np.testing.assert_array_equal(plotted(figure.axes[0], "LOB"), model.local_bandwidth(points))
    ratio = plotted(figure.axes[2], "LFC") / model.local_complexity(points)
    np.testing.assert_allclose(ratio, ratio[0])


def test_the_overview_has_four_rows(model: MixtureRegressor, line: Data) -> None:
    assert scales(figures.overview_figure(model, *line, TRUTH)) == ["linear", "log"] * 4


def test_inputs_that_are_not_positive_have_no_logarithmic_axis(line: Data) -> None:
    X = line[0] - 0.5
    assert scales(figures.overview_figure(fitted(X, line[1]), X, line[1])) == ["linear"] * 4


def test_models_are_compared_one_below_the_other(model: MixtureRegressor, line: Data) -> None:
    single = fitted(*line, bandwidths=[1.0], experts="exact")
    figure = figures.comparison_figure({"mixture": model, "single": single}, *line, TRUTH)
    points = line_grid(line[0]).points
    np.testing.assert_allclose(plotted(figure.axes[0], "mixture"), model.predict(points), atol=1e-7)
    np.testing.assert_allclose(plotted(figure.axes[2], "single"), single.predict(points), atol=1e-7)


def test_overfitting_shows_in_fit_and_bandwidth(model: MixtureRegressor, line: Data) -> None:
    free = fitted(*line, penalty=0.0)
    figure = figures.bandwidth_figure({"free": free, "penalised": model}, *line, TRUTH)
    points = line_grid(line[0]).points
    np.testing.assert_allclose(plotted(figure.axes[0], "free"), free.predict(points), atol=1e-7)
    np.testing.assert_array_equal(plotted(figure.axes[2], "free"), free.local_bandwidth(points))
    np.testing.assert_array_equal(plotted(figure.axes[2], "penalised"), model.local_bandwidth(points))


@pytest.fixture(scope="module")
def plane() -> Data:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(60, 2))
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1]


def test_maps_show_the_model_over_the_box_of_the_data(plane: Data) -> None:
    model = fitted(*plane)
    figure = figures.map_figure(model, *plane, resolution=12)
    maps = {axes.get_title(): axes.collections[0].get_array() for axes in figure.axes if axes.get_title()}
    points = plane_grid(plane[0], 12).points
    assert len(figure.axes) == 12  # six maps and their colour bars
    np.testing.assert_allclose(maps["prediction and data, $y$"].ravel(), model.predict(points), atol=1e-7)
    np.testing.assert_array_equal(maps["local bandwidth (LOB)"].ravel(), model.local_bandwidth(points))
    np.testing.assert_array_equal(maps["dominant expert, its bandwidth"].ravel(), model.gate(points).argmax(axis=1))


def test_the_prediction_map_carries_the_data(plane: Data) -> None:
    figure = figures.map_figure(fitted(*plane), *plane, resolution=12)
    dots = figure.axes[0].collections[1]
    np.testing.assert_array_equal(dots.get_offsets(), plane[0])
    np.testing.assert_array_equal(dots.get_array(), plane[1])


def test_a_figure_is_saved_in_the_format_of_its_suffix(tmp_path: Path) -> None:
    figure = Figure()
    figures.save_figure(figure, tmp_path / "folder" / "figure.png")
    figures.save_figure(figure, tmp_path / "folder" / "figure.pdf")
    assert (tmp_path / "folder" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "folder" / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert len(list((tmp_path / "folder").iterdir())) == 2  # nothing temporary is left


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"figure\.txt"):
        figures.save_figure(Figure(), tmp_path / "figure.txt")
    assert not list(tmp_path.iterdir())
