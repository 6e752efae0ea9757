"""Which gate to use: how wide its kernel is, and by which measure of the experts it is fitted.

Candidates are compared on points that their gates were not fitted to.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import best_of, is_better
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import LeaveOneOut, relative_weights
from lobal.mixture.analytic.gate_fit import cross_fitted_channels
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.training import Trained, fit_gate, trained_with, utilities
from lobal.mixture.gate import gated_mean, interpolation_weights

MOST_COMPARED = 2048  # points
# Standard errors by which squared errors have to be better on held-out labels. On a flow without noise they were better
# by eight or more, on a power plant by four or five, on functions with noise by less than three.
CLEARLY = 4.0


def best_gate_features(
    candidates: Sequence[WhitenedFeatures],
    points: LabelledSet,
    utility: Float[Tensor, "L n"],
    settings: AnalyticSettings,
    generator: torch.Generator,
    *,
    standard_errors: float = 1.0,
) -> WhitenedFeatures:
    """The features, from the smoothest gate on, whose gate selects the best experts at points it was not fitted to.

    A gate has to be better than smoother ones by so many standard errors.
    """
    if len(candidates) == 1:
        return candidates[0]
    rows = torch.randperm(len(points), generator=generator)[:MOST_COMPARED].to(utility.device)
    points, utility = points[rows], utility[:, rows]
    losses = [-gated_mean(cross_fitted_gate(features, points, utility, settings), utility) for features in candidates]
    return candidates[best_of(losses, standard_errors=standard_errors)]


def best_gate(
    features: WhitenedFeatures,
    points: LabelledSet,
    predictions: LeaveOneOut,
    hyperparameters: Hyperparameters,
    settings: AnalyticSettings,
) -> Trained:
    """The gate fitted by the measure of the experts that predicts held-out labels best.

    With little noise, likelihoods are a poor measure, and the price of leverage rules out bandwidths that are small
    enough. So likelihoods without the price and squared errors are tried too, and used if held-out squared errors are
    smaller by more than the standard error. A single expert for all points has to be better than with any measure.
    """
    phi = features(points.X)[0]
    if not settings.compared:
        return fit_gate(features, phi, points, predictions, hyperparameters, settings)
    candidates = measures(settings)
    losses = [held_out_losses(features, points, predictions, candidate) for candidate in candidates]
    single = relative_weights(points) * (points.y - predictions.mean).square()
    best, chosen = single.mean(dim=1).argmin(), best_of(losses)
    if is_better(single[best], losses[chosen]):
        chosen = min(range(len(losses)), key=lambda number: losses[number].mean().item())
    trained = fit_gate(features, phi, points, predictions, hyperparameters, candidates[chosen])
    if not is_better(single[best], losses[chosen]):
        return trained
    gate = replace(trained.gate, mean=best.to(single), whitened_mean=torch.zeros_like(trained.gate.whitened_mean))
    return trained_with(gate, phi, points, predictions, trained.utility, hyperparameters, None)


def squared_if_clearly_better(
    features: WhitenedFeatures, points: LabelledSet, predictions: LeaveOneOut, settings: AnalyticSettings
) -> AnalyticSettings:
    """The settings, with squared errors instead of likelihoods if these predict held-out labels clearly better.

    They do for labels with almost no noise. Otherwise both predict alike, and a choice by chance would harm the local
    bandwidths.
    """
    if not settings.compared or settings.penalty is not None or settings.squared:
        return settings
    squared = replace(settings, price=0.0, squared=True)
    loss, reference = (held_out_losses(features, points, predictions, each) for each in (squared, settings))
    return squared if is_better(loss, reference, standard_errors=CLEARLY) else settings


def measures(settings: AnalyticSettings) -> list[AnalyticSettings]:
    """How experts may be compared: as the settings say, the same without the price of leverage, by squared errors."""
    if settings.penalty is not None:
        return [settings]
    free = replace(settings, price=0.0)
    return [settings, *(other for other in (free, replace(free, squared=True)) if other != settings)]


def cross_fitted_gate(
    features: WhitenedFeatures,
    points: LabelledSet,
    utility: Float[Tensor, "L n"],
    settings: AnalyticSettings,
) -> Float[Tensor, "n L"]:
    """Gate weights at every point, from a gate fitted without the fold that the point belongs to."""
    phi, scale = features(points.X)[0], settings.gate_scale
    weights = torch.zeros_like(utility.mT)
    for held_out, channel in cross_fitted_channels(phi, utility, relative_weights(points), scale=scale):
        position = channel.mean + phi.new_tensor(scale).sqrt() * (phi[held_out] @ channel.whitened_mean)
        weights[held_out] = interpolation_weights(position, len(utility))
    return weights


def held_out_losses(
    features: WhitenedFeatures, points: LabelledSet, predictions: LeaveOneOut, settings: AnalyticSettings
) -> Float[Tensor, " n"]:
    """Weighted squared errors of labels predicted by experts and a gate that were fitted without them."""
    gate = cross_fitted_gate(features, points, utilities(predictions, points.y, settings), settings)
    return relative_weights(points) * (points.y - gated_mean(gate, predictions.mean)).square()
