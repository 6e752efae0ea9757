"""Fitted models in files: named tensors and JSON fields, without pickle."""

import os
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.density import KernelDensity
from lobal.core.files import load_record, save_record
from lobal.core.kernels import KERNELS, Kernel, WhitenedFeatures, kernel_named
from lobal.core.schema import read_from
from lobal.core.units import Units
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.interface import Experts, Hyperparameters
from lobal.experts.svgp import COVARIANCES, SparseExperts
from lobal.mixture.calibration import Calibration
from lobal.mixture.gate import Gate, OrdinalGate, SoftmaxGate
from lobal.mixture.model import Mixture, Ruler
from lobal.mixture.noise import NoiseModel
from lobal.mixture.options import options_from_json, options_to_json
from lobal.mixture.progress import Epoch
from lobal.mixture.stored_checks import check_fields, check_predictions, check_tensors
from lobal.mixture.tuning_record import Decision, decisions_as_json, decisions_from_json

Part = TypeVar("Part")

# Attributes of a fitted model that are saved as they are.
ATTRIBUTES = (
    "label_mean_",
    "label_scale_",
    "noise_",
    "scale_",
    "smoothness_",
    "intrinsic_dimension_",
    "validation_error_",
    "validation_standard_error_",
    "n_features_in_",
    "heavy_tails_",
    "outliers_",
    "input_units_",
    "tuned_params_",
)
# Those that files of earlier versions do not have.
LATER: dict[str, Any] = {
    "validation_standard_error_": None,
    "heavy_tails_": False,
    "outliers_": [],
    "input_units_": None,
    "tuned_params_": {},
}
# Attributes that are parts of their own in a `SavedModel`, in its order.
PARTS = ("history_", "tuning_", "mixture_", "density_", "noise_model_", "calibration_")
# Gates by their names in a file, each with the one field that is no tensor.
GATES: dict[str, tuple[type[Gate], str]] = {"softmax": (SoftmaxGate, "kappa"), "ordinal": (OrdinalGate, "n_experts")}
# In a file some tensors have other names.
IN_FILES = {"shared_bandwidth": "shared", "other_ruler": "ruler"}
# Exact experts are conditioned again when they are loaded, and kernel matrices of inducing points factorised: O(L n^3)
# work instead of L n^2 numbers in the file. On the same machine with as many threads predictions are the same to the
# bit, elsewhere up to rounding.
NOT_SAVED = ("factor", "weights")
ROOT = "covariance.root"  # of sparse experts: in files the upper triangles, row by row


class SavedModel(NamedTuple):
    """A model as it is saved."""

    options: dict[str, Any]  # arguments of the constructor
    attributes: dict[str, Any]  # `ATTRIBUTES` and the names of the input columns, "feature_names"
    history: list[Epoch]
    tuning: list[Decision]
    mixture: Mixture
    density: KernelDensity | None  # of the inputs, if the smoothness is finite
    noise: NoiseModel | None  # if it varies over the inputs
    calibration: Calibration


def saved_model(model: Any) -> SavedModel:  # noqa: ANN401 - a fitted `MixtureRegressor`, which uses this module
    """What is saved of a fitted model."""
    names = list(getattr(model, "feature_names_in_", []))
    attributes = {"feature_names": names, **{name: getattr(model, name) for name in ATTRIBUTES}}
    attributes["outliers_"] = model.outliers_.tolist()
    units = model.input_units_
    attributes["input_units_"] = None if units.is_plain else [part.tolist() for part in units]
    return SavedModel(model.get_params(deep=False), attributes, *(getattr(model, name) for name in PARTS))


def fitted_attributes(saved: SavedModel) -> dict[str, Any]:
    """The attributes of the model that `saved_model` was given."""
    named = {name: saved.attributes[name] for name in ATTRIBUTES}
    named["outliers_"] = np.asarray(named["outliers_"], dtype=np.int64)
    units = named["input_units_"]  # None if they change nothing
    named["input_units_"] = Units.plain(named["n_features_in_"]) if units is None else Units(*map(np.asarray, units))
    if names := saved.attributes["feature_names"]:
        named["feature_names_in_"] = np.asarray(names, dtype=object)
    return named | dict(zip(PARTS, saved[2:], strict=True))


def save_model(path: str | os.PathLike[str], model: SavedModel) -> None:
    """Write one file."""
    save_record(path, *model_record(model))


def model_record(model: SavedModel) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and fields of a model, as a file holds them."""
    tensors, mixture = mixture_tensors(model.mixture)
    fields = {
        "mixture": mixture,
        "parameters": options_to_json(model.options),
        "history": model.history,
        "tuning": decisions_as_json(model.tuning),
        **model.attributes,
    }
    for name, part in (("density", model.density), ("calibration", model.calibration)):
        tensors |= _tensors_under(name, part)
    return tensors | noise_tensors(model.noise), fields


def load_model(path: str | os.PathLike[str], device: torch.device) -> SavedModel:
    """The model in a file, also of earlier versions.

    Raises:
        ValueError: it is not that of a model, or does not predict numbers; names the file.
    """
    tensors, fields = load_record(path)
    with read_from(path, "a model"):
        return model_of_record(tensors, fields, device)


def model_of_record(tensors: dict[str, Tensor], fields: dict[str, Any], device: torch.device) -> SavedModel:
    """The model that `model_record` was given, checked.

    Raises:
        ValueError: they are not those of a model, or it does not predict numbers.
    """
    check_fields(fields)
    check_tensors(tensors, fields)
    saved = _assembled({name: tensor.to(device) for name, tensor in tensors.items()}, fields)
    check_predictions(saved.mixture, saved.noise, saved.density, saved.attributes)
    return saved


def _assembled(tensors: dict[str, Tensor], fields: dict[str, Any]) -> SavedModel:
    options, density = options_from_json(fields["parameters"]), _under("density", tensors)
    calibration = _under("calibration", tensors)
    # Format 1 has the smoothness among the options only; models of earlier versions are not calibrated.
    fields = {"smoothness_": options.get("smoothness"), **LATER, **fields}
    return SavedModel(
        options,
        {name: _real(fields[name], name) for name in (*ATTRIBUTES, "feature_names")},
        [Epoch(*epoch) for epoch in fields["history"]],
        decisions_from_json(fields.get("tuning", "[]")),
        mixture_from(tensors, fields["mixture"]),
        _part(KernelDensity, density) if density else None,
        noise_from(tensors),
        _part(Calibration, calibration) if calibration else Calibration.none(),
    )


def _real(value: Any, name: str) -> Any:  # noqa: ANN401 - an attribute
    """The attribute, where it is a real number as one: JSON does not tell 1 from 1.0."""
    return float(value) if type(value) is int and name not in ("n_features_in_", "heavy_tails_") else value


def mixture_tensors(mixture: Mixture) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors by name, and the fields that say how to read them."""
    experts, ruler = mixture.experts, mixture.other_ruler
    gates = {"gate": mixture.gate} | ({} if ruler is None else {"ruler": ruler.gate})
    if isinstance(experts, SparseExperts):
        covariance = next(name for name, each in COVARIANCES.items() if isinstance(experts.covariance, each))
        expert_fields = {"kind": "sparse", "covariance": covariance, "kernel": _name(experts.features.kernel)}
    else:
        assert isinstance(experts, ExactExperts)
        expert_fields = {"kind": "exact", "kernel": _name(experts.kernel)}
    gate_fields = {name: _gate_fields(gate) for name, gate in gates.items()}
    tensors, root = _tensors_of(mixture), f"experts.{ROOT}"
    if root in tensors:
        tensors[root] = _triangle(tensors[root])
    return tensors, {**gate_fields, "experts": expert_fields}


def mixture_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> Mixture:
    """The mixture that `mixture_tensors` was given."""
    experts = _experts_from(_under("experts", tensors), fields["experts"])
    gate, ruler = _gate_from(_under("gate", tensors), fields["gate"]), None
    if found := _under("ruler", tensors):
        ruler = _part(Ruler, found, gate=_gate_from(_under("gate", found), fields["ruler"]))
    return _part(Mixture, tensors, experts=experts, gate=gate, other_ruler=ruler)


def noise_tensors(noise: NoiseModel | None) -> dict[str, Tensor]:
    """The tensors of a noise model; those of its features are not apart from the others."""
    return {name.replace(".features.", "."): tensor for name, tensor in _tensors_under("noise", noise).items()}


def noise_from(tensors: dict[str, Tensor]) -> NoiseModel | None:
    """The noise model that `noise_tensors` was given."""
    found = _under("noise", tensors)
    return _part(NoiseModel, found, features=_features_from(found, "gaussian")) if found else None


def _gate_fields(gate: Gate) -> dict[str, Any]:
    kind, own = next((kind, own) for kind, (each, own) in GATES.items() if isinstance(gate, each))
    return {"kind": kind, "kernel": _name(gate.features.kernel), own: getattr(gate, own)}


def _gate_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> Gate:
    features, (kind, own) = _features_from(_under("features", tensors), fields["kernel"]), GATES[fields["kind"]]
    return _part(kind, tensors, features=features, **{own: fields[own]})


def _experts_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> Experts:
    hyperparameters = Hyperparameters(*(tensors[name] for name in Hyperparameters._fields))
    if fields["kind"] == "exact":
        return exact_experts(
            tensors["inputs"],
            tensors["labels"],
            hyperparameters,
            bandwidths=tensors["bandwidths"],
            shared_bandwidth=tensors["shared"],
            kernel=kernel_named(fields["kernel"]),
        )
    features = _features_from(_under("features", tensors), fields["kernel"])
    if ROOT in tensors:
        tensors = {**tensors, ROOT: _square(tensors[ROOT], len(features.points))}
    covariance = COVARIANCES[fields["covariance"]](**_under("covariance", tensors))
    return _part(SparseExperts, tensors, features=features, hyperparameters=hyperparameters, covariance=covariance)


def _features_from(tensors: dict[str, Tensor], kernel: str) -> WhitenedFeatures:
    if "factor" in tensors:
        return _part(WhitenedFeatures, tensors, kernel=kernel_named(kernel))
    shape = {"bandwidths": tensors["bandwidths"], "shared_bandwidth": tensors["shared"]}
    return WhitenedFeatures.at(tensors["points"], **shape, kernel=kernel_named(kernel))


def _name(kernel: Kernel) -> str:
    return next(name for name, known in KERNELS.items() if known is kernel)


def _tensors_of(part: object) -> dict[str, Tensor]:
    """Copies of a part's tensors by their names in a file; the file format has no tensors that share memory."""
    found: dict[str, Tensor] = {}
    for field in fields(part):  # type: ignore[arg-type]  # a dataclass
        value, name = getattr(part, field.name), IN_FILES.get(field.name, field.name)
        if isinstance(value, Tensor) and not (name in NOT_SAVED and _is_computed_again(part)):
            found[name] = value.detach().cpu().clone()
        elif isinstance(value, Hyperparameters):
            found |= {each: tensor.detach().cpu().clone() for each, tensor in value._asdict().items()}
        elif is_dataclass(value):
            found |= _tensors_under(name, value)
    return found


def _is_computed_again(part: object) -> bool:
    """Whether loading computes the same factors, to the bit, from what else is saved."""
    if not isinstance(part, WhitenedFeatures):
        return isinstance(part, ExactExperts)
    shape = {"bandwidths": part.bandwidths, "shared_bandwidth": part.shared_bandwidth}
    return torch.equal(WhitenedFeatures.at(part.points, **shape, kernel=part.kernel).factor, part.factor)


def _triangle(root: Float[Tensor, "L m m"]) -> Float[Tensor, "L k"]:
    """The numbers on and above the diagonals, which are all that count."""
    rows, columns = torch.triu_indices(*root.shape[1:])
    return root[:, rows, columns]


def _square(root: Tensor, m: int) -> Float[Tensor, "L m m"]:
    """Upper triangular matrices from their triangles; those of earlier versions are matrices already."""
    if root.dim() > 2:
        return root
    full = root.new_zeros(len(root), m, m)
    rows, columns = torch.triu_indices(m, m)
    full[:, rows, columns] = root
    return full


def _tensors_under(prefix: str, part: object | None) -> dict[str, Tensor]:
    return {} if part is None else {f"{prefix}.{name}": tensor for name, tensor in _tensors_of(part).items()}


def _part(kind: type[Part], tensors: dict[str, Tensor], **others: Any) -> Part:  # noqa: ANN401 - its other fields
    """A part from its tensors in a file and what else it consists of."""
    names = {field.name for field in fields(kind)} - others.keys()  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: tensors[IN_FILES.get(name, name)] for name in names}, **others)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
