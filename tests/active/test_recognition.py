import numpy as np
import pytest

import lobal
from lobal.active.recognition import largest_differences, rounded_from
from lobal.active.region import Region

REGION = Region(
    (
        lobal.Real("nickel", 0.0, 30.0),
        lobal.Real("temperature", 700.0, 1200.0),
        lobal.Real("flow", 0.01, 1000.0, log=True),
        lobal.Integer("layers", 1, 200),
        lobal.Categorical("route", ["cast", "forged"]),
    ),
    (),
)
ASKED = np.array([19.0757, 911.82, 3.14159, 12.0, 1.0])
FAR = np.array([3.2, 1100.7, 250.3, 7.0, 0.0])


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        ({}, True),
        ({"nickel": 19.1, "temperature": 912.0, "flow": 3.14}, True),
        ({"nickel": 19.0, "temperature": 910.0, "flow": 3.0}, True),
        ({"nickel": 19.3}, False),  # no rounded value
        ({"nickel": 20.0}, False),  # a thirtieth of the range off
        ({"temperature": 900.0}, False),
        ({"layers": 10.0}, False),
        ({"route": 0.0}, False),
    ],
)
def test_a_point_is_known_by_values_that_were_rounded(change: dict[str, float], is_found: bool) -> None:
    told = np.array([change.get(name, value) for name, value in zip(REGION.names, ASKED, strict=True)])
    assert rounded_from(REGION, told[None], np.stack([FAR, ASKED])).tolist() == [1 if is_found else -1]


def test_what_may_be_one_of_two_points_is_neither() -> None:
    near = ASKED + np.array([0.02, 0.0, 0.0, 0.0, 0.0])
    told = ASKED.copy()
    told[0] = 19.1
    assert rounded_from(REGION, told[None], np.stack([ASKED, near])).tolist() == [-1]
    assert rounded_from(REGION, told[None], np.empty((0, 5))).tolist() == [-1]


def test_the_largest_difference_is_in_shares_of_the_range() -> None:
    moved = ASKED + np.array([0.3, 50.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(largest_differences(REGION, ASKED[None], moved[None]), [0.1])
    assert len(largest_differences(REGION, np.empty((0, 5)), np.empty((0, 5)))) == 0
