"""Whether what a single Gaussian process takes for noise is structure: a start with little noise beside the first.

A process of one bandwidth cannot explain waves of all lengths, and takes the short ones for noise. Then the long ones
look as if larger bandwidths were enough, and a mixture that starts from this noise never leaves it. Predictions from
neighbours, each with the bandwidth that suits its region, tell at little cost whether less noise explains more.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.comparison import is_better
from lobal.core.dataset import LabelledSet
from lobal.experts.leave_one_out import relative_weights
from lobal.mixture.analytic.gate_choice import MOST_COMPARED, cross_fitted_gate
from lobal.mixture.analytic.preparation import GATE_WIDTHS, analytic_settings, with_training_weights
from lobal.mixture.analytic.ruler import predictions_from_neighbours
from lobal.mixture.analytic.settings import NEIGHBOURS
from lobal.mixture.analytic.training import utilities
from lobal.mixture.gate import gated_mean
from lobal.mixture.ladder import in_use
from lobal.mixture.start import Start, with_known_noise

STANDARD_ERRORS = 2.0  # by which less noise must be better to be worth a trial
# Bandwidths that are compared, in units of Sigma_E. Those of a function with waves of all lengths are far apart.
SMALLEST, LARGEST = 2.0**-5, 2.0**6
GATE_WIDTH = GATE_WIDTHS[1]


class Explained(NamedTuple):
    """How well a start explains labels from their neighbours."""

    loss: Float[Tensor, " m"]  # weighted squared errors at labels that the gate was not fitted to
    shares: Float[Tensor, " L"]  # of the labels, by bandwidth


def quieter_start(points: LabelledSet, start: Start) -> Start | None:
    """A start with little noise and the bandwidths in use, if that predicts labels better from their neighbours.

    It is worth a trial then: whether a mixture is better with it, the mixture has to show.
    """
    quieter = start.quieter(points)
    if quieter is None:
        return None
    # Random numbers of their own: where the start stays, the fit is the same as without the trial.
    trials = [replace(each, generator=torch.Generator().manual_seed(0)) for each in (quieter, start)]
    rows = torch.randperm(len(points), generator=trials[0].generator)[:MOST_COMPARED].to(points.y.device)
    ladder = wide_ladder(start.settings.bandwidths)
    little, much = (_explained(points, rows, each, ladder) for each in trials)
    is_worth_it = is_better(little.loss, much.loss, standard_errors=STANDARD_ERRORS)
    return quieter.with_bandwidths(in_use(ladder, little.shares)) if is_worth_it else None


def wide_ladder(bandwidths: Bandwidths) -> Float[Tensor, " longer"]:
    """Bandwidths from the smallest to the largest that are compared, in the steps of the given ones."""
    ratio = math.log(bandwidths[-1] / bandwidths[0]) / max(len(bandwidths) - 1, 1) or math.log(2.0)
    first, last = math.ceil(math.log(SMALLEST) / ratio), math.floor(math.log(LARGEST) / ratio)
    return torch.arange(first, last + 1, dtype=bandwidths.dtype, device=bandwidths.device).mul(ratio).exp()


def _explained(points: LabelledSet, rows: Int[Tensor, " m"], start: Start, ladder: Bandwidths) -> Explained:
    training = analytic_settings(start.settings)
    compared = with_training_weights(points[rows], training)
    hyperparameters = with_known_noise(start.hyperparameters, points)
    predictions = predictions_from_neighbours(points, rows, start, hyperparameters, ladder, k=NEIGHBOURS)
    given = start.settings.gate_bandwidth
    features = start.gate_features(compared, GATE_WIDTH * start.global_bandwidth if given is None else given)
    weights = cross_fitted_gate(features, compared, utilities(predictions, compared.y, training), training)
    error = compared.y - gated_mean(weights, predictions.mean)
    return Explained(relative_weights(compared) * error.square(), weights.mean(dim=0))
