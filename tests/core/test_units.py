import warnings

import numpy as np
import pytest

from lobal.core.units import Units, UnusableColumnWarning, column_units, ordinary, stored_type, warn_of_unusable

U = np.random.default_rng(0).random((50, 1))


@pytest.mark.parametrize("X", [U, 100.0 + U, 1e-6 * U, np.full((50, 1), 7.0), np.zeros((50, 1))])
def test_ordinary_columns_stay_as_they_are(X: np.ndarray) -> None:
    assert Units.of(X).is_plain
    assert Units.of(X)(X) is X


@pytest.mark.parametrize("X", [1e6 + U, 1e6 + 1e-6 * U, -1e300 + 1e290 * U, 1e200 * U, 1e-200 * U, 1e-300 * U])
def test_other_columns_become_ordinary_and_come_back_exactly(X: np.ndarray) -> None:
    units = Units.of(X)
    assert 0.1 < np.ptp(units(X)) / (np.ptp(X) / units.unit[0]) < 10.0
    assert 2.0**-40 < np.abs(units(X)).max() < 2.0**40
    np.testing.assert_array_equal(units.back(units(X)), X)


def test_differences_from_an_offset_are_exact() -> None:
    X = 1e6 + 1e-6 * U
    np.testing.assert_array_equal(np.diff(Units.of(X)(X), axis=0), np.diff(X, axis=0))


def test_a_huge_constant_column_is_zero() -> None:
    X = np.full((50, 1), 1e200)
    assert not Units.of(X)(X).any()


def test_the_volume_is_the_geometric_mean_of_the_units() -> None:
    assert Units(np.zeros(2), np.array([2.0**100, 2.0**-100])).volume == pytest.approx(1.0)
    assert Units(np.zeros(2), np.array([4.0, 0.0])).volume == pytest.approx(2.0)  # a column that is not used has none


def test_columns_of_rounding_alone_are_zero_with_a_warning() -> None:
    X = np.column_stack([U, 1e6 + 1e-10 * U])
    with pytest.warns(UnusableColumnWarning, match=r"column 1 of X is not used: it varies by 1\.2e-10 around 1e\+06"):
        warn_of_unusable(X, name="X")
    assert not Units.of(X)(X)[:, 1].any()


def test_narrow_numbers_count_in_their_own_steps() -> None:
    X = (1e6 + 0.2 * U).astype(np.float32)
    with pytest.warns(UnusableColumnWarning, match=r"numbers of type float32; subtract an offset before"):
        warn_of_unusable(X.astype(np.float64).astype(stored_type(X)), name="X")


@pytest.mark.parametrize("X", [U, np.full((50, 1), 0.1), 1e6 + 1e-6 * U, np.arange(3)[:, None]])
def test_columns_that_vary_or_are_constant_are_fine(X: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_unusable(X, name="X")


def test_constant_labels_have_no_unit() -> None:
    assert column_units(np.full(5, 0.3)) == (0.3, 0.0)


@pytest.mark.parametrize("size", [1e200, 1e-200, 0.0, 1.0])
def test_ratios_stay_where_sizes_become_ordinary(size: float) -> None:
    values = ordinary(size * np.array([1.0, 0.5]))
    assert values[1] == 0.5 * values[0]
    assert values[0] <= 2.0
