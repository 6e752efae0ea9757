"""From labelled data to a fitted mixture: the settings tuned, the global expert, the engine that they select."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import is_better, standard_error
from lobal.core.kernels import gaussian
from lobal.experts.global_expert import SMALLEST_NOISE
from lobal.mixture.calibration import Calibration
from lobal.mixture.data import TrainingData
from lobal.mixture.engine import Tune
from lobal.mixture.engines import engine_for
from lobal.mixture.heavy_tails import (
    first_heavy_tails,
    gaussian_likelihood,
    heavy_tails,
    residuals_of,
    student_likelihood,
)
from lobal.mixture.leave_one_out import left_out_residuals
from lobal.mixture.model import FittedMixture
from lobal.mixture.noise import NoiseModel, estimate_noise
from lobal.mixture.progress import Epoch, Progress
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import global_start
from lobal.mixture.tuning_record import Tuned

# Fits under Student's noise: the variances of the first round are those of a fit that outliers distort.
HEAVY_TAIL_ROUNDS = 2
# By which Student's noise must be better. With 1, it was sometimes preferred for labels without any noise.
STANDARD_ERRORS = 2.0


def tuned_settings(data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> Tuned:
    """The settings that validate best, by the method of their engine."""
    return engine_for(settings.training).tune(data, settings, generator)


def untuned_settings(_: TrainingData, settings: MixtureSettings, __: torch.Generator) -> Tuned:
    """Settings with a fixed ladder and no pilot."""
    kernel = gaussian if settings.kernel is None else settings.kernel
    return Tuned(replace(settings, kernel=kernel, adaptive=False, pilot=False), [])


# How settings are chosen before a fit. "off": the ladder as it is and, for the ordinal gate, the middle one of its
# widths. "fast": left to the fit; under the analytic engine a pilot finds ladder, gate width and noise, under Adam it
# is the same as "off". "full": trainings are compared, by Algorithm 2 under Adam, on a grid of gates otherwise. "once":
# the same, under Adam, but in a campaign at its first step only.
TUNINGS: dict[str, Tune] = {
    "off": untuned_settings,
    "fast": lambda _, settings, __: Tuned(settings, []),
    "full": tuned_settings,
    "once": tuned_settings,
}


def fit_mixture(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> FittedMixture:
    """A mixture trained on the data by the engine that `settings.training` belongs to."""
    start = global_start(data.points, settings, generator)
    fitted = engine_for(settings.training).fit_mixture(data, start, progress)
    return fitted if fitted.start is not None else fitted._replace(start=start)


def fit_with_estimated_noise(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> tuple[FittedMixture, NoiseModel | None]:
    """A mixture whose noise is estimated from the residuals of a first one with constant noise, and that noise.

    The noise is None if it is constant. A third fit, from the residuals of the second, was slightly worse.
    """
    first = fit_mixture(data, settings, generator, progress)
    residuals = left_out_residuals(first.mixture, data.for_training())
    shared = first.mixture.shared_bandwidth
    noise = estimate_noise(residuals, shared_bandwidth=shared, generator=generator, smallest=SMALLEST_NOISE)
    if noise.is_constant:
        return first, None
    return fit_mixture(_with_noise(data, noise(data.for_training().X)), settings, generator, progress), noise


def fit_with_heavy_tails(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> tuple[FittedMixture, None]:
    """A mixture under Student's noise, unless Gaussian noise predicts labels from the others as well.

    Each round fits with the variances that the labels count with, and finds these again.
    """
    first = fitted = fit_mixture(data, settings, generator, progress)
    before = residuals = residuals_of(first.mixture, data.for_training())
    noise = first_heavy_tails(before, first.hyperparameters.noise)
    if noise is None:
        return first, None
    for _ in range(HEAVY_TAIL_ROUNDS):
        noisy = _with_noise(data, noise.variances.clamp_min(SMALLEST_NOISE))
        fitted = fit_mixture(noisy, settings, generator, progress)
        residuals = residuals_of(fitted.mixture, noisy.points)
        noise = heavy_tails(residuals, smallest=SMALLEST_NOISE)
    reference = gaussian_likelihood(before, first.hyperparameters.noise)
    if not is_better(-student_likelihood(residuals, noise), -reference, standard_errors=STANDARD_ERRORS):
        return first, None
    return fitted._replace(tail_noise=noise.variance, label_noise=noise.variances), None


def _with_noise(data: TrainingData, noise: Float[Tensor, " n"]) -> TrainingData:
    """The data with variances of all training labels, which train experts and gate."""
    return replace(data, points=replace(data.for_training(), noise=noise), gate_set=None)


class HeldOutErrors(NamedTuple):
    """How well labels are predicted that took no part in the fit, in units of the labels."""

    error: float  # root mean squared error
    standard_error: float | None  # of the same; None if it is not known
    calibration: Calibration


def held_out_errors(
    data: TrainingData, fitted: FittedMixture, noise: NoiseModel | None, history: Sequence[Epoch], *, scale: float
) -> HeldOutErrors:
    """Errors of the validation labels, or of each training label predicted from the others without them.

    The data are in units of `scale`; the history is in units of the labels already.
    """
    assert fitted.start is not None
    engine = engine_for(fitted.start.settings.training)
    points = data.for_final_fit()
    if noise is not None:
        points = replace(points, noise=noise(points.X))
    if fitted.label_noise is not None:
        points = replace(points, noise=fitted.label_noise)
    mean, variance = engine.held_out(fitted, points)
    residual, weight = points.y - mean, points.weight
    if fitted.label_noise is None or fitted.tail_noise is None:
        v = fitted.hyperparameters.noise if points.noise is None else points.noise
        calibration = Calibration.of(residual / (variance + v).sqrt(), weight)
    else:
        # Labels count as in the fit: intervals have to contain those that are no outliers.
        z = residual / (variance + fitted.tail_noise).sqrt()
        calibration = Calibration.of(z, weight / fitted.label_noise)
    if fitted.residual is None:
        # Errors at other values of kappa are those of another model.
        error = min(epoch.validation_error for epoch in history if epoch.kappa == history[-1].kappa)
        return HeldOutErrors(error, None, calibration)
    if data.validation is not None:
        residual, weight = data.validation.y - fitted.mixture.mean(data.validation.X), data.validation.weight
    squares = weight / weight.mean() * residual.square()
    error = squares.mean().sqrt().item()
    # The error of a root is that of its square over twice the root.
    uncertain = standard_error(squares) / (2.0 * error) if error > 0 else 0.0
    return HeldOutErrors(scale * error, scale * uncertain, calibration)
