"""All that a fit finds beside the mixture: smoothness and density, the tuned settings, history, noise, its error."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from lobal.core.density import KernelDensity
from lobal.mixture.checks import ESTIMATE, one_of, positive, unless_estimated
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import (
    TUNINGS,
    HeldOutErrors,
    fit_mixture,
    fit_with_estimated_noise,
    fit_with_heavy_tails,
    held_out_errors,
)
from lobal.mixture.heavy_tails import HEAVY_TAILS
from lobal.mixture.model import FittedMixture, Mixture
from lobal.mixture.noise import NoiseModel
from lobal.mixture.options import comparable_training, engine_options, mixture_settings
from lobal.mixture.progress import Epoch, Progress, progress_display
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.smoothness import smoothness_by_mixtures
from lobal.mixture.tuning_record import Decision

# Words for noise that a fit estimates, beyond a constant.
NOISES: dict[str, Callable[..., tuple[FittedMixture, NoiseModel | None]]] = {
    ESTIMATE: fit_with_estimated_noise,
    HEAVY_TAILS: fit_with_heavy_tails,
}


class CompleteFit(NamedTuple):
    """A fitted mixture, which is in units of the labels' standard deviation; all else is in units of the labels."""

    mixture: Mixture
    noise_model: NoiseModel | None  # v(x); None if constant or known
    errors: HeldOutErrors
    smoothness: float  # alpha
    density: KernelDensity | None  # of the inputs, if the smoothness is finite
    tuning: list[Decision]
    history: list[Epoch]
    noise: float  # variance of a new label's noise, on average
    has_heavy_tails: bool  # whether the noise is Student's
    tuned: MixtureSettings | None  # what tuning found, if all of it are options


def given_noise(noise: Any) -> Any:  # noqa: ANN401 - an option, as a user gives it
    """The noise that the option gives; None if it is to be learned."""
    return unless_estimated("noise", noise, otherwise="a variance, a function of the inputs, None", words=NOISES)


def complete_fit(
    data: TrainingData,
    options: Mapping[str, Any],
    generator: torch.Generator,
    *,
    dimension: float,
    label_scale: float,
) -> CompleteFit:
    """The fit that the options of a `MixtureRegressor` ask for.

    `dimension` is the intrinsic one; the data are in units of `label_scale`.
    """
    n, d = data.points.X.shape
    settings = mixture_settings(options, n=n, d=d, dimension=dimension, label_scale=label_scale)
    smoothness, density = _smoothness(data, settings, options, generator)
    settings, decisions = one_of("tuning", options["tuning"], TUNINGS)(data, settings, generator)
    are_options = bool(decisions) and engine_options(options["engine"]).can_tune_once
    history: list[Epoch] = []
    with progress_display(options["verbose"], engine_options(options["engine"]).status) as show:

        def note(epoch: Epoch) -> None:
            history.append(epoch._replace(validation_error=label_scale * epoch.validation_error))
            show(history[-1])

        estimates = isinstance(options["noise"], str) and data.points.noise is None
        fit = NOISES[options["noise"]] if estimates else _without_noise_model
        fitted, noise = fit(data, settings, generator, note)
    return CompleteFit(
        fitted.mixture,
        None if noise is None else noise.scaled(label_scale**2),
        held_out_errors(data, fitted, noise, history, scale=label_scale),
        smoothness,
        density,
        [decision.scaled(label_scale) for decision in decisions],
        history,
        label_scale**2 * fitted.noise,
        fitted.tail_noise is not None,
        settings if are_options else None,
    )


def _without_noise_model(
    data: TrainingData, settings: MixtureSettings, generator: torch.Generator, progress: Progress
) -> tuple[FittedMixture, None]:
    return fit_mixture(data, settings, generator, progress), None


def _smoothness(
    data: TrainingData, settings: MixtureSettings, options: Mapping[str, Any], generator: torch.Generator
) -> tuple[float, KernelDensity | None]:
    """alpha and, if it is finite, the density of the inputs."""
    alpha = unless_estimated("smoothness", options["smoothness"], otherwise="a number above zero")
    if alpha is None:
        training = comparable_training(options["engine"], len(data.points), options["objective"])
        alpha = smoothness_by_mixtures(data, replace(settings, training=training), generator)
    if alpha == math.inf:
        return math.inf, None
    positive("smoothness", alpha)
    return float(alpha), KernelDensity.fit(data.for_final_fit().X, generator=generator)
