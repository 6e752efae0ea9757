"""One `MixtureRegressor` for each of several outputs, or for each principal component of a curve."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike
from torch import Tensor

from lobal.active.outputs import Curve, Outputs, label_width
from lobal.core.arrays import resolve_device
from lobal.core.schema import FINITE
from lobal.core.stored_tensors import StoredTensors
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.storage import model_of_record, model_record, saved_model


class CurveBasis(NamedTuple):
    """The principal components of curves of T points."""

    mean: Float[ndarray, " T"]
    components: Float[ndarray, "k T"]  # orthonormal
    left_out: Float[ndarray, " T"]  # variance that the components leave out

    @staticmethod
    def of(curves: Float[ndarray, "n T"], share: float) -> "CurveBasis":
        """As few components as explain this share of the variance, at least one."""
        mean = curves.mean(axis=0)
        centred = curves - mean
        sizes, components = np.linalg.svd(centred, full_matrices=False)[1:]
        explained = np.cumsum(np.square(sizes))
        k = 1 + int((explained < share * explained[-1]).sum())
        components = np.ascontiguousarray(components[: min(k, len(components))])
        rest = centred - centred @ components.T @ components
        return CurveBasis(mean, components, np.square(rest).mean(axis=0))

    def scores(self, curves: Float[ndarray, "n T"]) -> Float[ndarray, "n k"]:
        """The coordinates of curves."""
        return np.asarray((curves - self.mean) @ self.components.T)

    def curves(self, scores: Float[ndarray, "n k"]) -> Float[ndarray, "n T"]:
        """The curves of these coordinates."""
        return np.asarray(self.mean + scores @ self.components)

    def deviations(self, of_scores: Float[ndarray, "n k"]) -> Float[ndarray, "n T"]:
        """Standard deviations of the curves, those of independent scores and of what is left out together."""
        return np.asarray(np.sqrt(np.square(of_scores) @ np.square(self.components) + self.left_out))


@final
class OutputModels:
    """What a learner of several outputs has fitted, for the user.

    Attributes:
        models: a `MixtureRegressor` for each output by its name, or for each principal component of a curve; outputs
            with fewer than ten labels have none yet.
        outputs: names, weights and units.
    """

    def __init__(self, outputs: Outputs, models: Mapping[str, MixtureRegressor], basis: CurveBasis | None) -> None:
        self.outputs, self.models, self.basis = outputs, dict(models), basis

    @property
    def names(self) -> list[str]:
        """Of all outputs, or of the components of a curve."""
        return target_names(self.outputs, self.basis)

    def predict(
        self, X: ArrayLike, return_std: bool = False, include_noise: bool = True
    ) -> Float[ndarray, "n m"] | tuple[Float[ndarray, "n m"], Float[ndarray, "n m"]]:
        """Predicted outputs, one column each, or curves, one a row; NaN for outputs that have no model yet.

        Args:
            X: inputs, (n, d).
            return_std: whether to return standard deviations as well.
            include_noise: whether these are those of a new label or of the function.

        Returns:
            The mean, (n, m), or with `return_std` mean and standard deviation, (n, m) both.
        """
        n = len(np.asarray(X))
        mean, deviation = np.full((2, n, len(self.names)), np.nan)
        for column, name in enumerate(self.names):
            if (model := self.models.get(name)) is None:
                continue
            if return_std:
                mean[:, column], deviation[:, column] = model.predict(X, return_std=True, include_noise=include_noise)
            else:
                mean[:, column] = model.predict(X)
        if self.basis is not None:
            mean, deviation = self.basis.curves(mean), self.basis.deviations(deviation)
        return (mean, deviation) if return_std else mean

    def intervals(self, X: ArrayLike, probability: float) -> tuple[Float[ndarray, "n m"], Float[ndarray, "n m"]] | None:
        """Lower and upper ends for each output, NaN where it has no model yet; none of curves."""
        if self.basis is not None:
            return None
        lower, upper = np.full((2, len(np.asarray(X)), len(self.names)), np.nan)
        for column, name in enumerate(self.names):
            if (model := self.models.get(name)) is not None:
                _, lower[:, column], upper[:, column] = model.predict(X, return_interval=probability)
        return lower, upper


def target_names(outputs: Outputs, basis: CurveBasis | None) -> list[str]:
    """What is modelled, in order: outputs, or components of a curve."""
    if isinstance(outputs, Curve):
        return [f"{outputs.name}, component {k + 1}" for k in range(0 if basis is None else len(basis.components))]
    return [output.name for output in outputs]


def models_record(models: OutputModels) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All models as the tensors and fields of one file."""
    tensors: dict[str, Tensor] = {}
    fields: list[dict[str, Any] | None] = []
    for place, name in enumerate(models.names):
        found = models.models.get(name)
        if found is None:
            fields.append(None)
            continue
        own, entries = model_record(saved_model(_without_function(found)))
        tensors |= {f"{place}.{key}": tensor for key, tensor in own.items()}
        fields.append(entries)
    if models.basis is not None:
        tensors |= {f"curve.{key}": torch.tensor(part) for key, part in models.basis._asdict().items()}
    return tensors, {"models": fields}


def models_from_record(
    tensors: Mapping[str, Tensor], fields: Mapping[str, Any], outputs: Outputs, device: str | None
) -> OutputModels:
    """The models that `models_record` took apart.

    Raises:
        ValueError: tensors or fields are not those of as many models.
    """
    basis = _basis_from(tensors, label_width(outputs)) if isinstance(outputs, Curve) else None
    names, entries = target_names(outputs, basis), fields["models"]
    if len(entries) != len(names):
        raise ValueError(f"fields.models must be {len(names)} models, as there are outputs, got {len(entries)}")
    models = {}
    for place, (name, own) in enumerate(zip(names, entries, strict=True)):
        if own is not None:
            start = f"{place}."
            under = {key.removeprefix(start): part for key, part in tensors.items() if key.startswith(start)}
            saved = model_of_record(under, own, resolve_device(device))
            models[name] = MixtureRegressor.from_saved(saved, device)
    return OutputModels(outputs, models, basis)


def _basis_from(tensors: Mapping[str, Tensor], n_points: int) -> CurveBasis:
    stored = StoredTensors(tensors, T=n_points)
    mean = stored.real("curve.mean", "T", least=-FINITE, most=FINITE)
    components = stored.real("curve.components", "k T", least=-1.001, most=1.001)
    left_out = stored.real("curve.left_out", "T", least=0.0, most=FINITE)
    return CurveBasis(mean.numpy(), components.numpy(), left_out.numpy())


def _without_function(model: MixtureRegressor) -> MixtureRegressor:
    """The model as it can be saved: a function as noise is not data."""
    if not callable(model.noise):
        return model
    plain: MixtureRegressor = copy.copy(model)
    plain.noise = None
    return plain
