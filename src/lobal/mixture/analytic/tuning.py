"""The analytic engine's price of leverage and lambda_G, chosen on points that the gate has not seen.

A fit finds ladder, gate width and noise by itself. With them the experts answer for every label without that label, and
gates of all candidates are fitted to three quarters of the points and asked about the rest. They are judged by the
squared error of the gate-weighted answers, in which the price has no part: the gate's own objective, and the utility
of held-out points, are larger the lower the price.
"""

import math
from dataclasses import replace
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.experts.leave_one_out import LeaveOneOut
from lobal.mixture.analytic.ordinal import FOLDS
from lobal.mixture.analytic.training import MOST_COMPARED, AnalyticSettings, held_out_losses
from lobal.mixture.decisions import Decision, Report, Trial, Tuned
from lobal.mixture.fit import MixtureSettings, TrainingData, fit_mixture
from lobal.mixture.gate import features_of
from lobal.mixture.squared_errors import left_out_answers

PRICES = (1.0, 4.0, 16.0)
GATE_SCALES = (1.0, 4.0, 16.0)  # lambda_G, in squared steps of the ladder


def tuned_analytic(
    data: TrainingData,
    settings: MixtureSettings,
    training: AnalyticSettings,
    generator: torch.Generator,
    budget: int,
    report: Report | None,
) -> Tuned:
    """The settings with the price and lambda_G that serve unseen points best, and the ladder found on the way."""
    fitted = fit_mixture(data, replace(settings, exchange=False), generator)
    mixture = fitted.mixture
    points = data.known()
    if not training.weighted:
        points = replace(points, weight=torch.ones_like(points.weight))
    answers = left_out_answers(mixture, points)
    rows = torch.randperm(len(points), generator=generator)[:MOST_COMPARED].to(points.y.device)
    answers = LeaveOneOut(*(values[:, rows] for values in answers))
    candidates = _candidates(training)[:budget]
    gate_features = features_of(mixture.gate)
    losses = [held_out_losses(gate_features, points[rows], answers, candidate) for candidate in candidates]
    best = _best(losses)
    decision = _decision(candidates, losses, best)
    if report is not None:
        report(decision)
    found = replace(
        settings,
        training=candidates[best],
        bandwidths=mixture.bandwidths,
        shared=mixture.shared,
        gate_bandwidth=gate_features.shared,
    )
    return Tuned(found, [decision])


def _candidates(training: AnalyticSettings) -> list[AnalyticSettings]:
    """The settings as they are, then the grid; of gate scales alone where theta takes the place of the price.

    What is chosen here is not compared once more by the fit.
    """
    training = replace(training, compared=False)
    prices = PRICES if training.penalty is None else (training.price,)
    grid = [replace(training, price=price, gate_scale=scale) for price, scale in product(prices, GATE_SCALES)]
    return [training, *(candidate for candidate in grid if candidate != training)]


def _best(losses: list[Float[Tensor, " n"]]) -> int:
    """The least loss; to be preferred to the first, it has to be less by more than the standard error."""
    best = min(range(len(losses)), key=lambda number: losses[number].mean().item())
    gain = losses[0] - losses[best]
    return best if gain.mean() > gain.std() / math.sqrt(len(gain)) else 0


def _decision(candidates: list[AnalyticSettings], losses: list[Float[Tensor, " n"]], best: int) -> Decision:
    values = [(candidate.price, candidate.gate_scale) for candidate in candidates]
    errors = [loss.mean().sqrt().item() for loss in losses]
    trials = tuple(Trial(value, error, FOLDS, "finished") for value, error in zip(values, errors, strict=True))
    return Decision("price of leverage, lambda_G", trials, values[best])
