"""Labels in other units: many labels that are all about the same multiple of what the others predict.

If a fifth of the labels are a hundred times too small, a mixture takes them for noise, and no single label contradicts
the others. So they are compared with robust predictions (`robust_process.py`). Labels far from these are in other units
if

- labels divided by predictions are about the same factor, far from one,
- hardly any labels are between the predictions and these times the factor, as they would with heavy tails, and
- they are scattered among the others. Where a function is harder to predict than elsewhere, they would be neighbours.

A few labels are predicted too badly for that. If all have one sign, some are in other units as well if their sizes
are apart from those of the others by more than these span.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from sklearn.neighbors import NearestNeighbors

from lobal.mixture.robust_process import Predicted, RobustPrediction, robust_prediction

FAR = 5.0  # standard deviations between a label and its prediction
FEWEST, LARGEST_SHARE = 3, 0.4  # labels in other units; if they are more, it is unclear which unit is the right one
SMALLEST_FACTOR = 3.0  # from one unit to the other
INCONSISTENT = 0.25  # how much labels may differ from factor times prediction, in units of label minus prediction
NEAREST = 5  # neighbours of a label in other units, of which this share may be so too, beyond the share of all labels:
CLUSTERED = 0.25
FEWEST_LABELS = 15  # by which some can be said to be in other units
HALF_WIDTH = 0.25  # of intervals of labels, zero at the prediction and one at the prediction times the factor
BETWEEN = 0.2  # how many labels may be around the middle, for each around one


def in_other_units(
    predicted: RobustPrediction,
    y: Float[ndarray, " n"],
    places: Float[ndarray, "n d"],
    noise: Float[ndarray, " n"],
) -> Int[ndarray, " k"]:
    """The rows of labels y that are in other units.

    Args:
        predicted: the labels from others.
        y: the labels.
        places: their inputs, in units by which labels are near.
        noise: known variances, zero if there are none.
    """
    far = np.abs(y - predicted.all.mean) > FAR * np.sqrt(predicted.all.std**2 + noise)
    some, among = predicted.some, far[predicted.some]
    left_out = predicted.all.at(some)
    factor = common_factor(y[some][among], left_out.mean[among])
    if factor is None or not is_gap(factor, y[some], left_out) or not is_scattered(among, places[some]):
        return np.arange(0)
    mean = predicted.all.mean
    return np.flatnonzero(far & (np.abs(y - factor * mean) < np.abs(y - mean)))


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


def apart_in_size(y: Float[ndarray, " n"]) -> Bool[ndarray, " n"]:
    """Which labels, the fewer ones, a gap parts from the others that is wider than the range of these.

    Sizes are logarithms, and the gap is at least that of `SMALLEST_FACTOR`. None where labels have both signs, or are
    zero.
    """
    none = np.zeros(len(y), dtype=bool)
    if not ((y > 0.0).all() or (y < 0.0).all()):
        return none
    sizes = np.log(np.abs(y))
    ordered = np.sort(sizes)
    place = int(np.diff(ordered).argmax())
    gap = ordered[place + 1] - ordered[place]
    is_small = sizes <= ordered[place]
    few = is_small if is_small.sum() <= len(y) / 2 else ~is_small
    return few if gap > max(np.ptp(sizes[~few]), np.log(SMALLEST_FACTOR)) else none


class OtherUnits(NamedTuple):
    """Rows of labels in other units, and about what they are times what they should be."""

    rows: Int[ndarray, " k"]
    factor: float


def labels_in_other_units(X: Float[ndarray, "n d"], y: Float[ndarray, " n"]) -> OtherUnits:
    """The labels y at X that are in other units, found without a fitted model; none of fewer than `FEWEST_LABELS`."""
    none = OtherUnits(np.arange(0), 1.0)
    if len(y) < FEWEST_LABELS or np.ptp(y) == 0.0:
        return none
    spread = X.std(axis=0)
    places = X / np.where(spread > 0.0, spread, 1.0)
    predicted = robust_prediction(X, y, places)
    few = apart_in_size(y)
    if common_factor(y[few], predicted.all.mean[few]) is not None and is_scattered(few, places):
        rows = np.flatnonzero(few)
    else:
        rows = in_other_units(predicted, y, places, np.zeros(len(y)))
    return OtherUnits(rows, float(np.median(y[rows] / predicted.all.mean[rows]))) if len(rows) else none
