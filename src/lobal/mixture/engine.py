"""What an engine consists of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch

from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Progress
from lobal.mixture.settings import MixtureSettings, TrainingSettings
from lobal.mixture.start import Start
from lobal.mixture.tuning_record import Report, Tuned

Fit: TypeAlias = Callable[[TrainingData, Start, MixtureSettings, torch.Generator, Progress | None], FittedMixture]
Tune: TypeAlias = Callable[[TrainingData, MixtureSettings, torch.Generator, int, Report | None], Tuned]


@final
@dataclass(frozen=True, kw_only=True)
class Engine:
    """One way to train a mixture."""

    settings: type[TrainingSettings]  # the type of `MixtureSettings.training` that selects this engine
    fit: Fit
    tune: Tune  # the best settings found with at most so many trainings
