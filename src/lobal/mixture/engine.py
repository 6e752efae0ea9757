"""What an engine consists of: the options that a user chooses, and the functions that fit and tune."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch
from sklearn.base import BaseEstimator

from lobal.core.dataset import LabelledSet
from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture, MixturePrediction
from lobal.mixture.progress import Epoch, Progress
from lobal.mixture.settings import MixtureSettings, TrainingSettings
from lobal.mixture.start import Start
from lobal.mixture.tuning_record import Tuned

Fit: TypeAlias = Callable[[TrainingData, Start, Progress | None], FittedMixture]
HeldOut: TypeAlias = Callable[[FittedMixture, LabelledSet], MixturePrediction]
Tune: TypeAlias = Callable[[TrainingData, MixtureSettings, torch.Generator], Tuned]


class EngineOptions(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """Options of an engine, with scikit-learn's `get_params` and `set_params`; checked when a model is fitted."""

    settings: ClassVar[type[TrainingSettings]]  # the type of `MixtureSettings.training` that selects this engine
    fit_mixture: ClassVar[Fit]
    tune: ClassVar[Tune]  # the settings that validate best
    held_out: ClassVar[HeldOut]  # each training label predicted from the others
    exact_by_default: ClassVar[bool]  # whether experts="auto" may mean exact experts
    chooses_kernel: ClassVar[bool]  # whether kernel="auto" is a choice, and not the Gaussian
    can_estimate_noise: ClassVar[bool]  # whether noise="estimate" is available
    can_tune_once: ClassVar[bool]  # whether tuning="once" is available: all that tuning finds are options

    @abstractmethod
    def training(self, n: int, objective: str) -> TrainingSettings:
        """The settings for n training labels; raises a ValueError if an option is out of range."""

    @abstractmethod
    def split(self, n: int) -> tuple[int, int | None]:
        """How many of n labels are for the gate of exact experts, and how many for validation; None: none needed."""

    @abstractmethod
    def without_effect(self, *, exact: bool) -> list[str]:
        """Names of options that differ from their defaults but have no effect on such experts."""

    @abstractmethod
    def status(self, epoch: Epoch) -> str:
        """An entry of the training history as a status message."""
