"""Labels in other units: many labels that are all about the same multiple of what the others predict.

If a fifth of the labels are a hundred times too small, a mixture takes them for noise, and no single label contradicts
the others. So labels are predicted again, from at most `MOST` of them, by a single Gaussian process under Student's
noise (`heavy_tails.py`), for some widths; that of the smallest residuals counts. Labels that are far from these
predictions are in other units if

- labels divided by predictions are about the same factor, far from one, and
- they are scattered among the others. Where a function is harder to predict than elsewhere, they would be neighbours.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from lobal.mixture.heavy_tails import FREEDOM, QUARTILE

MOST = 200  # labels that predictions are made from
# Widths of the kernel: in standard deviations of the inputs times the root of d, and in units of the fitted ones, which
# may be distorted.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 6  # of predictions and variances: a fifth of wrong labels lose their influence in three
FAR = 5.0  # standard deviations between a label and its prediction
FEWEST, LARGEST_SHARE = 3, 0.4  # labels in other units; if they are more, it is unclear which unit is the right one
SMALLEST_FACTOR = 3.0  # between units; also between one unit and the other
INCONSISTENT = 0.25  # how much labels may differ from factor times prediction, in units of label minus prediction
NEAREST = 5  # neighbours of a label in other units, of which this share may be so too, beyond the share of all labels:
CLUSTERED = 0.25
HALF_WIDTH = 0.25  # of intervals of labels, zero at the prediction and one at the prediction times the factor
BETWEEN = 0.2  # how many labels may be around the middle, for each around one
SMALLEST_SCALE = 1e-8  # of the noise, in units of the variance of the labels


class Predicted(NamedTuple):
    """Labels as others predict them."""

    mean: Float[ndarray, " n"]
    std: Float[ndarray, " n"]  # of a label

    def is_far(self, y: Float[ndarray, " n"], noise: Float[ndarray, " n"]) -> Bool[ndarray, " n"]:
        """Whether each label is far from its prediction; `noise` is known variance."""
        return np.asarray(np.abs(y - self.mean) > FAR * np.sqrt(self.std**2 + noise))


def in_other_units(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    noise: Float[ndarray, " n"],
    scaled: Float[ndarray, "n d"] | None = None,
) -> tuple[Int[ndarray, " k"], Predicted]:
    """The rows of labels that are in other units, and their predictions.

    Args:
        X: the inputs.
        y: their labels.
        noise: known variances of these, zero if there are none.
        scaled: the inputs in units of a bandwidth that may suit them.
    """
    # Labels of different units may alternate, so some are drawn.
    some = np.random.default_rng(0).permutation(len(y))[:MOST]
    processes = ((places, fit_process(places[some], y[some])) for places in _in_units_of_widths(X, scaled))
    places, process = min(processes, key=lambda each: each[1].scale)
    left_out = process.left_out
    far = left_out.is_far(y[some], noise[some])
    factor = common_factor(y[some][far], left_out.mean[far])
    if factor is None or not is_gap(factor, y[some], left_out) or not is_scattered(far, places[some]):
        return np.arange(0), Predicted(np.zeros(0), np.zeros(0))
    predicted = process.predict(places)
    predicted.mean[some], predicted.std[some] = left_out
    rows = np.flatnonzero(predicted.is_far(y, noise))
    return rows, Predicted(predicted.mean[rows], predicted.std[rows])


def _in_units_of_widths(
    X: Float[ndarray, "n d"], scaled: Float[ndarray, "n d"] | None
) -> Iterator[Float[ndarray, "n d"]]:
    """The inputs in units of every width that is tried."""
    spread = X.std(axis=0)
    yield from (X / (width * np.sqrt(X.shape[1]) * np.where(spread > 0, spread, 1.0)) for width in WIDTHS)
    if scaled is not None:
        yield from (scaled / width for width in WIDTHS)


def common_factor(labels: Float[ndarray, " k"], means: Float[ndarray, " k"]) -> float | None:
    """What most labels divided by their predictions are; None if they differ, or if it is near one."""
    if len(labels) < FEWEST or not means.all():
        return None
    factor = float(np.median(labels / means))
    differences = np.abs(labels - factor * means) / np.abs(labels - means)
    is_unit = -1.0 / SMALLEST_FACTOR < factor < 1.0 / SMALLEST_FACTOR or factor > SMALLEST_FACTOR
    return factor if is_unit and np.median(differences) < INCONSISTENT else None


def is_gap(factor: float, y: Float[ndarray, " n"], predicted: Predicted) -> bool:
    """Whether labels are near their predictions or near these times the factor, and hardly ever between.

    Counted where the two differ significantly. Labels with heavy tails are at every distance.
    """
    difference = (factor - 1.0) * predicted.mean
    clear = np.abs(predicted.mean) * min(1.0, abs(factor - 1.0)) > FAR * predicted.std
    place = (y[clear] - predicted.mean[clear]) / difference[clear]
    between, other = (np.abs(place - centre) < HALF_WIDTH for centre in (0.5, 1.0))
    return bool(other.sum() >= FEWEST and between.sum() <= BETWEEN * other.sum())


def is_scattered(chosen: Bool[ndarray, " n"], places: Float[ndarray, "n d"]) -> bool:
    """Whether few of all labels are chosen, and about as few of the nearest neighbours of those that are."""
    share, k = chosen.mean(), min(NEAREST, len(places) - 1)
    near = NearestNeighbors(n_neighbors=k + 1).fit(places).kneighbors(places[chosen], return_distance=False)
    among_neighbours = (chosen[near].sum(axis=1) - 1.0).mean() / k
    return bool(share <= LARGEST_SHARE and among_neighbours <= share + CLUSTERED)


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
    unit = _robust_deviation(y - centre) or float(y.std()) or 1.0
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
