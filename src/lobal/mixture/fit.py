"""From labelled data to a fitted mixture: the global expert, then the engine that the settings select."""

from collections.abc import Sequence

import torch

from lobal.mixture.data import TrainingData
from lobal.mixture.engines import engine_for
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Epoch, Progress
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import global_start


def fit_mixture(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> FittedMixture:
    """A mixture trained on the data by the engine that `settings.training` belongs to."""
    start = global_start(data.points, settings, generator)
    return engine_for(settings.training).fit(data, start, settings, generator, progress)


def validation_error(data: TrainingData, fitted: FittedMixture, history: Sequence[Epoch], *, scale: float) -> float:
    """Root mean squared error in units of the labels: on the validation labels, or leave-one-out without them.

    The data are in units of `scale`; the history is in units of the labels already.
    """
    if fitted.residual is None:
        # Errors at other values of kappa are those of another model.
        return min(epoch.validation_error for epoch in history if epoch.kappa == history[-1].kappa)
    validation = data.validation
    if validation is None:
        residual, weight = fitted.residual, data.for_training().weight
    else:
        residual, weight = validation.y - fitted.mixture.mean(validation.X), validation.weight
    return scale * (weight @ residual.square() / weight.sum()).sqrt().item()
