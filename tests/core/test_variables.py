import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lobal.core.variables import Categorical, Integer, Real, Variable

SHARES = st.floats(0.0, 1.0)
REALS = st.tuples(st.floats(1e-6, 1e6), st.floats(1e-3, 1e6), st.booleans()).map(
    lambda each: Real("x", each[0], each[0] + each[1], log=each[2])
)
INTEGERS = st.tuples(st.integers(1, 1000), st.integers(1, 1000), st.booleans()).map(
    lambda each: Integer("n", each[0], each[0] + each[1], log=each[2])
)
LEVELS = st.one_of(st.text(min_size=1), st.integers(2, 100))
CATEGORIES = st.lists(LEVELS, min_size=2, max_size=8, unique=True).map(lambda levels: Categorical("s", levels))


@given(variable=REALS, share=SHARES)
def test_a_real_number_comes_back_from_inputs(variable: Real, share: float) -> None:
    codes = variable.drawn(np.array([share]))
    back = variable.from_inputs(variable.inputs(codes))
    np.testing.assert_allclose(back, codes, rtol=1e-9, atol=1e-9 * (variable.upper - variable.lower))


@given(variable=INTEGERS, share=SHARES)
def test_a_whole_number_comes_back_from_inputs(variable: Integer, share: float) -> None:
    codes = variable.drawn(np.array([share]))
    assert variable.from_inputs(variable.inputs(codes)) == codes
    assert variable.codes(variable.values(codes)) == codes


@given(variable=CATEGORIES, share=SHARES)
def test_a_level_comes_back_from_inputs_and_values(variable: Categorical, share: float) -> None:
    codes = variable.drawn(np.array([share]))
    assert variable.from_inputs(variable.inputs(codes)) == codes
    assert variable.codes(variable.values(codes)) == codes


@given(variable=st.one_of(REALS, INTEGERS, CATEGORIES), share=SHARES)
def test_drawn_codes_lie_within_the_bounds(variable: Variable, share: float) -> None:
    low, high = variable.bounds
    assert low <= variable.drawn(np.array([share]))[0] <= high


@given(variable=st.one_of(REALS, INTEGERS), share=SHARES, by=st.floats(-0.5, 0.5))
def test_moved_codes_are_reflected_at_the_bounds(variable: Variable, share: float, by: float) -> None:
    low, high = variable.bounds
    moved = variable.moved(variable.drawn(np.array([share])), np.array([by]))[0]
    assert low <= moved <= high
    assert variable.n_values is None or moved == round(moved)


def test_the_middle_of_a_logarithmic_range_is_its_geometric_mean() -> None:
    variable = Real("p", 0.01, 100.0, log=True)
    assert math.isclose(variable.drawn(np.array([0.5]))[0], 1.0)
    assert math.isclose(variable.inputs(np.array([1.0]))[0, 0], 0.5)


def test_two_levels_are_as_far_apart_as_the_bounds_of_a_number() -> None:
    levels = Categorical("s", ["a", "b", "c"]).inputs(np.arange(3.0))
    numbers = Real("x", -3.0, 5.0).inputs(np.array([-3.0, 5.0]))
    np.testing.assert_allclose(np.linalg.norm(levels[0] - levels[2]), np.linalg.norm(numbers[0] - numbers[1]))


def test_whole_numbers_are_equally_frequent_up_to_the_bounds() -> None:
    drawn = Integer("n", 1, 4).drawn(np.linspace(0.0, 1.0, 4001))
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 4
    assert counts.max() - counts.min() <= 2


def test_whole_numbers_are_snapped_within_rounding_only() -> None:
    variable = Integer("n", 1, 9)
    assert variable.codes([2.9999]).tolist() == [3.0]
    with pytest.raises(ValueError, match=r"'n' must be a whole number, got 3.4; round it yourself"):
        variable.codes([3.4])


def test_numbers_outside_the_bounds_are_refused_with_the_value_and_the_unit() -> None:
    variable = Real("T", 20, 200, unit="C")
    with pytest.raises(ValueError, match=r"'T' must lie between 20 and 200 C, got 500 and 1 more; leave such points"):
        variable.codes([30.0, 500.0, math.nan])


def test_numbers_that_rounding_put_outside_are_at_the_bound() -> None:
    assert Real("T", 20, 200).codes([200.01, 19.99]).tolist() == [200.0, 20.0]
    assert Real("p", 1e-3, 1e3, log=True).codes([0.0009995]).tolist() == [1e-3]


def test_unknown_levels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'s' must be one of \['water', 'oil'\], got 'wine'"):
        Categorical("s", ["water", "oil"]).codes(["oil", "wine"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Real("x", 2.0, 1.0), "lower must lie below upper for 'x', got 2.0 and 1.0"),
        (lambda: Real("x", 0.0, 1.0, log=True), "lower must be above zero where the logarithm counts, got 0.0"),
        (lambda: Real("x", 0.0, math.nan), "upper must be"),
        (lambda: Real("", 0.0, 1.0), "the name of a variable must be a text"),
        (lambda: Real("x", "a", 1.0), "lower must be a number"),
        (lambda: Real("x", 0.0, 1.0, unit=3), "unit of 'x' must be a text"),
        (lambda: Real("x", 0.0, 1.0, log="yes"), "log of 'x' must be True or False"),
        (lambda: Integer("n", 0.5, 4), "the lower bound of 'n' must be a whole number, got 0.5"),
        (lambda: Categorical("s", "abc"), "levels of 's' must be a list"),
        (lambda: Categorical("s", ["a", "a"]), "levels of 's' must be at least two different ones"),
        (lambda: Categorical("s", [["a"], "b"]), "levels of 's' must be texts, finite numbers"),
    ],
)
def test_variables_that_cannot_be_are_refused(make, message: str) -> None:  # noqa: ANN001 - a function
    with pytest.raises((TypeError, ValueError), match=message):
        make()
