import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

from lobal.core.real_numbers import as_numbers, check_complete

pd = pytest.importorskip("pandas")

MASKED = np.ma.masked_array([1.0, 9.0], mask=[False, True])
MISSING = [
    MASKED,
    np.ma.masked_array([1, 9], mask=[False, True]),
    [1.0, None],
    [1.0, pd.NA],
    pd.Series([1.0, None], dtype="Float64"),
    pd.Series([1, None], dtype="Int64"),
]


@pytest.mark.parametrize("values", MISSING, ids=lambda values: type(values).__name__)
def test_what_is_masked_or_missing_is_nan(values: Any) -> None:
    np.testing.assert_array_equal(as_numbers(values, name="y"), [1.0, math.nan])


def test_masks_of_single_rows_count() -> None:
    np.testing.assert_array_equal(as_numbers([MASKED, MASKED], name="y"), [[1.0, math.nan], [1.0, math.nan]])


@pytest.mark.parametrize("values", MISSING[:4], ids=lambda values: type(values).__name__)
def test_what_is_missing_is_named_with_its_row(values: Any) -> None:
    with pytest.raises(
        ValueError, match="y must have no gaps, got a masked or missing value at row 1; fill it in or leave it out"
    ):
        check_complete(values, name="y")


def test_what_is_missing_in_a_matrix_is_named_with_its_column() -> None:
    with pytest.raises(ValueError, match="X must have no gaps, got a masked or missing value at row 0, column 1"):
        check_complete(np.ma.masked_array([[1.0, 9.0]], mask=[[False, True]]), name="X")


@pytest.mark.parametrize("values", [[10**400, 1.0], torch.ones(2, requires_grad=True)], ids=["huge", "gradient"])
def test_what_cannot_be_a_number_of_float64_is_refused_by_name(values: Any) -> None:
    with pytest.raises(ValueError, match=r"labels must be numbers, NaN where there is none, got .*: (int|Can't)"):
        as_numbers(values, name="labels")


NOT_REAL = [
    np.array([1.0 + 2.0j]),
    [1.0 + 0.0j],
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.array([5], dtype="timedelta64[s]"),
    [datetime.datetime(2020, 1, 1)],
    [datetime.timedelta(days=1)],
    pd.Series(pd.to_datetime(["2020-01-01"])),
    pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020-01-01"])}),
]


@pytest.mark.parametrize("values", NOT_REAL, ids=lambda values: type(values).__name__)
def test_dates_and_complex_numbers_are_refused(values: Any) -> None:
    for check in (as_numbers, check_complete):
        with pytest.raises(ValueError, match=r"y must be real numbers, got .* take the real part; count time in"):
            check(values, name="y")


def test_numbers_of_other_kinds_are_numbers() -> None:
    values = [True, np.float32(0.5), Decimal("2"), "3.5"]
    np.testing.assert_array_equal(as_numbers(np.array(values, dtype=object), name="y"), [1.0, 0.5, 2.0, 3.5])
    np.testing.assert_array_equal(as_numbers(np.array([True, False]), name="y"), [1.0, 0.0])
    np.testing.assert_array_equal(as_numbers(["1.5"], name="y"), [1.5])
