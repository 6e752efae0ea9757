"""Fitted models in files: named tensors and JSON fields, without pickle."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lobal.core.density import KernelDensity
from lobal.core.files import load_record, save_record
from lobal.core.kernels import KERNELS, WhitenedFeatures, kernel_named
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.interface import Experts, Hyperparameters
from lobal.experts.svgp import (
    DiagonalCovariance,
    FullCovariance,
    InducingCovariance,
    SparseExperts,
    ZeroCovariance,
)
from lobal.mixture.gate import Gate, OrdinalGate, SoftmaxGate
from lobal.mixture.model import Mixture
from lobal.mixture.noise import NoiseModel
from lobal.mixture.options import options_from_json, options_to_json
from lobal.mixture.progress import Epoch
from lobal.mixture.tuning_record import Decision, decisions_as_json, decisions_from_json

# Attributes of a fitted model that are saved as they are.
ATTRIBUTES = (
    "label_mean_",
    "label_scale_",
    "noise_",
    "scale_",
    "smoothness_",
    "intrinsic_dimension_",
    "validation_error_",
    "n_features_in_",
)
COVARIANCES: dict[str, type[InducingCovariance]] = {
    "zero": ZeroCovariance,
    "diagonal": DiagonalCovariance,
    "full": FullCovariance,
}
# Exact experts are conditioned again when they are loaded: O(L n^3) work instead of L n^2 numbers in the file. On the
# same machine with as many threads predictions are the same to the bit, elsewhere up to rounding.
EXACT_TENSORS = ("inputs", "labels", "bandwidths", "shared_bandwidth")
FEATURE_TENSORS = ("points", "bandwidths", "shared_bandwidth", "factor")
NOISE_TENSORS = ("mean", "scale", "whitened_mean", "lowest", "highest")
# In a file some tensors have other names.
IN_FILES = {"shared_bandwidth": "shared"}


class FittedParts(NamedTuple):
    """The parts of a fitted model that consist of tensors."""

    mixture: Mixture
    density: KernelDensity | None  # of the inputs, if the smoothness is finite
    noise: NoiseModel | None  # if it varies over the inputs


class SavedModel(NamedTuple):
    """A model as it is saved."""

    options: dict[str, Any]  # arguments of the constructor
    attributes: dict[str, Any]  # `ATTRIBUTES` and the names of the input columns, "feature_names"
    history: list[Epoch]
    tuning: list[Decision]
    parts: FittedParts


def save_model(path: str | os.PathLike[str], model: SavedModel) -> None:
    """Write one file."""
    tensors, mixture = parts_tensors(model.parts)
    fields = {
        "mixture": mixture,
        "parameters": options_to_json(model.options),
        "history": model.history,
        "tuning": decisions_as_json(model.tuning),
        **model.attributes,
    }
    save_record(path, tensors, fields)


def load_model(path: str | os.PathLike[str], device: torch.device) -> SavedModel:
    """The model in a file, also of earlier versions."""
    tensors, fields = load_record(path)
    options = options_from_json(fields["parameters"])
    fields = {"smoothness_": options.get("smoothness"), **fields}  # format 1 has it among the options only
    return SavedModel(
        options,
        {name: fields[name] for name in (*ATTRIBUTES, "feature_names")},
        [Epoch(*epoch) for epoch in fields["history"]],
        decisions_from_json(fields.get("tuning", "[]")),
        parts_from({name: tensor.to(device) for name, tensor in tensors.items()}, fields["mixture"]),
    )


def parts_tensors(parts: FittedParts) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors by name, and the fields that say how to read them."""
    tensors, fields = mixture_tensors(parts.mixture)
    if parts.density is not None:
        density = {"centres": parts.density.centres.cpu(), "widths": parts.density.widths.cpu()}
        tensors |= _prefixed("density", density)
    if parts.noise is not None:
        tensors |= _prefixed("noise", _noise_tensors(parts.noise))
    return tensors, fields


def parts_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> FittedParts:
    """The parts that `parts_tensors` was given."""
    density, noise = _under("density", tensors), _under("noise", tensors)
    return FittedParts(
        mixture_from(tensors, fields),
        KernelDensity(**density) if density else None,
        _noise_from(noise) if noise else None,
    )


def mixture_tensors(mixture: Mixture) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The same for the mixture alone."""
    tensors = {"bandwidths": mixture.bandwidths, "shared": mixture.shared_bandwidth}
    gate_tensors, gate_fields = _gate_tensors(mixture.gate)
    tensors |= _prefixed("gate", gate_tensors)
    expert_tensors, expert_fields = _experts_tensors(mixture.experts)
    tensors |= _prefixed("experts", expert_tensors)
    # The file format has no tensors that share memory.
    tensors = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    return tensors, {"gate": gate_fields, "experts": expert_fields}


def mixture_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> Mixture:
    """The mixture that `mixture_tensors` was given."""
    return Mixture(
        experts=_experts_from(_under("experts", tensors), fields["experts"]),
        gate=_gate_from(_under("gate", tensors), fields["gate"]),
        bandwidths=tensors["bandwidths"],
        shared_bandwidth=tensors["shared"],
    )


def _gate_tensors(gate: Gate) -> tuple[dict[str, Tensor], dict[str, Any]]:
    match gate:
        case SoftmaxGate():
            own = {"scale": gate.scale, "means": gate.means, "whitened_mean": gate.whitened_mean}
            fields = {"kind": "softmax", "kernel": _name(gate.features), "kappa": gate.kappa}
        case OrdinalGate():
            own = {"scale": gate.scale, "mean": gate.mean, "whitened_mean": gate.whitened_mean}
            fields = {"kind": "ordinal", "kernel": _name(gate.features), "n_experts": gate.n_experts}
        case _:
            raise TypeError(
                f"a gate of type {type(gate).__name__} cannot be saved; expected a softmax or an ordinal gate"
            )
    return _prefixed("features", _attributes(gate.features, FEATURE_TENSORS)) | own, fields


def _gate_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> Gate:
    features = _features_from(_under("features", tensors), fields["kernel"])
    scale, whitened_mean = tensors["scale"], tensors["whitened_mean"]
    if fields["kind"] == "ordinal":
        return OrdinalGate(
            features=features,
            scale=scale,
            mean=tensors["mean"],
            whitened_mean=whitened_mean,
            n_experts=fields["n_experts"],
        )
    return SoftmaxGate(
        features=features, scale=scale, means=tensors["means"], whitened_mean=whitened_mean, kappa=fields["kappa"]
    )


def _experts_tensors(experts: Experts) -> tuple[dict[str, Tensor], dict[str, Any]]:
    match experts:
        case SparseExperts():
            covariance = next(name for name, kind in COVARIANCES.items() if isinstance(experts.covariance, kind))
            tensors = experts.hyperparameters._asdict() | {"whitened_mean": experts.whitened_mean}
            tensors |= _prefixed("features", _attributes(experts.features, FEATURE_TENSORS))
            tensors |= _prefixed("covariance", experts.covariance.parameters)
            return tensors, {"kind": "sparse", "covariance": covariance, "kernel": _name(experts.features)}
        case ExactExperts():
            tensors = experts.hyperparameters._asdict() | _attributes(experts, EXACT_TENSORS)
            return tensors, {"kind": "exact", "kernel": _name(experts)}
    raise TypeError(f"experts of type {type(experts).__name__} cannot be saved; expected sparse or exact ones")


def _experts_from(tensors: dict[str, Tensor], fields: dict[str, Any]) -> Experts:
    hyperparameters = Hyperparameters(*(tensors.pop(name) for name in Hyperparameters._fields))
    if fields["kind"] == "exact":
        X, y, bandwidths, shared = _chosen(tensors, EXACT_TENSORS).values()
        kernel = kernel_named(fields["kernel"])
        return exact_experts(X, y, hyperparameters, bandwidths=bandwidths, shared_bandwidth=shared, kernel=kernel)
    return SparseExperts(
        features=_features_from(_under("features", tensors), fields["kernel"]),
        hyperparameters=hyperparameters,
        whitened_mean=tensors["whitened_mean"],
        covariance=COVARIANCES[fields["covariance"]](**_under("covariance", tensors)),
    )


def _noise_tensors(noise: NoiseModel) -> dict[str, Tensor]:
    tensors = _attributes(noise, NOISE_TENSORS) | _attributes(noise.features, FEATURE_TENSORS)
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def _noise_from(tensors: dict[str, Tensor]) -> NoiseModel:
    return NoiseModel(features=_features_from(tensors, "gaussian"), **_chosen(tensors, NOISE_TENSORS))


def _features_from(tensors: dict[str, Tensor], kernel: str) -> WhitenedFeatures:
    return WhitenedFeatures(kernel=kernel_named(kernel), **_chosen(tensors, FEATURE_TENSORS))


def _attributes(owner: object, names: Sequence[str]) -> dict[str, Tensor]:
    """Attributes by their names in a file."""
    return {IN_FILES.get(name, name): getattr(owner, name) for name in names}


def _chosen(tensors: dict[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Tensors of a file by the names of the attributes."""
    return {name: tensors[IN_FILES.get(name, name)] for name in names}


def _name(owner: WhitenedFeatures | ExactExperts) -> str:
    return next(name for name, kernel in KERNELS.items() if kernel is owner.kernel)


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
