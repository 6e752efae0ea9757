"""A mixture under noise that varies over the inputs: fitted, its residuals taken, fitted again.

A third fit, from the residuals of the second, was slightly worse.
"""

from dataclasses import replace
from typing import NamedTuple

import torch

from lobal.core.dataset import LabelledSet
from lobal.experts.global_expert import SMALLEST_NOISE
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture
from lobal.mixture.leave_one_out import left_out_residuals
from lobal.mixture.model import FittedMixture
from lobal.mixture.noise import NoiseModel, estimate_noise
from lobal.mixture.progress import Progress
from lobal.mixture.settings import MixtureSettings


class NoisyMixture(NamedTuple):
    """A mixture and the noise variance v(x) it was fitted under; none if it is constant."""

    fitted: FittedMixture
    noise: NoiseModel | None


def fit_with_estimated_noise(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> NoisyMixture:
    """A mixture whose noise is estimated from the residuals of a first one with constant noise."""
    first = fit_mixture(data, settings, generator, progress)
    residuals = left_out_residuals(first.mixture, data.for_training())
    shared = first.mixture.shared_bandwidth
    noise = estimate_noise(residuals, shared_bandwidth=shared, generator=generator).at_least(SMALLEST_NOISE)
    if noise.is_constant:
        return NoisyMixture(first, None)
    return NoisyMixture(fit_mixture(with_noise(data, noise), settings, generator, progress), noise)


def with_noise(data: TrainingData, noise: NoiseModel) -> TrainingData:
    """The data with known noise variances of all labels except those for validation."""

    def noisy(points: LabelledSet) -> LabelledSet:
        return replace(points, noise=noise(points.X))

    gate_set = None if data.gate_set is None else noisy(data.gate_set)
    return replace(data, points=noisy(data.points), gate_set=gate_set)
