"""Errors of predictions."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike

from lobal.core.arrays import as_column


def root_mean_squared_error(prediction: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Root of the (weighted) mean of the squared errors; only the ratios of the weights matter."""
    errors = _errors(prediction, truth)
    return float(np.sqrt(np.average(np.square(errors), weights=_checked_weights(weights, len(errors)))))


def maximum_absolute_error(prediction: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The largest error in absolute value, over the points whose weight exceeds zero."""
    errors = _errors(prediction, truth)
    return float(np.abs(errors[_checked_weights(weights, len(errors)) > 0.0]).max())


def _errors(prediction: ArrayLike, truth: ArrayLike) -> Float[ndarray, " n"]:
    """Prediction minus truth, where both are columns of the same length.

    A prediction (n,) less a truth (n, 1) would be an (n, n) matrix: shapes are compared, never broadcast.
    """
    predicted, true = np.asarray(prediction, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if predicted.ndim != 1 or predicted.shape != true.shape or len(predicted) == 0:
        shapes = f"{predicted.shape} and {true.shape}"
        raise ValueError(f"prediction and truth must both have shape (n,) with n >= 1, got {shapes}")
    return np.asarray(predicted - true)


def _checked_weights(weights: ArrayLike | None, length: int) -> Float[ndarray, " n"]:
    column = as_column(1.0 if weights is None else weights, name="weights", length=length)
    if not column.any():
        raise ValueError(f"at least one of the {length} weights must exceed zero, got none")
    return column
