"""The analytic engine: experts fitted in closed form, the gate fitted to their leave-one-out predictions.

The locally optimal bandwidth is that of the expert which, trained on all data, predicts best around x. So every expert
is conditioned on all points, its leave-one-out predictive log-likelihoods follow from leverages, and the ordinal gate
is fitted to them. In alternation with the gate, the noise is learned from the gate-weighted leave-one-out likelihood;
mean and lambda are the global expert's (lambda cannot be updated likewise: the wider a kernel, the larger its best
lambda, and the experts share one). The final experts are conditioned once more, weighted by the gate.

The log-likelihoods alone mislead the gate: with few points the luckiest bandwidth wins, and small ones are lucky more
often. The paper penalises small bandwidths by theta. Here the penalty follows the leverage h, log(1 + PRICE h) / 2 nats
per point. A bandwidth costs h / 2 nats in variance where there is noise, so the penalty is a multiple of that: it falls
with n by itself, acts locally, and is the same on every ladder. Without noise h is near one, and it stays bounded.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.features import StoredFeatures
from lobal.experts.fitc import fitc_variance
from lobal.experts.global_expert import SMALLEST_NOISE
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import LeaveOneOut, condition, relative_weights, sparse_leave_one_out
from lobal.mixture.analytic.gate_fit import fit_ordinal_gate
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.gate import OrdinalGate, gated_mean
from lobal.mixture.ladder import bandwidth_prices
from lobal.mixture.progress import Epoch, Progress

# The noise has converged when it changes by less than this factor, which hardly changes the gate.
SETTLED = 1.2
NOISE_BISECTIONS = 40


class Trained(NamedTuple):
    """A gate, and the leave-one-out performance of the experts under it."""

    gate: OrdinalGate
    hyperparameters: Hyperparameters
    shares: Float[Tensor, " L"]  # of the points, by expert
    objective: float  # negative utility of the gate per point, in nats
    residual: Float[Tensor, " n"]  # of the labels, each predicted from the others
    utility: Float[Tensor, "L n"]  # of the experts at the points
    measure: AnalyticSettings | None  # by which the experts are compared; None: one is selected everywhere

    def as_epoch(self, number: int) -> Epoch:
        """The entry of the training history."""
        error = self.residual.square().mean().sqrt().item()
        return Epoch(number, kappa=2, rate=1.0, objective=self.objective, validation_error=error)


def train(
    stored: StoredFeatures,
    points: LabelledSet,
    gate_features: WhitenedFeatures,
    hyperparameters: Hyperparameters,
    settings: AnalyticSettings,
    progress: Progress | None = None,
) -> Trained:
    """Alternate leave-one-out predictions, gate and noise until the noise converges."""
    phi = gate_features(points.X)[0]
    gate, number = None, 0
    while True:
        experts = condition(stored, points, hyperparameters)
        predictions = sparse_leave_one_out(stored, points, hyperparameters, experts)
        trained = fit_gate(gate_features, phi, points, predictions, hyperparameters, settings, start=gate)
        if progress is not None:
            progress(trained.as_epoch(number))
        gate, weights = trained.gate, trained.gate.at_features(phi)
        if points.noise is not None:
            return trained
        noise = updated_noise(hyperparameters, stored.explained, predictions, points, weights)
        has_settled = (noise / hyperparameters.noise).log().abs().item() < math.log(SETTLED)
        hyperparameters = hyperparameters._replace(noise=noise)
        number += 1
        if has_settled or number >= settings.rounds:
            return trained._replace(hyperparameters=hyperparameters)


def fit_gate(
    features: WhitenedFeatures,
    phi: Float[Tensor, "n m"],
    points: LabelledSet,
    predictions: LeaveOneOut,
    hyperparameters: Hyperparameters,
    settings: AnalyticSettings,
    *,
    start: OrdinalGate | None = None,
) -> Trained:
    """The gate that selects at every point the expert that predicts it best from the others."""
    weight, utility = relative_weights(points), utilities(predictions, points.y, settings)
    gate = fit_ordinal_gate(features, phi, utility, weight, scale=settings.gate_scale, start=start)
    return trained_with(gate, phi, points, predictions, utility, hyperparameters, settings)


def trained_with(
    gate: OrdinalGate,
    phi: Float[Tensor, "n m"],
    points: LabelledSet,
    predictions: LeaveOneOut,
    utility: Float[Tensor, "L n"],
    hyperparameters: Hyperparameters,
    measure: AnalyticSettings | None,
) -> Trained:
    """A given gate, and the performance of the experts under it."""
    weights = gate.at_features(phi)
    return Trained(
        gate,
        hyperparameters,
        shares=weights.mean(dim=0),
        objective=-(relative_weights(points) @ gated_mean(weights, utility)).item() / len(points),
        residual=points.y - gated_mean(weights, predictions.mean),
        utility=utility,
        measure=measure,
    )


def utilities(predictions: LeaveOneOut, y: Float[Tensor, " n"], settings: AnalyticSettings) -> Float[Tensor, "L n"]:
    """The utility of each expert at each point, in nats: predictive log-likelihood minus the penalty."""
    if settings.squared:
        error = (y - predictions.mean).square()
        worth = -0.5 * error / error.mean(dim=1).min().clamp_min(torch.finfo(error.dtype).tiny)
    else:
        worth = predictions.log_likelihood(y)
    if settings.penalty is None:
        return worth - 0.5 * (1.0 + settings.price * predictions.leverage).log()
    return worth - bandwidth_prices(len(worth), settings.penalty, like=y)[:, None]


def updated_noise(
    hyperparameters: Hyperparameters,
    explained: Float[Tensor, "L n"],
    predictions: LeaveOneOut,
    points: LabelledSet,
    gate: Float[Tensor, "n L"],
) -> Scalar:
    """The noise variance of greatest gate-weighted leave-one-out likelihood, for fixed leverages.

    The predictive variance is (lambda (1 - q) + v) times a factor that the leverages determine.
    """
    s = fitc_variance(explained, hyperparameters)
    gap, growth = s - hyperparameters.noise, predictions.variance / s
    weight = gate.mT * relative_weights(points)
    error = (points.y - predictions.mean).square() / growth
    low, high = -math.log(1e3), math.log(1e3)
    for _ in range(NOISE_BISECTIONS):
        middle = 0.5 * (low + high)
        variance = gap + hyperparameters.noise * math.exp(middle)
        is_too_small = ((weight * (error / variance - 1.0) / variance).sum() > 0).item()
        low, high = (middle, high) if is_too_small else (low, middle)
    return (hyperparameters.noise * math.exp(0.5 * (low + high))).clamp_min(SMALLEST_NOISE)
