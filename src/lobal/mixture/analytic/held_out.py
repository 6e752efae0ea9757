"""Predictions of labels that took no part in the tuning: leave-one-out, nested in folds.

Plain leave-one-out predictions have the hyperparameters and the gate of a fit to all labels. In many columns, widths
are tuned to few labels, and the errors of these labels are too small. So the labels are divided into folds; for each,
the global expert is searched again without it, starting from the one found with all labels, and the gate is fitted to
the other folds. Labels are then predicted from all others, with what was tuned without their fold. Conditioning on all
labels but one costs no accuracy, as plain cross-validation does. Ladder, kernel, width and measure of the gate stay.

With more labels than a neighbourhood holds, experts are fitted to neighbourhoods, whose labels are predicted worse at
their borders. The ratio of nested and plain errors is hardly affected, and corrects the plain predictions.
"""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import scale_inputs
from lobal.experts.exact import neighbourhoods
from lobal.experts.interface import Posterior
from lobal.experts.leave_one_out import LeaveOneOut, leave_one_out_among_neighbours, relative_weights
from lobal.mixture.analytic.exact import NEIGHBOURS
from lobal.mixture.analytic.gate_fit import COMPARED_TOLERANCE, FOLDS, Channel, fit_channel
from lobal.mixture.analytic.preparation import with_training_weights
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.training import utilities
from lobal.mixture.gate import OrdinalGate, interpolation_weights
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.model import FittedMixture, Mixture, MixturePrediction, mixture_prediction
from lobal.mixture.start import Start, with_known_noise

LARGEST_NESTED = 2048  # labels; the tuning is hardly fitted to one of more


def held_out_predictions(fitted: FittedMixture, points: LabelledSet) -> MixturePrediction:
    """Mean and latent variance at every training point, predicted from the others, tuned without the point's fold."""
    plain = left_out_prediction(fitted.mixture, points)
    if len(points) > LARGEST_NESTED or fitted.start is None:
        return plain
    groups = neighbourhoods(scale_inputs(points.X, fitted.mixture.shared_bandwidth), NEIGHBOURS)
    nested = _nested(fitted, fitted.start, points, groups)
    if len(groups) == 1:
        return nested
    noise = _noise(fitted.mixture, points)
    everywhere = torch.ones_like(points.y, dtype=torch.bool)
    predictions = _left_out(fitted.mixture, fitted.start, noise, points, groups)
    among_neighbours = _gated(fitted.mixture, _channel(fitted.mixture), predictions, points, everywhere, noise)
    growth = [_mean_squares(each, points, noise) for each in (nested, among_neighbours)]
    # Labels that are all alike are predicted without any error, which does not grow.
    error, score = (
        torch.where(plainly > 0, nestedly / plainly, 1.0) for nestedly, plainly in zip(*growth, strict=True)
    )
    mean = points.y - error.sqrt() * (points.y - plain.mean)
    variance = (plain.variance + noise) * error / score - noise
    return MixturePrediction(mean, variance.clamp_min(0.0))


def _nested(
    fitted: FittedMixture, start: Start, points: LabelledSet, groups: Sequence[Int[Tensor, " _"]]
) -> MixturePrediction:
    """Predictions at every point that were tuned without the point's fold; labels come in random order."""
    mean, variance = torch.zeros_like(points.y), torch.zeros_like(points.y)
    fold = torch.arange(len(points), device=points.y.device) % FOLDS
    for number in range(FOLDS):
        out = fold == number
        again = start.searched_again(points[~out])
        noise = _noise(fitted.mixture, points)
        if points.noise is None:
            noise = noise * again.hyperparameters.noise / start.hyperparameters.noise
        predictions = _left_out(fitted.mixture, again, noise, points, groups)
        channel = _channel_without(out, fitted, predictions, points)
        mean[out], variance[out] = _gated(fitted.mixture, channel, predictions, points, out, noise)
    return MixturePrediction(mean, variance)


def _noise(mixture: Mixture, points: LabelledSet) -> Float[Tensor, " n"]:
    """The noise of the points where it is known, otherwise that which the fit found."""
    return with_known_noise(mixture.experts.hyperparameters, points).noise.expand(len(points))


def _left_out(
    mixture: Mixture,
    start: Start,
    noise: Float[Tensor, " n"],
    points: LabelledSet,
    groups: Sequence[Int[Tensor, " _"]],
) -> LeaveOneOut:
    """Every expert's prediction of every label from the others of its group."""
    known = LabelledSet(X=points.X, y=points.y, weight=points.weight, noise=noise)
    fitted = partial(start.exact_experts, bandwidths=mixture.bandwidths)
    return leave_one_out_among_neighbours(known, start.hyperparameters._replace(noise=noise), groups, fitted)


def _channel(mixture: Mixture) -> Channel:
    assert isinstance(mixture.gate, OrdinalGate)  # the analytic engine has no other
    return Channel(mixture.gate.mean, mixture.gate.whitened_mean)


def _channel_without(
    out: Bool[Tensor, " n"], fitted: FittedMixture, predictions: LeaveOneOut, points: LabelledSet
) -> Channel:
    """The gate's channel fitted to other points; as it is if it selects one expert everywhere."""
    gate, channel = fitted.mixture.gate, _channel(fitted.mixture)
    if not isinstance(fitted.measure, AnalyticSettings):
        return channel
    assert isinstance(gate, OrdinalGate)
    return fit_channel(
        gate.features(points.X[~out])[0],
        utilities(predictions, points.y, fitted.measure)[:, ~out],
        relative_weights(with_training_weights(points, fitted.measure))[~out],
        scale=gate.scale.item(),
        start=channel,
        tolerance=COMPARED_TOLERANCE,
    )


def _gated(
    mixture: Mixture,
    channel: Channel,
    predictions: LeaveOneOut,
    points: LabelledSet,
    rows: Bool[Tensor, " n"],
    noise: Float[Tensor, " n"],
) -> MixturePrediction:
    """The mixture's predictions at some of the points with a gate of that channel."""
    assert isinstance(mixture.gate, OrdinalGate)
    phi = mixture.gate.features(points.X[rows])[0]
    position = channel.mean + mixture.gate.scale.sqrt() * (phi @ channel.whitened_mean)
    variance = (predictions.variance[:, rows] - noise[rows]).clamp_min(0.0)
    weights = interpolation_weights(position, mixture.gate.n_experts)
    return mixture_prediction(weights, Posterior(predictions.mean[:, rows], variance))


def _mean_squares(
    prediction: MixturePrediction, points: LabelledSet, noise: Float[Tensor, " n"]
) -> tuple[Tensor, Tensor]:
    """Mean squares of the errors, and of the errors in standard deviations."""
    squared = (points.y - prediction.mean).square()
    return squared.mean(), (squared / (prediction.variance + noise)).mean()
