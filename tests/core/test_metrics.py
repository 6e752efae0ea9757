from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from lobal.core.metrics import maximum_absolute_error, root_mean_squared_error

Metric: TypeAlias = Callable[..., float]

every_metric = pytest.mark.parametrize("metric", [root_mean_squared_error, maximum_absolute_error])


def test_root_mean_squared_error_of_known_errors() -> None:
    assert root_mean_squared_error([1.0, 2.0, 3.0], [1.0, 5.0, 7.0]) == pytest.approx(np.sqrt(25.0 / 3.0))


def test_maximum_absolute_error_sees_both_signs() -> None:
    for truth in ([1.0, -2.0], [2.0, -1.0]):
        assert maximum_absolute_error([0.0, 0.0], truth) == 2.0


@every_metric
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (4,), ()])
def test_shapes_never_broadcast(metric: Metric, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(3,\) and \("):
        metric(np.zeros(3), np.zeros(shape))


@every_metric
@pytest.mark.parametrize("shape", [(3, 1), (0,)])
def test_columns_as_matrices_and_no_points_are_refused(metric: Metric, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"with n >= 1, got \(.*\) and \("):
        metric(np.zeros(shape), np.zeros(shape))


def test_weights_count_like_repeated_points() -> None:
    prediction, truth = np.array([1.0, 2.0]), np.array([0.0, 5.0])
    repeated = root_mean_squared_error(np.repeat(prediction, [3, 1]), np.repeat(truth, [3, 1]))
    assert root_mean_squared_error(prediction, truth, [30.0, 10.0]) == pytest.approx(repeated)


@every_metric
def test_points_of_weight_zero_do_not_count(metric: Metric) -> None:
    assert metric([1.0, 100.0], [0.0, 0.0], weights=[2.0, 0.0]) == 1.0
    assert metric([1.0, 2.0], [1.0, 2.0]) == 0.0


@every_metric
@pytest.mark.parametrize(("weights", "message"), [([0.0, 0.0], "none"), ([1.0, -1.0], "-1.0"), ([1.0], r"\(1,\)")])
def test_impossible_weights_are_refused(metric: Metric, weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric([1.0, 2.0], [0.0, 0.0], weights=weights)
