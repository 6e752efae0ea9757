"""What the paper's gate learns from: a gate set of further labels, or the labels of the experts themselves."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.molecules.field.labels import LabelledMolecules
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import Trajectory


class GateSet(NamedTuple):
    """Further labelled configurations, that the paper's gate alone learns from."""

    trajectory: Trajectory
    weight: Float[Tensor, " n"] | None = None  # q / p, importance weights; none where they follow q


class GateLabels(NamedTuple):
    """Labelled configurations that the gate learns from, and their importance weights."""

    data: LabelledMolecules
    weight: Float[Tensor, " n"]


def check_gate_labels(settings: ForceFieldSettings, gate_set: GateSet | None, weight: Tensor | None) -> None:
    """Refuse labels and weights that nothing learns from."""
    for name, part in (("gate_set", gate_set), ("weight", weight)):
        if part is not None and settings.softmax_gate is None:
            raise ValueError(f"{name} is for the paper's gate; set softmax_gate=SoftmaxGateOptions(), or leave it out")
    if gate_set is not None and weight is not None:
        raise ValueError("the gate learns from gate_set, which has weights of its own; leave weight out")


def labels_of_gate(data: LabelledMolecules, gate_set: GateSet | None, weight: Tensor | None) -> GateLabels:
    """The gate set or, without one, the labels of the experts; weights of one where there are none.

    Raises:
        ValueError: weights do not fit.
    """
    if gate_set is not None:
        data, weight = gate_set.trajectory.labelled(data.geometry.values.device), gate_set.weight
    values = data.geometry.values
    if weight is None:
        return GateLabels(data, torch.ones_like(values[:, 0]))
    if weight.shape != values.shape[:1] or not ((weight >= 0.0) & torch.isfinite(weight)).all() or not weight.any():
        raise ValueError(
            f"importance weights must be one number for each of {len(values)} configurations, not negative and not all "
            f"zero, got shape {tuple(weight.shape)}; pass q / p"
        )
    return GateLabels(data, weight.to(values))
