"""What fits of sparse and of exact experts both need: points with their weights, candidate gates, a longer ladder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, scale_inputs
from lobal.experts.interface import Hyperparameters
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.ladder import extended, largest_useful
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import Start, with_known_noise

# Gate bandwidths in units of the global expert's, from the smoothest to the least smooth, compared on held-out points.
GATE_WIDTHS = (30.0, 10.0, 3.0)


class Plan(NamedTuple):
    """What a training starts from: given, or found by a pilot."""

    points: LabelledSet
    bandwidths: Bandwidths
    hyperparameters: Hyperparameters
    gate: WhitenedFeatures
    training: AnalyticSettings


def first_plan(data: TrainingData, start: Start) -> tuple[Plan, list[WhitenedFeatures]]:
    """The plan without a pilot, which has the gate of middle width, and the features of all candidate gates."""
    settings, training = start.settings, analytic_settings(start.settings)
    points = training_points(data, training)
    gates = candidate_gates(points, start)
    hyperparameters = with_known_noise(start.hyperparameters, points)
    return Plan(points, settings.bandwidths, hyperparameters, gates[len(gates) // 2], training), gates


def candidate_gates(points: LabelledSet, start: Start, widths: Sequence[float] = GATE_WIDTHS) -> list[WhitenedFeatures]:
    """The features of gates to compare, from the smoothest on, with widths in units of the global expert's."""
    given = start.settings.gate_bandwidth
    bandwidths = [width * start.global_bandwidth for width in widths] if given is None else [given]
    return [start.gate_features(points, bandwidth) for bandwidth in bandwidths]


def analytic_settings(settings: MixtureSettings) -> AnalyticSettings:
    """The settings of the training, which must be those of the analytic engine."""
    assert isinstance(settings.training, AnalyticSettings)
    return settings.training


def training_points(data: TrainingData, training: AnalyticSettings) -> LabelledSet:
    """All labels except those for validation, with the weights that count in training."""
    return with_training_weights(data.for_training(), training)


def with_training_weights(points: LabelledSet, training: AnalyticSettings) -> LabelledSet:
    """The points, with equal weights unless weights count in training."""
    return points if training.weighted else replace(points, weight=torch.ones_like(points.weight))


def extended_ladder(
    bandwidths: Bandwidths, shares: Float[Tensor, " L"], points: LabelledSet, start: Start
) -> Float[Tensor, " longer"]:
    """The ladder extended beyond the ends that are in use, if it is adaptive."""
    if not start.settings.adaptive:
        return bandwidths
    return extended(bandwidths, shares, largest_useful(scale_inputs(points.X, start.shared_bandwidth)))
