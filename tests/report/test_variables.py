import numpy as np
import pytest

from lobal.active.region import checked_region
from lobal.report.variables import Variable, slice_means, telling_variables, variables_of, variables_of_region
from tests.report.setting import invented_landscape
from tests.report.spaces import MIXTURE, VARIABLES

METAL = Variable(name="metal", columns=(1, 2), levels=("steel", "copper"))


def test_columns_without_names_are_numbered() -> None:
    assert [variable.name for variable in variables_of(3)] == ["x1", "x2", "x3"]
    assert [variable.name for variable in variables_of(1)] == ["x"]


def test_every_column_needs_a_name() -> None:
    with pytest.raises(ValueError, match=r"2 input columns need as many names, got \['a'\]"):
        variables_of(2, ["a"])


def test_a_category_has_the_number_of_its_largest_column() -> None:
    values = METAL.at(np.array([[0.3, 0.0, 1.0], [0.4, 1.0, 0.0]]))
    assert [METAL.shown(value) for value in values] == ["copper", "steel"]


def test_several_columns_need_levels_or_values() -> None:
    with pytest.raises(ValueError, match=r"'mix' must have one column, or levels or values for several"):
        Variable(name="mix", columns=(0, 1))


def test_values_are_those_of_the_user() -> None:
    variable = Variable(name="rate", columns=(0,), logarithmic=True, values=lambda X: 10.0 ** X[:, 0])
    np.testing.assert_allclose(variable.at(np.array([[2.0], [-1.0]])), [100.0, 0.1])


def test_a_dollar_in_a_name_begins_no_formula() -> None:
    assert variables_of(1, ["cost$"])[0].label == r"cost\$"


@pytest.mark.parametrize("dimension", [2, 5])
def test_the_telling_variables_come_in_the_order_of_what_they_tell(dimension: int) -> None:
    place = invented_landscape(dimension, n=2000)
    assert telling_variables(place.variables, place.points, np.log(place.complexity))[:2] == [dimension - 1, 0]


def test_values_that_do_not_vary_leave_the_order() -> None:
    assert telling_variables(variables_of(3), np.ones((20, 3)), np.ones(20)) == [0, 1, 2]


def test_few_values_are_slices_of_their_own() -> None:
    means, sizes = slice_means(np.array([1.0, 2.0, 2.0, 7.0]), np.array([4.0, 1.0, 3.0, 5.0]))
    np.testing.assert_array_equal(means, [4.0, 2.0, 5.0])
    np.testing.assert_array_equal(sizes, [1.0, 2.0, 1.0])


def test_variables_of_a_space_have_raw_values() -> None:
    region = checked_region(VARIABLES, [])
    flow, fins, metal = variables_of_region(region)
    points = region.inputs(np.array([[10.0, 3.0, 1.0]]))
    assert [each.shown(each.at(points)[0]) for each in (flow, fins, metal)] == [pytest.approx(10.0), 3, "copper"]
    assert (flow.title, flow.logarithmic, fins.logarithmic, metal.columns) == ("flow (l/h)", True, False, (2, 3))


def test_variables_of_a_sum_are_bound() -> None:
    region = checked_region([*MIXTURE, *VARIABLES], ["iron + nickel + chromium == 100"])
    assert [each.is_bound for each in variables_of_region(region)] == [True, True, True, False, False, False]
