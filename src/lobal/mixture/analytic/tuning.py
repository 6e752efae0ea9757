"""The analytic engine's price of leverage and lambda_G, chosen by cross-validation.

A fit finds ladder, gate width and noise. With its leave-one-out predictions, the gates of all candidates are fitted to
three quarters of the points and used to predict the rest. The criterion is the squared error of the gate-weighted
predictions, which does not contain the price: the gate's own objective, and the utility at held-out points, are larger
the lower the price.
"""

from dataclasses import replace
from itertools import product

import torch

from lobal.core.comparison import is_better
from lobal.experts.leave_one_out import LeaveOneOut
from lobal.mixture.analytic.fit import fit_analytic
from lobal.mixture.analytic.gate_choice import MOST_COMPARED, held_out_losses
from lobal.mixture.analytic.gate_fit import FOLDS
from lobal.mixture.analytic.preparation import analytic_settings, training_points
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.leave_one_out import left_out_by_expert
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import global_start
from lobal.mixture.tuning_record import Decision, Trial, Tuned

PRICES = (1.0, 4.0, 16.0)
GATE_SCALES = (1.0, 4.0, 16.0)  # lambda_G, in squared steps of the ladder


def tuned_analytic(data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> Tuned:
    """The settings with the price and lambda_G that predict held-out points best, and the ladder of the first fit."""
    training = analytic_settings(settings)
    start = global_start(data.points, settings, generator)
    mixture = fit_analytic(data, replace(start, settings=replace(settings, exchange=False)), None).mixture
    points = training_points(data, training)
    predictions = left_out_by_expert(mixture, points)
    rows = torch.randperm(len(points), generator=generator)[:MOST_COMPARED].to(points.y.device)
    predictions = LeaveOneOut(*(values[:, rows] for values in predictions))
    candidates = _candidates(training)
    gate_features = mixture.gate.features
    losses = [held_out_losses(gate_features, points[rows], predictions, candidate) for candidate in candidates]
    least = min(range(len(losses)), key=lambda number: losses[number].mean().item())
    best = least if is_better(losses[least], losses[0]) else 0
    found = replace(
        settings,
        kernel=mixture.kernel,
        training=candidates[best],
        bandwidths=mixture.bandwidths,
        shared_bandwidth=mixture.shared_bandwidth,
        gate_bandwidth=gate_features.shared_bandwidth,
    )
    values = [(candidate.price, candidate.gate_scale) for candidate in candidates]
    trials = (Trial(v, loss.mean().sqrt().item(), FOLDS, "finished") for v, loss in zip(values, losses, strict=True))
    return Tuned(found, [Decision("price of leverage, lambda_G", tuple(trials), values[best])])


def _candidates(training: AnalyticSettings) -> list[AnalyticSettings]:
    """The given settings, then the grid; only gate scales if theta replaces the price.

    The final fit does not compare measures again.
    """
    training = replace(training, compared=False)
    prices = PRICES if training.penalty is None else (training.price,)
    grid = [replace(training, price=price, gate_scale=scale) for price, scale in product(prices, GATE_SCALES)]
    return [training, *(candidate for candidate in grid if candidate != training)]
