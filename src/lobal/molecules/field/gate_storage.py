"""The gates of force fields in files: their tensors by name, but for the permutations, which are the force field's."""

import torch
from torch import Tensor

from lobal.core.stored_tensors import StoredTensors, check_memory
from lobal.mixture.analytic.gate_fit import Channel
from lobal.molecules.field.gate import ForceGate, GateFeatures, MolecularGate
from lobal.molecules.field.softmax_gate import SoftmaxMolecularGate

ORDINAL, SOFTMAX = GATE_KINDS = ("ordinal", "softmax")


def gate_kind(gate: ForceGate) -> str:
    """The name of the gate's kind in files."""
    return SOFTMAX if isinstance(gate, SoftmaxMolecularGate) else ORDINAL


def gate_tensors(gate: ForceGate) -> dict[str, Tensor]:
    """The tensors of a gate."""
    common = {"gate.points": gate.features.points, "gate.width": gate.features.width, "gate.scale": gate.scale}
    if isinstance(gate, SoftmaxMolecularGate):
        own = {"gate.means": gate.means, "gate.whitened_mean": gate.whitened_mean}
        return common | own | {"gate.kappa": torch.tensor([gate.kappa])}
    assert isinstance(gate, MolecularGate)
    return common | {"gate.mean": gate.channel.mean, "gate.whitened_mean": gate.channel.whitened_mean}


def check_gate(kind: str, stored: StoredTensors) -> None:
    """Refuse tensors of a gate that do not fit together; sizes g, D and L are the force field's."""
    sizes = stored.sizes
    m = len(stored.real("gate.points", "m D"))
    rows = sizes["L"] if kind == SOFTMAX else 1
    check_memory(m * m + rows * m * sizes["g"] * sizes["D"], "its gate")
    stored.real("gate.width", "", positive=True)
    stored.real("gate.scale", "", positive=True)
    if kind == SOFTMAX:
        stored.real("gate.means", "L")
        stored.real("gate.whitened_mean", "L m")
        stored.whole("gate.kappa", "1", least=1, most=sizes["L"])
    else:
        stored.real("gate.mean", "")
        stored.real("gate.whitened_mean", "m")


def gate_from(kind: str, tensors: dict[str, Tensor]) -> ForceGate:
    """The gate of checked tensors."""
    points, width, scale, whitened_mean = (
        tensors[f"gate.{name}"] for name in ("points", "width", "scale", "whitened_mean")
    )
    features = GateFeatures(points=points, width=width, permutations=tensors["permutations"])
    if kind == SOFTMAX:
        kappa = int(tensors["gate.kappa"])
        means = tensors["gate.means"]
        return SoftmaxMolecularGate(
            features=features, scale=scale, means=means, whitened_mean=whitened_mean, kappa=kappa
        )
    channel, L = Channel(tensors["gate.mean"], whitened_mean), len(tensors["bandwidths"])
    return MolecularGate(features=features, scale=scale, channel=channel, n_experts=L)
