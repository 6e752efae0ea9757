"""What the file of a model must hold: fields, tensors that fit together, and predictions that are numbers."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.checks import shown
from lobal.core.density import KernelDensity
from lobal.core.kernels import KERNELS
from lobal.core.schema import FINITE, TINY, flag, list_of, optional, positive, real, table, text, whole
from lobal.core.stored_tensors import StoredTensors, check_memory
from lobal.core.superior_density import local_complexity
from lobal.experts.svgp import COVARIANCES
from lobal.mixture.model import Mixture
from lobal.mixture.noise import NoiseModel
from lobal.mixture.tuned_params import check_tuned_params

LARGEST_LOG = 200.0  # of variances
NOISE_LOGS = ("lowest", "highest", "mean")
# The Cholesky factor of a kernel matrix has rows of length one, up to jitter, and no smaller diagonal than its root.
LENGTHS, SMALLEST_DIAGONAL = (0.9, 1.1), 1e-8
LOOKED_AT, FAR = 16, 1e3  # points of the gate that predictions are checked at, and by how many spreads far from them


def _number(value: object, name: str) -> None:
    """Any number: a training that diverged has NaN in its history."""
    if not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {shown(value)}")


_ERROR, _KERNEL = real(0.0, FINITE, words=(None,)), text(*KERNELS)
_GATE = table({"kind": text("softmax", "ordinal"), "kernel": _KERNEL}, kappa=whole(1), n_experts=whole(1))
_EXPERTS = table({"kind": text("sparse", "exact"), "kernel": _KERNEL}, covariance=text(*COVARIANCES))
FIELDS = table(
    {
        "mixture": table({"gate": _GATE, "experts": _EXPERTS}, ruler=_GATE),
        "parameters": table({}),
        "history": list_of(list_of(_number, 5)),
        "label_mean_": real(-FINITE, FINITE),
        "label_scale_": real(TINY, FINITE),
        "noise_": real(0.0, FINITE),
        "scale_": real(TINY, FINITE),
        "intrinsic_dimension_": real(1e-6, 1e6),
        "validation_error_": _ERROR,
        "n_features_in_": whole(1),
        "feature_names": list_of(text()),
    },
    smoothness_=positive(words=(math.inf,)),
    validation_standard_error_=_ERROR,
    heavy_tails_=flag,
    outliers_=list_of(whole()),
    input_units_=optional(list_of(list_of(real(-FINITE, FINITE)), 2)),
    tuning=text(),
    tuned_params_=check_tuned_params,
)


def check_fields(fields: Mapping[str, Any]) -> None:
    """Refuse fields of a file that no model has."""
    FIELDS(fields, "fields")
    names, d = fields["feature_names"], fields["n_features_in_"]
    if len(names) not in (0, d) or len({*names}) < len(names):
        raise ValueError(f"fields.feature_names must be none or {d} different ones, got {names[:8]}")
    offset, unit = fields.get("input_units_") or ([0.0] * d, [1.0] * d)
    if not len(offset) == len(unit) == d or min(unit) < 0.0:
        raise ValueError(f"fields.input_units_ must be {d} offsets and {d} units of at least zero, got {shown(unit)}")


def check_tensors(tensors: Mapping[str, Tensor], fields: Mapping[str, Any]) -> None:
    """Refuse tensors of a file that do not fit the fields, or each other."""
    stored = StoredTensors(tensors, d=fields["n_features_in_"])
    stored.check_one_type(but="calibration.")  # none at all is in single precision
    stored.ascending("bandwidths", "L")
    stored.bandwidth("shared", "d")
    mixture = fields["mixture"]
    (_check_exact if mixture["experts"]["kind"] == "exact" else _check_sparse)(stored, mixture["experts"])
    _check_gate(stored, "gate", mixture["gate"], "L")
    if any(name.startswith("ruler.") for name in tensors):
        stored.ascending("ruler.bandwidths", "R")
        stored.bandwidth("ruler.shared", "d")
        if "ruler" not in mixture:
            raise ValueError("fields.mixture must have the entry 'ruler', as there are tensors of it")
        _check_gate(stored, "ruler.gate", mixture["ruler"], "R")
    _check_others(stored)


def _check_sparse(stored: StoredTensors, fields: Mapping[str, Any]) -> None:
    """Sparse experts."""
    _check_features(stored, "experts.features", bandwidths="L", points="m")
    _check_hyperparameters(stored)
    stored.real("experts.whitened_mean", "L m")
    m = stored.sizes["m"]
    stored.sizes["k"] = m * (m + 1) // 2
    parts = {"zero": None, "diagonal": ("log_variance", ("L m",)), "full": ("root", ("L k", "L m m"))}
    if "covariance" not in fields:
        raise ValueError("fields.mixture.experts must have the entry 'covariance', as they are sparse")
    if (part := parts[fields["covariance"]]) is not None:
        most = LARGEST_LOG if part[0] == "log_variance" else 1e60
        stored.real(f"experts.covariance.{part[0]}", *part[1], least=-most, most=most)


def _check_exact(stored: StoredTensors, fields: Mapping[str, Any]) -> None:
    """Exact experts."""
    del fields
    stored.real("experts.inputs", "n d")
    stored.real("experts.labels", "n")
    stored.ascending("experts.bandwidths", "L")
    stored.bandwidth("experts.shared", "d")
    _check_hyperparameters(stored, "n")
    check_memory(stored.sizes["L"] * stored.sizes["n"] ** 2, "exact experts")


def _check_hyperparameters(stored: StoredTensors, labels: str = "labels") -> None:
    stored.real("experts.mean", "")
    stored.real("experts.scale", "", positive=True)
    stored.real("experts.noise", "", labels, least=0.0)


def _check_gate(stored: StoredTensors, prefix: str, fields: Mapping[str, Any], experts: str) -> None:
    points, n = f"{prefix}_points", stored.sizes[experts]
    _check_features(stored, f"{prefix}.features", bandwidths="1", points=points)
    stored.real(f"{prefix}.scale", "", positive=True)
    if fields["kind"] == "softmax":
        stored.real(f"{prefix}.means", experts)
        stored.real(f"{prefix}.whitened_mean", f"{experts} {points}")
        whole(1, n)(fields.get("kappa"), f"kappa of {prefix}")
    else:
        stored.real(f"{prefix}.mean", "")
        stored.real(f"{prefix}.whitened_mean", points)
        whole(n, n)(fields.get("n_experts"), f"n_experts of {prefix}")


def _check_features(stored: StoredTensors, prefix: str, *, bandwidths: str, points: str) -> None:
    stored.real(f"{prefix}.points", f"{points} d")
    stored.ascending(f"{prefix}.bandwidths", bandwidths)
    stored.bandwidth(f"{prefix}.shared", "d")
    check_memory(stored.tensors[f"{prefix}.bandwidths"].numel() * stored.sizes[points] ** 2, prefix)
    if f"{prefix}.factor" in stored:
        factor = stored.real(f"{prefix}.factor", f"{bandwidths} {points} {points}")
        lengths = factor.tril().square().sum(-1)
        diagonal = factor.diagonal(dim1=-2, dim2=-1)
        if lengths.min() < LENGTHS[0] or lengths.max() > LENGTHS[1] or diagonal.min() < SMALLEST_DIAGONAL:
            raise ValueError(f"{prefix}.factor must be that of a kernel matrix, with rows of length one")


def _check_others(stored: StoredTensors) -> None:
    """Density of the inputs, noise model and calibration, where there are any."""
    parts = {name.partition(".")[0] for name in stored.tensors}
    if "density" in parts:
        stored.real("density.centres", "centres d")
        stored.real("density.widths", "d", positive=True)
    if "noise" in parts:
        _check_features(stored, "noise", bandwidths="1", points="noise_points")
        stored.real("noise.scale", "", positive=True)
        stored.real("noise.whitened_mean", "noise_points")
        ends = [stored.real(f"noise.{name}", "", least=-LARGEST_LOG, most=LARGEST_LOG) for name in NOISE_LOGS]
        if not ends[0] <= ends[1]:
            raise ValueError(f"noise.lowest must not lie above noise.highest, got {ends[0]} and {ends[1]}")
    if "calibration" in parts:
        scores = stored.real("calibration.scores", "scores", least=0.0)
        stored.real("calibration.weights", "scores", positive=True)
        if not (scores.diff() >= 0).all():
            raise ValueError("calibration.scores must ascend")


def check_predictions(
    mixture: Mixture, noise: NoiseModel | None, density: KernelDensity | None, attributes: Mapping[str, Any]
) -> None:
    """Refuse a model that predicts NaN, at points of its gate or far from them."""
    X = _some_inputs(mixture.gate.features.points)
    mean, variance = mixture.predict(X)
    width = mixture.ruler.local_bandwidth(X)
    p = torch.ones_like(width) if density is None else density(X).clamp_min(density.floor)
    alpha, delta = attributes["smoothness_"], attributes["intrinsic_dimension_"]
    found = {
        "predictions": attributes["label_scale_"] * mean,
        "variances": attributes["label_scale_"] ** 2 * variance,
        "local bandwidths": width.log(),
        "local complexities": local_complexity(width, p, smoothness=alpha, dimension=delta).log(),
        "noise": torch.zeros(1) if noise is None else noise(X),
    }
    for name, values in found.items():
        if not torch.isfinite(values).all():
            raise ValueError(f"its {name} must be finite and above zero, got NaN or infinity")


def _some_inputs(points: Float[Tensor, "m d"]) -> Float[Tensor, "k d"]:
    rows = torch.linspace(0, len(points) - 1, min(len(points), LOOKED_AT)).long().to(points.device)
    centre, spread = points.mean(0), points.std(0, correction=0)
    return torch.cat([points[rows], centre[None], (centre + FAR * spread)[None], (centre - FAR * spread)[None]])
