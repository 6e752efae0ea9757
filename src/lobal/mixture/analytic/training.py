"""The analytic engine: experts by linear algebra, the gate from their leave-one-out answers.

The locally optimal bandwidth is that of the expert which, trained on all data, predicts best around x. So every expert
is conditioned on all points, its leave-one-out predictive log-likelihoods follow from leverages, and the ordinal gate
is fitted to them. The noise is learned in between, from the gate-weighted leave-one-out likelihood; mean and lambda
are the global expert's (fixed points of lambda run away: the wider a kernel, the larger the lambda it asks for, and
the experts share one). A second conditioning under the gate gives the experts to predict with.

Left to themselves the log-likelihoods lead the gate astray: at a handful of points the luckiest bandwidth wins, and a
small one is lucky more often. The paper prices small bandwidths at theta. The price here follows the leverage h, at
log(1 + PRICE h) / 2 nats a point. A bandwidth costs h / 2 nats in variance where there is noise, so the price is a
multiple of that: it falls with n by itself, counts locally, and is the same on every ladder. Where there is no noise
and h is near one, it stays bounded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

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
from lobal.mixture.analytic.ordinal import cross_fitted_channels, fit_ordinal_gate
from lobal.mixture.gate import OrdinalGate, interpolation_weights
from lobal.mixture.objective import gated_mean
from lobal.mixture.progress import Epoch, Progress

# Of 0, 2, 4 and 8: on the Doppler function 4 and 8 were best, on five measured data sets 0 and 2, by little.
PRICE = 4.0
GATE_SCALE = 4.0  # lambda_G in squared steps of the ladder
# The noise has settled when it changes by less than this factor: the gate hardly notices.
SETTLED = 1.2
ROUNDS = 4
NOISE_BISECTIONS = 40
MOST_COMPARED = 2048  # points


# Standard errors by which held-out labels have to speak for squared errors. Eight or more did on a flow without noise,
# four or five on a power plant, less than three on functions with noise.
CLEARLY = 4.0


@final
@dataclass(frozen=True, kw_only=True)
class AnalyticSettings:
    """How to fit the gate."""

    penalty: float | None = None  # theta of Eq. (eq:smallBWpenalty) in the place of the price of leverage
    price: float = PRICE
    gate_scale: float = GATE_SCALE
    weighted: bool = False  # importance weights count in training; local experts and a local gate only lose by them
    squared: bool = False  # judge experts by squared errors, not by likelihoods: for labels (almost) without noise
    compared: bool = True  # by either, and exact experts without the price too, if labels left out speak for it
    rounds: int = ROUNDS


class Trained(NamedTuple):
    """A gate and how the experts it was fitted to fare under it, each label predicted from the others."""

    gate: OrdinalGate
    shared: Hyperparameters
    shares: Float[Tensor, " L"]  # of the points, by expert
    objective: float  # negative utility of the gate per point, in nats
    residual: Float[Tensor, " n"]  # of the labels
    utility: Float[Tensor, "L n"]  # of the experts at the points

    def as_epoch(self, number: int) -> Epoch:
        """The same for the record of the training."""
        error = self.residual.square().mean().sqrt().item()
        return Epoch(number, kappa=2, rate=1.0, objective=self.objective, validation_error=error)


def train(
    stored: StoredFeatures,
    points: LabelledSet,
    gate_features: WhitenedFeatures,
    shared: Hyperparameters,
    settings: AnalyticSettings,
    progress: Progress | None = None,
) -> Trained:
    """Alternate the leave-one-out answers, the gate and the noise until the latter settles."""
    phi = gate_features(points.X)[0]
    gate, number = None, 0
    while True:
        experts = condition(stored, points, shared)
        answers = sparse_leave_one_out(stored, points, shared, experts)
        trained = fit_gate(gate_features, phi, points, answers, shared, settings, start=gate)
        if progress is not None:
            progress(trained.as_epoch(number))
        gate, used = trained.gate, trained.gate.at_features(phi)
        if points.noise is not None:
            return trained
        noise = updated_noise(shared, stored.explained, answers, points, used)
        has_settled = (noise / shared.noise).log().abs().item() < math.log(SETTLED)
        shared = shared._replace(noise=noise)
        number += 1
        if has_settled or number >= settings.rounds:
            return trained._replace(shared=shared)


def fit_gate(
    features: WhitenedFeatures,
    phi: Float[Tensor, "n m"],
    points: LabelledSet,
    answers: LeaveOneOut,
    shared: Hyperparameters,
    settings: AnalyticSettings,
    *,
    start: OrdinalGate | None = None,
) -> Trained:
    """The gate that sends every point to the expert that predicts it best from the others."""
    weight, utility = relative_weights(points), utilities(answers, points.y, settings)
    gate = fit_ordinal_gate(features, phi, utility, weight, scale=settings.gate_scale, start=start)
    return _trained(gate, phi, points, answers, utility, shared)


def _trained(
    gate: OrdinalGate,
    phi: Float[Tensor, "n m"],
    points: LabelledSet,
    answers: LeaveOneOut,
    utility: Float[Tensor, "L n"],
    shared: Hyperparameters,
) -> Trained:
    used, weight = gate.at_features(phi), relative_weights(points)
    return Trained(
        gate,
        shared,
        shares=used.mean(dim=0),
        objective=-(weight @ gated_mean(used, utility)).item() / len(points),
        residual=points.y - gated_mean(used, answers.mean),
        utility=utility,
    )


def best_gate_features(
    candidates: Sequence[WhitenedFeatures],
    points: LabelledSet,
    utility: Float[Tensor, "L n"],
    settings: AnalyticSettings,
    generator: torch.Generator,
) -> WhitenedFeatures:
    """The features of the gate that sends points it was not fitted to to the experts of greatest utility.

    `candidates` go from the smoothest gate to the least smooth; one of them has to be better than the best before it
    by more than the standard error of the difference.
    """
    if len(candidates) == 1:
        return candidates[0]
    rows = torch.randperm(len(points), generator=generator)[:MOST_COMPARED].to(utility.device)
    points, utility = points[rows], utility[:, rows]
    worths = [gated_mean(cross_fitted_gate(features, points, utility, settings), utility) for features in candidates]
    return candidates[_least([-worth for worth in worths])]


def best_gate(
    features: WhitenedFeatures,
    points: LabelledSet,
    answers: LeaveOneOut,
    shared: Hyperparameters,
    settings: AnalyticSettings,
) -> Trained:
    """The gate whose measure of the experts predicts labels best that neither they nor it have seen.

    With little noise, likelihoods of experts that share one noise say less about their errors, and the price keeps
    bandwidths away that are small enough. So gates may also go by likelihoods without it, and by squared errors, where
    these leave less of the labels by more than the standard error. One expert alone has all where it does so too: not
    sooner, for then no place is more complex than another, and a learner has nothing to go by.
    """
    phi = features(points.X)[0]
    if not settings.compared:
        return fit_gate(features, phi, points, answers, shared, settings)
    candidates = measures(settings)
    losses = [held_out_losses(features, points, answers, candidate) for candidate in candidates]
    chosen = _least(losses)
    trained = fit_gate(features, phi, points, answers, shared, candidates[chosen])
    alone = relative_weights(points) * (points.y - answers.mean).square()
    best = alone.mean(dim=1).argmin()
    if _least([losses[chosen], alone[best]]) == 0:
        return trained
    gate = replace(trained.gate, mean=best.to(alone), whitened_mean=torch.zeros_like(trained.gate.whitened_mean))
    return _trained(gate, phi, points, answers, trained.utility, shared)


def clear_measure(
    features: WhitenedFeatures, points: LabelledSet, answers: LeaveOneOut, settings: AnalyticSettings
) -> AnalyticSettings:
    """The settings, or squared errors in the place of likelihoods where held-out labels speak clearly for them.

    They do where labels have next to no noise. Elsewhere the two are alike, and a choice by chance would do harm: to
    the local bandwidths, if not to predictions.
    """
    if not settings.compared or settings.penalty is not None or settings.squared:
        return settings
    squared = replace(settings, price=0.0, squared=True)
    losses = [held_out_losses(features, points, answers, candidate) for candidate in (settings, squared)]
    gain = losses[0] - losses[1]
    return squared if gain.mean() > CLEARLY * gain.std() / math.sqrt(len(gain)) else settings


def measures(settings: AnalyticSettings) -> list[AnalyticSettings]:
    """What experts may be judged by: the settings' own measure, the same without its price, squared errors."""
    if settings.penalty is not None:
        return [settings]
    free = replace(settings, price=0.0)
    return [settings, *(other for other in (free, replace(free, squared=True)) if other != settings)]


def _least(losses: Sequence[Float[Tensor, " n"]]) -> int:
    """The number of the least; each has to be less than the best before it by more than the standard error."""
    best = 0
    for number, loss in enumerate(losses):
        gain = losses[best] - loss
        if gain.mean() > gain.std() / math.sqrt(len(gain)):
            best = number
    return best


def cross_fitted_gate(
    features: WhitenedFeatures,
    points: LabelledSet,
    utility: Float[Tensor, "L n"],
    settings: AnalyticSettings,
) -> Float[Tensor, "n L"]:
    """What gates say at the points that were left out when they were fitted, a fold of the points at a time."""
    phi, scale = features(points.X)[0], settings.gate_scale
    said = torch.zeros_like(utility.mT)
    for out, channel in cross_fitted_channels(phi, utility, relative_weights(points), scale=scale):
        position = channel.mean + phi.new_tensor(scale).sqrt() * (phi[out] @ channel.whitened_mean)
        said[out] = interpolation_weights(position, len(utility))
    return said


def held_out_losses(
    features: WhitenedFeatures, points: LabelledSet, answers: LeaveOneOut, settings: AnalyticSettings
) -> Float[Tensor, " n"]:
    """Squared errors, weighted, where every label is predicted by experts and a gate that were fitted without it."""
    gate = cross_fitted_gate(features, points, utilities(answers, points.y, settings), settings)
    return relative_weights(points) * (points.y - gated_mean(gate, answers.mean)).square()


def utilities(answers: LeaveOneOut, y: Float[Tensor, " n"], settings: AnalyticSettings) -> Float[Tensor, "L n"]:
    """What each expert is worth at each point, in nats: predictive log-likelihood less the price of its bandwidth."""
    L = len(answers.mean)
    if settings.squared:
        error = (y - answers.mean).square()
        worth = -0.5 * error / error.mean(dim=1).min().clamp_min(torch.finfo(error.dtype).tiny)
    else:
        worth = answers.log_likelihood(y)
    if settings.penalty is None:
        return worth - 0.5 * (1.0 + settings.price * answers.leverage).log()
    steps_down = torch.arange(L - 1, -1, -1, dtype=y.dtype, device=y.device)
    return worth - 2.0 * settings.penalty / max(L - 1, 1) * steps_down[:, None]


def updated_noise(
    shared: Hyperparameters,
    explained: Float[Tensor, "L n"],
    answers: LeaveOneOut,
    points: LabelledSet,
    gate: Float[Tensor, "n L"],
) -> Scalar:
    """The noise variance that makes the gate-weighted leave-one-out likelihood greatest, leverages kept.

    The predictive variance is (lambda (1 - q) + v) times a factor that the leverages fix; the derivative of the
    likelihood in log v changes its sign between a thousandth and a thousandfold of the present noise.
    """
    s = fitc_variance(explained, shared)
    gap, growth = s - shared.noise, answers.variance / s
    weight = gate.mT * relative_weights(points)
    error = (points.y - answers.mean).square() / growth
    low, high = -math.log(1e3), math.log(1e3)
    for _ in range(NOISE_BISECTIONS):
        middle = 0.5 * (low + high)
        variance = gap + shared.noise * math.exp(middle)
        is_too_small = ((weight * (error / variance - 1.0) / variance).sum() > 0).item()
        low, high = (middle, high) if is_too_small else (low, middle)
    return (shared.noise * math.exp(0.5 * (low + high))).clamp_min(SMALLEST_NOISE)
