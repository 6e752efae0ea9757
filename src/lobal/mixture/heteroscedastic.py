"""A mixture under noise that differs from place to place: fitted, asked what it leaves of its labels, fitted again.

One round: a second, from what the second fit leaves, was measured slightly worse.
"""

from dataclasses import replace
from typing import NamedTuple

import torch

from lobal.core.dataset import LabelledSet
from lobal.experts.global_expert import SMALLEST_NOISE
from lobal.mixture.analytic.training import AnalyticSettings
from lobal.mixture.fit import FittedMixture, MixtureSettings, TrainingData, fit_mixture
from lobal.mixture.noise import NoiseModel, estimate_noise
from lobal.mixture.progress import Progress
from lobal.mixture.squared_errors import left_out_errors


class NoisyMixture(NamedTuple):
    """A mixture and the noise variance v(x) it was fitted under; none where it is constant."""

    fitted: FittedMixture
    noise: NoiseModel | None


def fit_with_estimated_noise(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> NoisyMixture:
    """The mixture whose labels have the noise that a first one, of constant noise, leaves of them."""
    if not isinstance(settings.training, AnalyticSettings):
        raise ValueError(
            "noise='estimate' needs engine='analytic', got 'adam', whose gate is not fitted to labels left out; "
            "take the analytic engine, or give the noise as a number or a function of the inputs"
        )
    first = fit_mixture(data, settings, generator, progress)
    errors = left_out_errors(first.mixture, data.known())
    noise = estimate_noise(errors, shared=first.mixture.shared, generator=generator).at_least(SMALLEST_NOISE)
    if noise.is_constant:
        return NoisyMixture(first, None)
    return NoisyMixture(fit_mixture(with_noise(data, noise), settings, generator, progress), noise)


def with_noise(data: TrainingData, noise: NoiseModel) -> TrainingData:
    """The data with known noise variances of all labels but those for validation."""

    def noisy(points: LabelledSet) -> LabelledSet:
        return replace(points, noise=noise(points.X))

    gate_set = None if data.gate_set is None else noisy(data.gate_set)
    return replace(data, points=noisy(data.points), gate_set=gate_set)
