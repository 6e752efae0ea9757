"""Local polynomial smoothing (LPS), Appendix A, as a surrogate of the learner.

With alpha = Q + 1, the learner's formulas are those of local polynomials: the local function complexity, which has the
noise in it, Eq. (eq:isotropicComplexityLPS), the optimal training density, Eq. (eq:optimalSamplingFiniteLPS), and the
relative sample size, Eq. (eq:relSampleSizeLPSApprox).
"""

import math
import os
from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from lobal.active.candidates import Candidates, Metric
from lobal.active.surrogate import FitTask, FittedSurrogate, NoiseFunction, Surrogate, noise_to_go_on_with
from lobal.baselines.lepski import MOST_BANDWIDTHS
from lobal.baselines.local_model import THRESHOLD, LocalPolynomialModel, checked_rows, fit_local_polynomials
from lobal.core.arrays import resolve_device
from lobal.core.checks import real_number, whole_number
from lobal.core.comparison import standard_error
from lobal.core.files import load_record, save_record
from lobal.core.kernels import squared_distances
from lobal.core.schema import list_of, optional, positive, read_from, real, table, text, whole
from lobal.core.stored_tensors import StoredTensors

MOST_ORDER = 99
SETTINGS = table(
    {
        "order": whole(1, MOST_ORDER),
        "threshold": positive(),
        "noise": optional(positive()),
        "functions": list_of(text()),
        "device": optional(text()),
    }
)
FIELDS = table(
    {
        "order": whole(1, MOST_ORDER),
        "threshold": positive(),
        "noise": positive(),  # of a function, the mean
        "validation_error": real(0.0),
        "standard_error": optional(real(0.0)),
    }
)


@final
class FittedLocalPolynomials(FittedSurrogate):
    """Local polynomials of the labels of a campaign."""

    is_noise_in_bandwidth = True

    def __init__(self, model: LocalPolynomialModel, validation_error: float, standard_error: float | None) -> None:
        self.model: LocalPolynomialModel = model
        self.validation_error: float = validation_error
        self.standard_error: float | None = standard_error
        self.noise: float = float(model.label_noise.mean())

    def predict(self, X: ndarray) -> ndarray:
        return self.model.predict(X)

    def local_bandwidth(self, X: ndarray) -> Float[ndarray, " n"]:
        return self.model.local_bandwidth(X)

    def noise_variance(self, X: ndarray) -> Float[ndarray, " n"]:
        return self.model.noise_variance(X)

    def metric(self, candidates: Candidates) -> Metric:
        """Distances in units of the standard deviation of every column."""
        del candidates
        return Metric(lambda X: torch.from_numpy(self.model.scaling(X)), squared_distances)

    def relative_error(self, labels: ndarray) -> float | None:
        return self.validation_error / max(float(labels.std()), np.finfo(float).tiny)

    def squared_errors(self, X: ndarray, y: ndarray) -> Float[ndarray, " n"] | None:
        if not (np.array_equal(X, self.model.X) and np.array_equal(y, self.model.y)):
            return None
        return np.asarray(np.square(y - self.model.leave_one_out()) - self.model.label_noise)

    def save(self, path: str | os.PathLike[str]) -> None:
        model = self.model
        arrays = {"X": model.X, "y": model.y, "label_noise": model.label_noise}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        fields = {
            "order": model.order,
            "threshold": model.threshold,
            "noise": self.noise if callable(model.noise) else model.noise,
            "validation_error": self.validation_error,
            "standard_error": self.standard_error,
        }
        save_record(path, {**tensors, "bandwidths": model.bandwidths.cpu()}, fields)


@final
class LocalPolynomials(Surrogate):
    """Fits local polynomials to the labels of a campaign, `ActiveLearner(space, model=LocalPolynomials(order=1))`.

    Args:
        order: Q, the degree of the polynomials, an odd number. The learner then takes the target to be Q + 1 times
            differentiable, unless it is given another smoothness.
        threshold: how many standard deviations the fits of two bandwidths may lie apart, in Lepski's method.
        noise: variance of the labels' noise, a number or a function of inputs; by default a constant, estimated.
        device: where fits are computed, "cpu" or "cuda".

    Raises:
        TypeError, ValueError: an option is of the wrong kind or out of range.

    Example:
        >>> import numpy as np, lobal
        >>> from lobal.baselines.local_polynomial import LocalPolynomials
        >>> learner = lobal.ActiveLearner(lobal.Box(0.0, 1.0, n_candidates=256), model=LocalPolynomials(order=3))
        >>> history = learner.run(lambda X: np.sin(9 * X[:, 0]), sizes=[20, 30])
        >>> learner.local_complexity().shape
        (256,)
    """

    kind: ClassVar[str] = "local_polynomials"

    def __init__(
        self,
        order: int = 1,
        *,
        threshold: float = THRESHOLD,
        noise: float | NoiseFunction | None = None,
        device: str | None = None,
    ) -> None:
        self.order = whole_number("order", order, least=1)
        if self.order % 2 == 0 or self.order > MOST_ORDER:
            raise ValueError(f"order must be an odd number up to {MOST_ORDER}, got {order}; 1 and 3 are usual")
        hint = f"{THRESHOLD} by default"
        self.threshold = real_number("threshold", threshold, above=0.0, most=1e6, hint=hint)
        hint = "give a variance, a function of inputs, or leave it out to have it estimated"
        is_given = noise is None or callable(noise)
        self.noise = noise if is_given else real_number("noise", noise, above=0.0, most=1e300, hint=hint)
        self.device = device
        resolve_device(device)

    @property
    def default_smoothness(self) -> float:
        return self.order + 1.0

    def fit(self, task: FitTask) -> FittedLocalPolynomials:
        """Importance weights count in the validation error only."""
        if task.X.ndim != 2 or task.y.ndim != 1:
            raise ValueError(
                "local polynomials learn one number from a row of numbers, got inputs and labels of shapes "
                f"{task.X.shape} and {task.y.shape}; leave the model out, or the outputs of the space"
            )
        model, left_out = fit_local_polynomials(task.X, task.y, **self._options())
        if task.validation is None:
            rows = checked_rows(len(task.y))
            error = _root_mean(np.square(task.y[rows] - left_out), task.weight[rows])
        else:
            X, y, weight = task.validation
            error = _root_mean(np.square(y - model.predict(X)), np.ones_like(y) if weight is None else weight)
        return FittedLocalPolynomials(model, *error)

    def _options(self) -> dict[str, Any]:
        return {"order": self.order, "threshold": self.threshold, "noise": self.noise, "device": self.device}

    def load(self, path: str | os.PathLike[str]) -> FittedLocalPolynomials:
        tensors, fields = load_record(path)
        with read_from(path, "a model of local polynomials"):
            FIELDS(fields, "fields")
            stored = StoredTensors(tensors)
            X, y = stored.real("X", "n d").numpy(), stored.real("y", "n").numpy()
            bandwidths = stored.ascending("bandwidths", "L")
            if len(bandwidths) > MOST_BANDWIDTHS:
                raise ValueError(f"bandwidths must be at most {MOST_BANDWIDTHS}, got {len(bandwidths)}")
            model = LocalPolynomialModel(
                order=fields["order"],
                threshold=fields["threshold"],
                X=X,
                y=y,
                label_noise=stored.real("label_noise", "n", positive=True).numpy(),
                noise=self.noise if callable(self.noise) else fields["noise"],
                bandwidths=bandwidths.to(resolve_device(self.device)),
            )
            model.predict(X[:1])
        return FittedLocalPolynomials(model, fields["validation_error"], fields["standard_error"])

    def use_device(self, device: str) -> None:
        resolve_device(device)
        self.device = device

    def to_settings(self) -> dict[str, Any]:
        """A noise that is a function cannot be saved; `functions` names it."""
        is_function = callable(self.noise)
        return {
            **self._options(),
            "noise": None if is_function else self.noise,
            "functions": ["noise"] if is_function else [],
        }

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any], n_columns: int) -> None:
        SETTINGS(settings, "surrogate")
        whole(1)(n_columns, "the number of input columns of local polynomials")
        cls(settings["order"], threshold=settings["threshold"])

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "LocalPolynomials":
        was_function = "noise" in settings["functions"]
        options = {name: settings[name] for name in ("threshold", "device")}
        return cls(settings["order"], noise=noise_to_go_on_with(settings["noise"], noise, was_function), **options)

    @property
    def changed_options(self) -> dict[str, Any]:
        defaults = LocalPolynomials()._options()
        shown = {**self._options(), "noise": "a function" if callable(self.noise) else self.noise}
        return {name: value for name, value in shown.items() if value != defaults[name]}


def _root_mean(squares: Float[ndarray, " m"], weight: Float[ndarray, " m"]) -> tuple[float, float | None]:
    """The root of the weighted mean, and its standard error."""
    if not weight.sum() > 0.0:
        weight = np.ones_like(weight)
    weighted = torch.from_numpy(squares * weight / weight.mean())
    root = math.sqrt(weighted.mean().item())
    return root, standard_error(weighted) / (2.0 * root) if root > 0.0 and len(weighted) > 1 else None
