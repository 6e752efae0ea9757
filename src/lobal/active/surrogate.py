"""What a learner needs of a model: options that can be saved, a fit, and local bandwidths and noise at any input.

`Surrogate` is the model before a fit, that is its options. `FittedSurrogate` is what a fit returns. The learner names
no model: mixtures over arrays are one kind, force fields another.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.candidates import Candidates, Metric
from lobal.core.kernels import Kernel

NoiseFunction: TypeAlias = Callable[[ndarray], ndarray]  # the variance of a label's noise at inputs


class Validation(NamedTuple):
    """Inputs and labels that models are validated with."""

    X: ndarray
    y: ndarray
    weight: Float[ndarray, " n"] | None = None  # of the errors, q / p_X, where the inputs do not follow q


@final
@dataclass(frozen=True, kw_only=True)
class FitTask:
    """Everything a fit at one step of a campaign may use."""

    X: ndarray  # model inputs of the labelled points, one entry a label
    y: ndarray  # labels
    weight: Float[ndarray, " n"]  # q / p_k, importance weights
    density: Float[ndarray, " n"] | None = None  # p_k; none: constant
    inducing_weight: Float[ndarray, " n"] | None  # sqrt(LFC / p_k); none before there is a complexity
    validation: Validation | None
    seed: int  # of the campaign
    step: int  # k
    smoothness: float  # alpha
    dimension: float  # delta
    candidates: Candidates  # of the campaign
    numbers: Mapping[str, int] = field(default_factory=dict)  # of inducing points, as an earlier step found them
    rows_of: str = "learner.labelled"  # what the rows of labels are counted in, for warnings
    known_outliers: frozenset[int] = frozenset()  # rows of labels that an earlier step has warned of
    kept: Mapping[str, Tensor] = field(default_factory=dict)  # what `FittedSurrogate.kept` of the last step returned


@final
@dataclass(frozen=True, kw_only=True)
class Process:
    """The Gaussian process that a fitted model is, or is near to, in units of its prior variance lambda."""

    kernel: Kernel
    coordinates: Callable[[ndarray], Float[Tensor, "n k"]]  # inputs in units of Sigma_E
    bandwidth: Callable[[ndarray], Float[Tensor, " n"]]  # local, at inputs, in these units
    noise: Callable[[ndarray], Float[Tensor, " n"]]  # variance of a label's noise at inputs
    # How much larger some errors of held-out labels are than the model expects: their kurtosis, in standard deviations
    # of the model, less that of normal errors, in standard errors.
    tail: float
    weight: float = 1.0  # of its squared error among those of all outputs


class FittedSurrogate(ABC):
    """A fitted model as the learner sees it."""

    model: Any  # the model itself, for the user
    validation_error: float | None  # root mean squared
    standard_error: float | None = None  # of the validation error; none if it is not known
    noise: float | None  # variance of the labels' noise, on average; none where labels are taken to be exact
    # Whether local bandwidths grow with the noise of the labels, as those of local polynomials do: the noise is then
    # part of the complexity, Eq. (eq:isotropicComplexityLPS).
    is_noise_in_bandwidth: bool = False

    @abstractmethod
    def predict(self, X: ndarray) -> ndarray:
        """Predicted labels, in the shape that labels are told in."""

    def standard_deviation(self, X: ndarray) -> ndarray | None:
        """The standard deviation of a new label at every input, noise included; none if the model knows none."""
        del X
        return None

    def interval(self, X: ndarray, probability: float) -> tuple[ndarray, ndarray] | None:
        """Lower and upper ends that contain a new label with this probability; none if the model knows none."""
        del X, probability
        return None

    @property
    def output_errors(self) -> dict[str, tuple[float, float | None]]:
        """Validation error and its standard error of every output by name; empty where there is only one."""
        return {}

    @abstractmethod
    def local_bandwidth(self, X: ndarray) -> Float[ndarray, " n"]:
        """LOB at every input, up to a constant factor."""

    @abstractmethod
    def metric(self, candidates: Candidates) -> Metric:
        """Distances in units of Sigma_E, the bandwidth that all experts share."""

    def processes(self) -> list[Process]:
        """Gaussian processes by whose variances labels can be valued, one for each output; empty if there are none."""
        return []

    @abstractmethod
    def relative_error(self, labels: ndarray) -> float | None:
        """The validation error in units of the spread of the labels; none if there is no validation error."""

    def squared_errors(self, X: ndarray, y: ndarray) -> Float[ndarray, " n"] | None:
        """Squared errors of the training labels, each predicted from all others, less their noise; none if unknown."""
        del X, y
        return None

    @abstractmethod
    def noise_variance(self, X: ndarray) -> Float[ndarray, " n"]:
        """The variance of a label's noise at every input, up to a constant factor."""

    @property
    def outliers(self) -> tuple[int, ...]:
        """Rows of training labels that contradict the others."""
        return ()

    def record(self) -> dict[str, Any]:
        """Further fields of the campaign's `Step`: how settings were found, numbers of inducing points."""
        return {}

    def kept(self) -> dict[str, Tensor]:
        """Tensors that later fits go on with."""
        return {}

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file."""


class Surrogate(ABC):
    """A model that a learner can fit; its options do not change during a campaign."""

    kind: ClassVar[str]  # name in a campaign's header

    @property
    def default_smoothness(self) -> float:
        """alpha that the model is made for, which a learner takes unless it is given another."""
        return math.inf

    @abstractmethod
    def fit(self, task: FitTask) -> FittedSurrogate:
        """The model fitted to all labels of a campaign; the same task gives the same model."""

    def is_enough(self, labels: ndarray) -> bool:
        """Whether labels, as many as any model needs, are enough for this one."""
        del labels
        return True

    @abstractmethod
    def load(self, path: str | os.PathLike[str]) -> FittedSurrogate:
        """A fitted model that `FittedSurrogate.save` wrote.

        Raises:
            ValueError: the file is damaged or of another kind.
        """

    @abstractmethod
    def to_settings(self) -> dict[str, Any]:
        """The options as JSON can hold them."""

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any], n_columns: int) -> None:
        """Refuse settings of a file that `to_settings` cannot have returned, over inputs of so many columns.

        Raises:
            ValueError, TypeError: names the setting, what was expected and what was got.
        """
        del settings, n_columns  # some kinds have none

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "Surrogate":
        """The surrogate that `to_settings` described.

        Args:
            settings: what `to_settings` returned, read from a file.
            noise: the function that was given as the noise, if it was: functions cannot be saved.

        Raises:
            ValueError: the function is missing and needed, or given and not needed.
        """

    @abstractmethod
    def use_device(self, device: str) -> None:
        """Fit and load models on another device from now on."""

    def use_folder(self, folder: Path, *, read_only: bool) -> None:  # noqa: B027 - most surrogates keep no files
        """Called with the folder of the campaign when it is created or opened, for surrogates that keep files there."""

    @property
    def changed_options(self) -> dict[str, Any]:
        """Options that differ from their defaults, for reports."""
        return {}


def noise_to_go_on_with(saved: Any, given: NoiseFunction | None, was_function: bool) -> Any:  # noqa: ANN401 - an option
    """The noise of a saved model: what was saved, or the function that it was and that is given again.

    Raises:
        ValueError: the function is missing and needed, or given and not needed.
    """
    if given is not None and not was_function:
        raise ValueError(
            f"the campaign goes on with the noise it was begun with, {saved!r} (None is learned); leave noise out"
        )
    if given is None and was_function:
        raise ValueError(
            "the campaign's model was given a function as its noise, which cannot be saved; pass it again: "
            "ActiveLearner.load(path, noise=function)"
        )
    return saved if given is None else given
