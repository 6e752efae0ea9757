from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from lobal.report.maps import complexity_map, is_even, labels_map, map_figures, named_pairs, telling_pairs
from lobal.report.variables import Variable
from tests.report.setting import invented_landscape


def test_the_first_pair_is_what_the_complexity_depends_on_most() -> None:
    pairs = telling_pairs(invented_landscape(5, n=2000))
    assert [variable.name for variable in pairs[0]] == ["column 4", "column 0"]
    assert len(pairs) == 6  # of four variables


def test_a_map_shows_the_complexity_in_units_of_its_median() -> None:
    place = invented_landscape(2)
    (dots, *_) = complexity_map(place, telling_pairs(place)[0]).axes[0].collections
    np.testing.assert_allclose(dots.get_array(), np.sort(place.complexity / np.median(place.complexity)))


@pytest.mark.parametrize("even", [np.linspace(1.0, 1.1, 200), np.ones(200)])
def test_what_hardly_varies_has_hardly_any_contrast(even: np.ndarray) -> None:
    place = replace(invented_landscape(2), complexity=even)
    lower, upper = complexity_map(place, place.variables).axes[0].collections[0].get_clim()  # type: ignore[arg-type]
    assert upper / lower == pytest.approx(2.0)


def test_a_map_shows_labelled_suggested_and_failed_inputs() -> None:
    place = invented_landscape(2)
    axes = labels_map(place, (place.variables[0], place.variables[1])).axes[0]
    (labelled,) = axes.collections
    assert isinstance(labelled, PathCollection)
    np.testing.assert_array_equal(labelled.get_offsets(), place.labelled)
    marks = {line.get_label(): line.get_xydata() for line in axes.lines}
    np.testing.assert_array_equal(marks["10 to come"], place.suggested)
    np.testing.assert_array_equal(marks["4 failed"], place.failed)


def test_points_of_a_category_lie_beside_each_other_around_its_number() -> None:
    place = invented_landscape(3)
    metal = Variable(name="metal", columns=(1, 2), levels=("steel", "copper"))
    place = replace(place, variables=(place.variables[0], metal))
    offsets = np.asarray(labels_map(place, (place.variables[0], metal)).axes[0].collections[0].get_offsets())
    assert len(np.unique(offsets[:, 1])) == 30
    np.testing.assert_array_equal(np.round(offsets[:, 1]), metal.at(place.labelled))


def test_maps_can_be_drawn_of_columns_that_do_not_vary() -> None:
    place = invented_landscape(3)
    constant = replace(place, points=np.ones((200, 3)), complexity=np.ones(200), predictions={"target": np.ones(200)})
    for figure in map_figures(constant, telling_pairs(constant)[0]).values():
        figure.draw_without_rendering()


def test_where_the_complexity_hardly_varies_the_prediction_counts() -> None:
    place = replace(invented_landscape(3, n=2000), complexity=np.linspace(1.0, 1.05, 2000))
    assert telling_pairs(place)[0][0].name == "column 0"
    assert is_even(place)
    assert not is_even(invented_landscape(3, n=2000))


def test_the_ticks_of_a_logarithmic_variable_are_those_of_its_values() -> None:
    place = invented_landscape(2)
    rate = Variable(name="rate", columns=(0,), logarithmic=True, values=lambda X: 10.0 ** (4.0 * X[:, 0]))
    figures = map_figures(replace(place, variables=(rate, place.variables[1])), (rate, place.variables[1]))
    for figure in figures.values():
        assert {100.0, 1000.0} <= set(figure.axes[0].get_xticks())


def test_pairs_are_chosen_by_name() -> None:
    variables = invented_landscape(3).variables
    ((first, second),) = named_pairs(variables, [("column 2", "column 0")])
    assert (first, second) == (variables[2], variables[0])
    for pair in (("column 0", "column 7"), ("column 1", "column 1")):
        with pytest.raises(ValueError, match="a map is over two different ones of column 0, column 1, column 2, got"):
            named_pairs(variables, [pair])
