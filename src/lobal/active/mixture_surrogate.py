"""`MixtureRegressor` as the surrogate of a learner."""

import copy
import json
import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from sklearn.base import clone
from torch import Tensor

from lobal.active.candidates import Candidates, Metric, seed_of
from lobal.active.shrinking import numbers_found, shrunk
from lobal.active.surrogate import FitTask, FittedSurrogate, NoiseFunction, Process, Surrogate, noise_to_go_on_with
from lobal.core.arrays import resolve_device
from lobal.core.kernels import scale_inputs, squared_distances
from lobal.core.schema import flag, list_of, table, text, whole
from lobal.core.superior_density import local_bandwidth
from lobal.core.units import UnusableColumnWarning
from lobal.inducing.random_points import drawn_rows
from lobal.mixture.analytic.engine import Analytic
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.options import ONCE, options_from_json, options_to_json
from lobal.mixture.outliers import OutlierWarning, warn_of_outliers
from lobal.mixture.stored_options import check_options
from lobal.mixture.tuned_params import check_tuned_params
from lobal.mixture.tuning_record import decisions_as_json

SMOOTHNESS = (
    "math.inf for a smooth target; lobal.MixtureRegressor(smoothness='estimate').fit(X, y).smoothness_ is a number too"
)
SETTINGS = table({"options": table({}), "functions": list_of(text()), "shrink_inducing": flag})
TEST_INPUTS = 512  # for which the error is computed
TUNED = "tuned."  # before the names of options that are kept
# Labels go where small bandwidths predict best, which is around regions of rapid change too. Bandwidths that describe
# the function alone were not clearly better to choose labels by (trials of two or three seeds, not kept).
ANALYTIC, BY_THE_GATE = "analytic", Analytic(neighbours=None)


@final
class FittedMixtureSurrogate(FittedSurrogate):
    """A fitted `MixtureRegressor`."""

    def __init__(self, model: MixtureRegressor, numbers: Mapping[str, int]) -> None:
        self.model = model
        self.validation_error: float = model.validation_error_
        self.standard_error: float | None = model.validation_standard_error_
        self.noise: float = model.noise_
        self._numbers = numbers

    def predict(self, X: ndarray) -> ndarray:
        return np.asarray(self.model.predict(X))

    def standard_deviation(self, X: ndarray) -> ndarray | None:
        return np.asarray(self.model.predict(X, return_std=True)[1])

    def interval(self, X: ndarray, probability: float) -> tuple[ndarray, ndarray] | None:
        _, lower, upper = self.model.predict(X, return_interval=probability)
        return np.asarray(lower), np.asarray(upper)

    def local_bandwidth(self, X: ndarray) -> Float[ndarray, " n"]:
        return np.asarray(self.model.local_bandwidth(X))

    def metric(self, candidates: Candidates) -> Metric:
        del candidates
        return Metric(self._coordinates, squared_distances)

    def _coordinates(self, X: ndarray) -> Float[Tensor, "n k"]:
        """Inputs in units of Sigma_E."""
        width = self.model.mixture_.shared_bandwidth.cpu()
        return scale_inputs(torch.as_tensor(self.model.input_units_(X), dtype=width.dtype), width)

    def processes(self) -> list[Process]:
        """One, whose local bandwidths are those of the gate."""
        mixture = self.model.mixture_
        bandwidths = mixture.bandwidths.cpu()
        unit = self.model.label_scale_**2 * float(mixture.experts.hyperparameters.scale)
        return [
            Process(
                kernel=mixture.kernel,
                coordinates=self._coordinates,
                bandwidth=lambda X: local_bandwidth(torch.from_numpy(self.model.gate(X)), bandwidths),
                noise=lambda X: torch.from_numpy(self.noise_variance(X) / unit),
                tail=self.model.calibration_.tail,
            )
        ]

    def relative_error(self, labels: ndarray) -> float | None:
        return self.validation_error / max(float(labels.std()), np.finfo(float).tiny)

    def squared_errors(self, X: ndarray, y: ndarray) -> Float[ndarray, " n"] | None:
        try:
            mean, _ = self.model.leave_one_out(X, y)
        except ValueError:  # exact experts have not seen labels of weight zero, and know of no others
            return None
        return np.asarray(np.square(y - mean) - self.noise_variance(X))

    def noise_variance(self, X: ndarray) -> Float[ndarray, " n"]:
        return np.asarray(self.model.noise_variance(X))

    @property
    def outliers(self) -> tuple[int, ...]:
        return tuple(self.model.outliers_.tolist())

    def record(self) -> dict[str, Any]:
        decisions = tuple(json.loads(decisions_as_json(self.model.tuning_)))
        return {"decisions": decisions, **(self._numbers or numbers_found(self.model))}

    def kept(self) -> dict[str, Tensor]:
        """With `tuning="once"`, the options that tuning found: Theta_H and Sigma_E of Algorithm 1."""
        found = self.model.tuned_params_ if self.model.tuning == ONCE else {}
        return {TUNED + name: torch.from_numpy(np.asarray(value)) for name, value in found.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        model = copy.copy(self.model)
        if callable(model.noise):
            model.noise = None  # a function is not data; `load` asks for it
        model.save(path)


@final
class MixtureSurrogate(Surrogate):
    """Fits a clone of a `MixtureRegressor` at every step.

    Args:
        model: the unfitted model whose options every fit takes; by default `MixtureRegressor()`.
        shrink_inducing: find out once how few inducing points are enough, and keep to that.
    """

    kind: ClassVar[str] = "mixture"

    def __init__(self, model: MixtureRegressor | None = None, *, shrink_inducing: bool = False) -> None:
        self.model: MixtureRegressor = clone(MixtureRegressor() if model is None else model)
        self.shrink_inducing = shrink_inducing
        if isinstance(self.model.smoothness, str):
            raise ValueError(
                f"a learner takes smoothness itself, got {self.model.smoothness!r} as its model's; {SMOOTHNESS}"
            )

    def fit(self, task: FitTask) -> FittedMixtureSurrogate:
        """Inducing points follow sqrt(p_k LFC_k-1); options that an earlier step has kept take the place of tuning."""
        found = options_kept(task)
        validation = None if task.validation is None else (task.validation.X, task.validation.y)
        test_inputs = unlabelled_inputs(task)

        def fitted(numbers: Mapping[str, int]) -> MixtureRegressor:
            model: MixtureRegressor = clone(self.model).set_params(
                random_state=seed_of(task.seed, task.step),
                smoothness=task.smoothness,
                intrinsic_dimension=task.dimension,
                **found,
                **numbers,
            )
            if model.engine == ANALYTIC:
                model.set_params(engine=BY_THE_GATE)
            return model.fit(
                task.X,
                task.y,
                sample_weight=task.weight,
                inducing_weight=task.inducing_weight,
                validation=validation,
                test_inputs=test_inputs,
            )

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutlierWarning)  # of labels that earlier steps have warned of
            warnings.simplefilter("ignore", UnusableColumnWarning)  # the pool has warned of them
            model = fitted(task.numbers)
            if self.shrink_inducing and not task.numbers and task.inducing_weight is not None:
                model = shrunk(model, fitted, task.X, task.y, validation)
        warn_of_outliers(model, known=task.known_outliers, rows_of=task.rows_of)
        return FittedMixtureSurrogate(model, task.numbers)

    def load(self, path: str | os.PathLike[str]) -> FittedMixtureSurrogate:
        model = MixtureRegressor.load(path, device=self.model.device)
        model.noise = self.model.noise
        return FittedMixtureSurrogate(model, {})

    def use_device(self, device: str) -> None:
        resolve_device(device)
        self.model.set_params(device=device)

    def to_settings(self) -> dict[str, Any]:
        """Options that are functions cannot be saved; `functions` names them."""
        options = self.model.get_params(deep=False)
        functions = [name for name, value in options.items() if callable(value)]
        # The learner's seed takes the place of the model's.
        kept = {name: value for name, value in options.items() if name not in [*functions, "random_state"]}
        options = options_to_json(MixtureRegressor(**kept).get_params(deep=False))
        return {"options": options, "functions": functions, "shrink_inducing": self.shrink_inducing}

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any], n_columns: int) -> None:
        SETTINGS(settings, "surrogate")
        whole(1)(n_columns, "the number of input columns of a mixture")
        model = MixtureRegressor(**options_from_json(settings["options"]))
        check_options(model.get_params(deep=False), d=n_columns)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "MixtureSurrogate":
        surrogate = cls(
            MixtureRegressor(**options_from_json(settings["options"])),
            shrink_inducing=bool(settings["shrink_inducing"]),
        )
        was_function = "noise" in settings["functions"]
        surrogate.model.set_params(noise=noise_to_go_on_with(surrogate.model.noise, noise, was_function))
        return surrogate

    @property
    def changed_options(self) -> dict[str, Any]:
        defaults = MixtureRegressor().get_params(deep=False)
        options = self.model.get_params(deep=False)
        shown = {name: "a function" if callable(value) else value for name, value in options.items()}
        changed = {name: value for name, value in shown.items() if value != defaults.get(name)}
        return changed | ({"shrink_inducing": True} if self.shrink_inducing else {})


def options_kept(task: FitTask) -> dict[str, Any]:
    """The options that an earlier step found, in place of another tuning; none if it kept none.

    Raises:
        ValueError: what was read from a file are not such options.
    """
    kept = {name.removeprefix(TUNED): value for name, value in task.kept.items() if name.startswith(TUNED)}
    found = {name: value.tolist() for name, value in kept.items()}
    check_tuned_params(found, "the options that a step kept")
    return {**found, "tuning": "off"} if found else {}


def unlabelled_inputs(task: FitTask) -> Float[ndarray, "m d"] | None:
    """Inputs drawn from the test density, except those that have labels; none if all have."""
    candidates = task.candidates
    weight = candidates.test_density / candidates.pool_density
    rows = drawn_rows(weight, TEST_INPUTS, generator=candidates.generator(task.seed, task.step))
    inputs, labelled = candidates.inputs_at(rows), {row.tobytes() for row in task.X}
    is_new = np.array([row.tobytes() not in labelled for row in inputs])
    return inputs[is_new] if is_new.any() else None
