import numpy as np
import pytest

from lobal import MixtureRegressor
from lobal.report.dependence import dependence_figures, dependences, value_grid
from lobal.report.variables import Variable, slices, variables_of
from tests.report.setting import MODEL

METAL = Variable(name="metal", columns=(1, 2), levels=("steel", "copper"))


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.random(120), np.eye(2)[rng.integers(2, size=120)]])


@pytest.fixture(scope="module")
def model(points: np.ndarray) -> MixtureRegressor:
    fitted: MixtureRegressor = MixtureRegressor(**MODEL.get_params(deep=False)).fit(
        points, 3.0 * points[:, 0] + points[:, 2]
    )
    return fitted


def test_the_mean_of_a_sum_changes_as_its_part_does(model: MixtureRegressor, points: np.ndarray) -> None:
    speed, metal = dependences(model, [Variable(name="speed", columns=(0,)), METAL], points)
    slope = np.polyfit(speed.values, speed.prediction.mean, 1)[0]
    assert slope == pytest.approx(3.0, rel=0.05)
    assert np.diff(metal.prediction.mean) == pytest.approx(1.0, rel=0.1)


def test_bands_are_around_the_mean(model: MixtureRegressor, points: np.ndarray) -> None:
    for found in dependences(model, [METAL], points):
        assert (found.prediction.lower < found.prediction.mean).all()
        assert (found.prediction.mean < found.prediction.upper).all()


def test_a_category_has_one_value_for_each_level(points: np.ndarray) -> None:
    np.testing.assert_array_equal(value_grid(METAL, points), np.eye(2))


def test_a_number_of_few_values_keeps_to_them() -> None:
    points = np.array([[3.0], [1.0], [1.0], [2.0]])
    np.testing.assert_array_equal(value_grid(variables_of(1)[0], points)[:, 0], [1.0, 2.0, 3.0])


def test_figures_of_all_variables_have_the_same_scales(model: MixtureRegressor, points: np.ndarray) -> None:
    found = dependences(model, [Variable(name="speed", columns=(0,)), METAL], points)
    figures = dependence_figures(found, "heat")
    assert list(figures) == ["dependence on speed", "dependence on metal"]
    limits = [[axes.get_ylim() for axes in figure.axes] for figure in figures.values()]
    assert limits[0] == limits[1]


def test_a_variable_that_cannot_change_alone_is_followed_along_the_points(
    model: MixtureRegressor, points: np.ndarray
) -> None:
    bound = Variable(name="speed", columns=(0,), is_bound=True)
    (found,) = dependences(model, [bound], points)
    slice_of = slices(points[:, 0])
    first = slice_of == slice_of.min()
    assert found.prediction.mean[0] == pytest.approx(model.predict(points[first]).mean())
    assert found.values[0] == pytest.approx(points[first, 0].mean())
    assert len(found.values) == len(np.unique(slice_of))
