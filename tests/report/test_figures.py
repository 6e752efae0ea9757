from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lobal import Analytic
from lobal.core.doppler import Doppler
from lobal.mixture.estimator import MixtureRegressor
from lobal.report import figures
from lobal.report.figures import expert_bandwidths, line_grid, profile

Data: TypeAlias = tuple[np.ndarray, np.ndarray]

TRUTH = Doppler()


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> MixtureRegressor:
    return MixtureRegressor(n_inducing=20, n_gate_inducing=10, random_state=0, **options).fit(X, y)


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


def test_the_overview_has_four_rows_with_linear_and_logarithmic_x(model: MixtureRegressor, line: Data) -> None:
    assert scales(figures.overview_figure(model, *line, TRUTH)) == ["linear", "log"] * 4


def test_the_overview_shows_data_prediction_and_truth(model: MixtureRegressor, line: Data) -> None:
    figure = figures.overview_figure(model, *line, TRUTH)
    points = line_grid(line[0]).points
    for axes in figure.axes[:2]:
        np.testing.assert_allclose(plotted(axes, "prediction"), model.predict(points), atol=1e-7)
        np.testing.assert_array_equal(plotted(axes, "truth"), TRUTH(points[:, 0]))
        np.testing.assert_array_equal(plotted(axes, "data"), line[1])
    without = figures.overview_figure(model, *line).axes[0].lines
    assert "truth" not in [drawn.get_label() for drawn in without]


def test_the_band_is_two_standard_deviations_wide(model: MixtureRegressor, line: Data) -> None:
    (band,) = figures.overview_figure(model, *line).axes[0].collections
    mean, std = model.predict(line_grid(line[0]).points, return_std=True)
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx((mean - 2 * std).min())
    assert heights.max() == pytest.approx((mean + 2 * std).max())


def test_the_gate_has_one_labelled_area_per_expert(model: MixtureRegressor, line: Data) -> None:
    figure = figures.overview_figure(model, *line)
    areas = figure.axes[2].collections
    L = len(model.mixture_.bandwidths)
    assert len(areas) == L
    smallest = model.gate(line_grid(line[0]).points)[:, 0]
    assert areas[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(smallest.max())
    legend = [text.get_text() for text in figure.axes[3].get_legend().get_texts()]
    assert legend[0].startswith(rf"$\sigma_{{{L}}}$")  # the largest bandwidth on top, as it is stacked


def test_local_bandwidth_and_complexity_are_the_models(model: MixtureRegressor, line: Data) -> None:
    axes = figures.overview_figure(model, *line).axes
    assert [each.get_yscale() for each in axes[4:]] == ["log", "log", "linear", "linear"]
    points = line_grid(line[0]).points
    np.testing.assert_array_equal(plotted(axes[4], "LOB"), model.local_bandwidth(points))
    ratio = plotted(axes[6], "LFC") / model.local_complexity(points)
    np.testing.assert_allclose(ratio, ratio[0])


def test_inputs_that_are_not_positive_have_no_logarithmic_axis(line: Data) -> None:
    X = line[0] - 0.5
    assert scales(figures.overview_figure(fitted(X, line[1]), X, line[1])) == ["linear"] * 4


def test_overfitting_shows_in_fit_and_bandwidth(model: MixtureRegressor, line: Data) -> None:
    free = fitted(*line, engine=Analytic(penalty=0.0))
    figure = figures.bandwidth_figure({"free": free, "penalised": model}, *line, TRUTH)
    points = line_grid(line[0]).points
    np.testing.assert_allclose(plotted(figure.axes[0], "free"), free.predict(points), atol=1e-7)
    np.testing.assert_array_equal(plotted(figure.axes[2], "free"), free.local_bandwidth(points))
    np.testing.assert_array_equal(plotted(figure.axes[2], "penalised"), model.local_bandwidth(points))


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


def test_a_line_grid_covers_the_data_and_its_cells_add_up_to_them(line: Data) -> None:
    points, cells = line_grid(line[0])
    assert (points[0], points[-1]) == (line[0].min(), line[0].max())
    assert (np.diff(points[:, 0]) > 0).all()
    assert cells.sum() == pytest.approx(np.ptp(line[0]))


def test_a_constant_column_has_no_grid() -> None:
    with pytest.raises(ValueError, match="must vary"):
        line_grid(np.full((5, 1), 2.0))


def test_the_profile_repeats_the_model(line: Data) -> None:
    model, grid = fitted(*line), line_grid(line[0], 50)
    values = profile(model, grid)
    mean, std = model.predict(grid.points, return_std=True)
    np.testing.assert_array_equal(values.mean, mean)
    np.testing.assert_array_equal(values.std, std)
    np.testing.assert_array_equal(values.gate, model.gate(grid.points))
    np.testing.assert_array_equal(values.local_bandwidth, model.local_bandwidth(grid.points))


@pytest.mark.parametrize("options", [{}, {"smoothness": 2.5}, {"noise": lambda X: 0.01 + X[:, 0] ** 2}])
def test_the_densities_integrate_to_one(line: Data, options: dict[str, Any]) -> None:
    grid = line_grid(line[0], 50)
    values = profile(fitted(*line, **options), grid)
    assert values.complexity @ grid.cells == pytest.approx(1.0)
    assert values.superior_density @ grid.cells == pytest.approx(1.0)


def test_the_superior_density_follows_the_square_root_of_complexity_and_noise(line: Data) -> None:
    values = profile(fitted(*line, noise=lambda X: 0.01 + X[:, 0] ** 2), line_grid(line[0], 50))
    expected = np.sqrt(values.complexity * (0.01 + values.points[:, 0] ** 2))
    np.testing.assert_allclose(values.superior_density / expected, values.superior_density[0] / expected[0])


def test_expert_bandwidths_are_in_units_of_the_inputs(line: Data) -> None:
    model = fitted(*line, bandwidths=[0.5, 1.0, 2.0], shared_bandwidth=0.2)
    np.testing.assert_allclose(expert_bandwidths(model), [0.1, 0.2, 0.4])
