"""A single Gaussian process under Student's noise: predictions that outliers do not distort.

A fit takes many outliers for noise, so its own residuals do not show them. Here, labels are predicted again from at
most `MOST` of them, with the noise of `heavy_tails.py` and the kernel width, of some, that leaves the smallest
residuals. This is no good model of the labels, but one whose errors are not those of the mixture.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial.distance import cdist

from lobal.mixture.heavy_tails import FREEDOM, QUARTILE

MOST = 200  # labels that predictions are made from
# Widths of the kernel: in standard deviations of the inputs times the root of d, and in units of the fitted ones, which
# may be distorted.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 6  # of predictions and variances: a fifth of wrong labels lose their influence in three
SMALLEST_SCALE = 1e-8  # of the noise, in units of the variance of the labels


class Predicted(NamedTuple):
    """Labels as others predict them."""

    mean: Float[ndarray, " n"]
    std: Float[ndarray, " n"]  # of a label

    def at(self, rows: ndarray) -> "Predicted":
        """Some of them."""
        return Predicted(self.mean[rows], self.std[rows])


class RobustPrediction(NamedTuple):
    """Every label from others, and the labels that the predictions are made from."""

    all: Predicted
    some: Int[ndarray, " m"]


def robust_prediction(
    X: Float[ndarray, "n d"], y: Float[ndarray, " n"], scaled: Float[ndarray, "n d"]
) -> RobustPrediction:
    """The labels y at X predicted from others; `scaled` are the inputs in units of a bandwidth that may suit them."""
    # Labels of different kinds may alternate, so some are drawn.
    some = np.random.default_rng(0).permutation(len(y))[:MOST]
    processes = ((places, fit_process(places[some], y[some])) for places in _in_units_of_widths(X, scaled))
    places, process = min(processes, key=lambda each: each[1].scale)
    predicted = process.predict(places)
    predicted.mean[some], predicted.std[some] = process.left_out
    return RobustPrediction(predicted, some)


def _in_units_of_widths(X: Float[ndarray, "n d"], scaled: Float[ndarray, "n d"]) -> Iterator[Float[ndarray, "n d"]]:
    """The inputs in units of every width that is tried."""
    spread = X.std(axis=0)
    yield from (X / (width * np.sqrt(X.shape[1]) * np.where(spread > 0, spread, 1.0)) for width in WIDTHS)
    yield from (scaled / width for width in WIDTHS)


class Process(NamedTuple):
    """A Gaussian process under Student's noise."""

    places: Float[ndarray, "m d"]  # inputs of its labels, in units of the kernel's width
    centre: float  # mean of the labels
    unit: float  # their standard deviation
    inverse: Float[ndarray, "m m"]  # of the covariance of the labels
    weights: Float[ndarray, " m"]
    scale: float  # v of the noise, in units of the labels' variance
    left_out: Predicted  # each label from all others

    def predict(self, places: Float[ndarray, "n d"]) -> Predicted:
        """New labels."""
        kernel = _kernel(places, self.places)
        latent = 1.0 - np.einsum("nm,nm->n", kernel @ self.inverse, kernel)
        std = np.sqrt(np.maximum(latent, 0.0) + self.scale)
        return Predicted(self.centre + self.unit * (kernel @ self.weights), self.unit * std)


def fit_process(places: Float[ndarray, "m d"], y: Float[ndarray, " m"]) -> Process:
    """The process of labels y at inputs in units of the kernel's width, by expectation maximisation over residuals.

    Mean, standard deviation and scale of the noise are robust.
    """
    centre = float(np.median(y))
    unit = _robust_deviation(y - centre) or float((y - centre).std()) or 1.0
    values, K = (y - centre) / unit, _kernel(places, places)
    inverse, v, scale = K, np.ones(len(y)), 1.0
    residual = latent = values
    for _ in range(ROUNDS):
        inverse = np.linalg.inv(K + np.diag(v))
        residual = inverse @ values / np.diag(inverse)
        latent = 1.0 / np.diag(inverse) - v
        scale = max(_robust_deviation(residual) ** 2, SMALLEST_SCALE)
        v = (FREEDOM * scale + residual**2) / (FREEDOM + 1.0)
    left_out = Predicted(y - unit * residual, unit * np.sqrt(np.maximum(latent, 0.0) + scale))
    return Process(places, centre, unit, inverse, inverse @ values, scale, left_out)


def _kernel(first: Float[ndarray, "n d"], second: Float[ndarray, "m d"]) -> Float[ndarray, "n m"]:
    return np.asarray(np.exp(-0.5 * cdist(first, second, "sqeuclidean")))


def _robust_deviation(values: Float[ndarray, " n"]) -> float:
    return float(np.median(np.abs(values))) / QUARTILE
