import math

import numpy as np
import pytest

from lobal.core.checks import real_number, shown, whole_number


def test_numbers_within_their_bounds_come_back_as_python_numbers() -> None:
    for value in (3, np.int64(3)):
        assert type(whole_number("size", value, least=3)) is int
    for value in (0, 1, np.float32(0.5)):
        assert type(real_number("share", value, least=0.0, most=1.0, hint="")) is float
    assert real_number("scale", 1e9, above=0.0, hint="") == 1e9


@pytest.mark.parametrize("value", [2, -3, 3.0, True, "3", None])
def test_what_is_no_whole_number_or_too_small_is_refused_and_shown(value: object) -> None:
    with pytest.raises(ValueError, match=f"size must be a whole number, at least 3, got {value!r} of type"):
        whole_number("size", value, least=3)


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (0.0, {"above": 0.0}, "share must be above 0, got 0.0; halve it"),
        (-0.1, {"least": 0.0, "most": 1.0}, "share must be between 0 and 1, got -0.1; halve it"),
        (1.1, {"least": 0.0, "most": 1.0}, "share must be between 0 and 1, got 1.1; halve it"),
        (math.nan, {"above": 0.0}, "share must be above 0, got nan; halve it"),
    ],
)
def test_numbers_beyond_their_bounds_are_refused_with_advice(
    value: float, bounds: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        real_number("share", value, hint="halve it", **bounds)


@pytest.mark.parametrize("value", [True, "1", None, 1j])
def test_what_is_no_real_number_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match=r"share must be a number, got .* of type .*; halve it"):
        real_number("share", value, hint="halve it")


def test_long_values_are_shortened_to_eighty_characters() -> None:
    assert shown("a" * 78) == f"'{'a' * 78}' of type str"
    assert shown([1] * 50) == f"[{'1, ' * 25}1... of type list"
