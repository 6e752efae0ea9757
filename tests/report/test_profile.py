from typing import Any, TypeAlias

import numpy as np
import pytest

from lobal.mixture.estimator import MixtureRegressor
from lobal.report.profile import expert_bandwidths, line_grid, profile

Data: TypeAlias = tuple[np.ndarray, np.ndarray]


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> MixtureRegressor:
    return MixtureRegressor(n_inducing=20, n_gate_inducing=10, random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module")
def line() -> Data:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.01, 1.0, size=(60, 1))
    return X, np.sin(8.0 * X[:, 0]) + 0.1 * rng.standard_normal(60)


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
