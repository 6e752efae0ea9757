"""Labels that contradict the others: wrong units, signs, decimal points.

Each label is compared with its prediction from all others, z = residual / standard deviation. One gross outlier
inflates the noise that a fit learns, and every standard deviation with it, so z is divided by its own robust scale: the
median of its absolute values, over that of a normal number. A label is suspected if the result exceeds what the largest
of n normal numbers would, at a level of 1%. A label among the values of the others has to be as large in units of its
standard deviation itself: such labels do not inflate it much.

Noise may vary, and a function may be harder to predict in some places, so the robust scale of the labels nearby has to
be exceeded as well. Where a function changes faster than its labels can show, the nearest labels differ from the
prediction of one about as much as it does itself. A suspect is an outlier only if this is true for at most one of them,
which may be another outlier. Labels are compared here, not their residuals, which an outlier nearby distorts.

By this definition, a label alone on a narrow peak is an outlier. Several outliers inflate the noise, and
hide each other, so robust predictions (`robust_process.py`) are consulted too: for labels that contradict both
(`outliers_of_both`), and for many labels in other units (`mixed_units.py`).
"""

import warnings
from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.stats import t
from sklearn.neighbors import NearestNeighbors

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import scale_inputs
from lobal.mixture.heavy_tails import HEAVY_TAILS, left_out_with_heavy_tails
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.mixed_units import common_factor, in_other_units, is_scattered
from lobal.mixture.options import engine_options
from lobal.mixture.prediction import LabelPrediction, in_label_units
from lobal.mixture.robust_process import RobustPrediction, robust_prediction
from lobal.mixture.units import as_array, as_tensor

LEVEL = 0.01  # chance of a suspect among n labels with normal noise
QUARTILE = 0.6745  # median absolute value of a normal number
EFFICIENCY = 0.37  # of the scale from that median: n values determine it as well as 0.37 n squares would
FAR = 4.0  # robust standard deviations of the labels from their median
NEIGHBOURS = 25  # labels nearby, whose z tell whether labels are predicted worse there than elsewhere
NEAREST = 8  # of these, of which
SIMILAR = 1  # may differ from the prediction by more than
SHARE = 0.4  # of what the suspect does
UNLIKELY = 3.0  # standard deviations of the mixture, which takes some outliers for noise but explains none of them
MOST_SUSPECTS = 1000  # the most extreme ones; more are no exceptions
MOST_NAMED = 10  # in the warning


class OutlierWarning(UserWarning):
    """Some labels contradict the others. The attribute `outliers_` of the model has their rows."""


class Outliers(NamedTuple):
    """Labels that contradict the others, in the order of their rows."""

    rows: Int[ndarray, " k"]
    labels: Float[ndarray, " k"]
    means: Float[ndarray, " k"]  # predictions from all other labels
    deviations: Float[ndarray, " k"]  # their standard deviations, without the effect of outliers on the noise

    def at(self, chosen: ndarray) -> "Outliers":
        """Some of them."""
        return Outliers(*(column[chosen] for column in self))

    def joined(self, others: "Outliers") -> "Outliers":
        """All of them; a row of both as the others have it."""
        own = self.at(~np.isin(self.rows, others.rows))
        both = Outliers(*(np.concatenate(columns) for columns in zip(own, others, strict=True)))
        return both.at(np.argsort(both.rows))


def threshold(n: int, known: int | None = None) -> float:
    """The largest of n normal numbers in units of their robust scale, exceeded with the probability `LEVEL` at most.

    The scale is that of `known` numbers, by default of all n. By Student's distribution, since the scale is uncertain,
    and Bonferroni's inequality.
    """
    return float(t.isf(0.5 * LEVEL / n, EFFICIENCY * (n if known is None else known)))


def robust_scale(z: Float[ndarray, "*rows n"]) -> Float[ndarray, "*rows"]:
    """The standard deviation of normal numbers, from the median of their absolute values."""
    return np.asarray(np.median(np.abs(z), axis=-1) / QUARTILE)


def outliers_among(points: LabelledSet, rows: Int[ndarray, " n"], model: Any) -> Outliers:  # noqa: ANN401
    """The training labels that contradict the others; none if the engine has no leave-one-out residuals.

    `rows` are the numbers of the labels in the X that was passed. `model` is the fitted `MixtureRegressor`, which uses
    this module.
    """
    if not engine_options(model.engine).can_estimate_noise:
        return Outliers(rows[:0], *(np.zeros(0) for _ in range(3)))
    y = model.label_mean_ + model.label_scale_ * as_array(points.y)
    places = as_array(scale_inputs(points.X, model.mixture_.shared_bandwidth))
    known = np.zeros(len(y)) if points.noise is None else model.label_scale_**2 * as_array(points.noise)
    if points.noise is None:
        noise = model._noise(points.X) / model.label_scale_**2
        points = replace(points, noise=as_tensor(noise, points.y.device))
    prediction, robust = left_out_labels(points, model), robust_prediction(as_array(points.X), y, places)
    found = find_outliers(prediction, y, places)
    for others in (
        outliers_of_both(prediction, robust, y, places, known),
        in_other_units(robust, y, places, known),
    ):
        found = found.joined(Outliers(others, y[others], *robust.all.at(others)))
    return found._replace(rows=rows[found.rows])


def left_out_labels(points: LabelledSet, model: Any) -> LabelPrediction:  # noqa: ANN401 - a fitted `MixtureRegressor`
    """Each training label predicted from all others, in units of the labels; the points have their noise."""
    assert points.noise is not None
    left_out = left_out_with_heavy_tails if model.heavy_tails_ else left_out_prediction
    noise = model.label_scale_**2 * as_array(points.noise)
    return in_label_units(left_out(model.mixture_, points), (model.label_mean_, model.label_scale_), noise)


def find_outliers(prediction: LabelPrediction, y: Float[ndarray, " n"], places: Float[ndarray, "n d"]) -> Outliers:
    """The labels y that contradict the others.

    Args:
        prediction: of each label from all others.
        y: the labels.
        places: their inputs in units of Sigma_E, by which labels are near.
    """
    residual = y - prediction.mean
    z = residual / prediction.std
    scale, distance = float(robust_scale(z)), y - np.median(y)
    is_far = np.abs(distance) > FAR * robust_scale(distance)
    suspects = np.flatnonzero(np.abs(z) > threshold(len(y)) * np.where(is_far, scale, max(scale, 1.0)))
    suspects = suspects[np.argsort(-np.abs(z[suspects]))[:MOST_SUSPECTS]]
    if len(suspects):
        near = _neighbours(places, suspects)
        differ = np.abs(y[near[:, :NEAREST]] - prediction.mean[suspects, None])
        is_alone = (differ > SHARE * np.abs(residual[suspects, None])).sum(axis=1) <= SIMILAR
        is_large = np.abs(z[suspects]) > threshold(len(y), near.shape[1]) * robust_scale(z[near])
        suspects = suspects[is_alone & is_large]
    rows = np.sort(suspects)
    return Outliers(rows, y[rows], prediction.mean[rows], min(scale, 1.0) * prediction.std[rows])


def outliers_of_both(
    prediction: LabelPrediction,
    robust: RobustPrediction,
    y: Float[ndarray, " n"],
    places: Float[ndarray, "n d"],
    noise: Float[ndarray, " n"],
) -> Int[ndarray, " k"]:
    """The rows of labels y that contradict the mixture's predictions and robust ones, where several inflate the noise.

    Here residuals are compared with those nearby, which outliers do not distort. `noise` is known variance.
    """
    residual, n = y - robust.all.mean, len(y)
    z = residual / np.sqrt(robust.all.std**2 + noise)
    z_of_mixture = (y - prediction.mean) / prediction.std
    is_far = np.abs(z) > threshold(n, len(robust.some))
    is_suspect = is_far & (np.abs(z_of_mixture) > max(threshold(n) * robust_scale(z_of_mixture), UNLIKELY))
    suspects = np.flatnonzero(is_suspect)[:MOST_SUSPECTS]
    # The process is no judge if it does not predict labels that the mixture explains.
    if is_suspect.sum() <= 0.5 * is_far.sum() or not is_scattered(is_suspect, places):
        return suspects[:0]
    near = _neighbours(places, suspects, 2 * NEIGHBOURS)
    nearest = near[:, :NEAREST]
    differ = is_far[nearest] | (np.abs(residual[nearest]) > SHARE * np.abs(residual[suspects, None]))
    is_large = np.abs(z[suspects]) > threshold(n, near.shape[1]) * np.maximum(robust_scale(z[near]), 1.0)
    return np.asarray(suspects[(differ.sum(axis=1) <= SIMILAR) & is_large])


def _neighbours(places: Float[ndarray, "n d"], rows: Int[ndarray, " s"], most: int = NEIGHBOURS) -> Int[ndarray, "s k"]:
    """The labels nearest to those of the given rows, in ascending distance, without these themselves."""
    k = min(most, len(places) - 1)
    near = NearestNeighbors(n_neighbors=k + 1).fit(places).kneighbors(places[rows], return_distance=False)
    is_own = near == rows[:, None]
    is_own[:, -1] |= ~is_own.any(axis=1)  # of many labels at one place, it may not be among its own neighbours
    return np.asarray(near[~is_own].reshape(len(rows), k))


def warn_of_outliers(model: Any, *, known: Collection[int] = (), rows_of: str = "X") -> None:  # noqa: ANN401
    """One warning that names the outliers of a fit, except known rows; none if the noise was to have heavy tails.

    `rows_of` is what the rows are counted in.
    """
    outliers: Outliers = model._outliers
    new = outliers.at(~np.isin(outliers.rows, np.asarray([*known], dtype=np.int64)))
    if len(new.rows) and model.noise != HEAVY_TAILS:
        warnings.warn(message(new, rows_of), OutlierWarning, stacklevel=3)


def message(outliers: Outliers, rows_of: str) -> str:
    """The rows, labels and predictions, and what to do."""
    n = len(outliers.rows)
    each = [
        f"row {row}: {label:.5g}, predicted {mean:.5g} +- {deviation:.2g}"
        for row, label, mean, deviation in zip(*outliers.at(np.arange(min(n, MOST_NAMED))), strict=True)
    ]
    more = [f"and {n - MOST_NAMED} more"] if n > MOST_NAMED else []
    what = "1 label contradicts" if n == 1 else f"{n} labels contradict"
    factor = common_factor(outliers.labels, outliers.means)
    units = "" if factor is None else f" Most are about {factor:.2g} times their predictions."
    return (
        f"{what} the others (rows of {rows_of}): {'; '.join(each + more)}.{units} Check units, signs and decimal "
        "points. If the labels are right, MixtureRegressor(noise='heavy_tails') keeps them from distorting the fit. "
        "Without them, another fit may find more."
    )
