import numpy as np
import pytest

from lobal.mixture.robust_process import MOST, fit_process, robust_prediction
from tests.estimator_setting import rmse, truth, wave

ROWS = np.arange(0, 200, 10)


def spoiled(d: int = 1, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """A wave in which every tenth label is wrong."""
    X, y = wave(n, d=d)
    y[::10] += 2.0
    return X, y


def test_labels_left_out_are_predicted_by_the_formula() -> None:
    X, y = wave(30)
    process = fit_process(5.0 * X, y)
    others = np.arange(30) != 7
    covariance = np.linalg.inv(process.inverse)
    weights = np.linalg.solve(covariance[np.ix_(others, others)], y[others] - process.centre)
    assert process.left_out.mean[7] == pytest.approx(process.centre + covariance[7, others] @ weights, rel=1e-6)


def test_every_tenth_label_that_is_wrong_does_not_matter() -> None:
    X, y = spoiled()
    predicted, _ = robust_prediction(X, y, X)
    assert rmse(predicted.mean, truth(X)) < 0.06
    assert np.median(predicted.std) == pytest.approx(0.1, rel=0.4)


def test_more_labels_are_predicted_from_some() -> None:
    X, y = spoiled(n=1000)
    predicted, some = robust_prediction(X, y, X)
    assert len(some) == MOST
    assert rmse(predicted.mean, truth(X)) < 0.06


def test_widths_that_were_fitted_may_be_used() -> None:
    X, y = wave(200, d=5)
    without, fitted = (robust_prediction(X, y, scaled)[0].mean for scaled in (X, X / [0.2, 50, 50, 50, 50]))
    assert rmse(fitted, truth(X)) < 0.3 * rmse(without, truth(X))


@pytest.mark.parametrize("y", [np.ones(20), np.eye(20)[3]], ids=["equal", "one of them not"])
def test_labels_that_are_equal_are_no_problem(y: np.ndarray) -> None:
    predicted, _ = robust_prediction(np.zeros((20, 2)), y, np.zeros((20, 2)))
    assert np.isfinite(predicted.mean).all()
    assert (predicted.std > 0).all()
