"""The fit of the ordinal gate: experts differ in bandwidth alone, and are compared by their leave-one-out errors.

As in the analytic engine, every expert learns from all labels, and the gate from their leave-one-out predictions.
Labels have next to no noise, so experts are compared by their errors, those of energies and forces each in units of
the best expert's.

`Residuals` are the errors of experts, of either gate.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.mixture.analytic.gate_fit import Channel, cross_fitted_channels, fit_channel
from lobal.molecules.field.gate import GateFeatures, MolecularGate, Weights
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.clustering import inducing_rows, number_distinct
from lobal.molecules.geometry.descriptor import Geometry
from lobal.molecules.geometry.permutations import Permutations, typical_distance

FEWEST = 8  # configurations that a gate is fitted to
# Of the loss; the rest is that of energies. Forces are 3 N labels of a configuration and tell experts apart better, but
# ask for larger bandwidths: by them alone, the mixture has energies no better than those of the best expert.
FORCES_SHARE = 0.75
SMALLEST_LOSS = 1e-12  # of the best expert's: as good as exact


class Residuals(NamedTuple):
    """Differences between predictions and labels of configurations, for every expert or for a gate."""

    energies: Float[Tensor, "L n"] | None
    forces: Float[Tensor, "L n coordinates"] | None

    @classmethod
    def of(cls, predicted: Float[Tensor, "L n w"], data: LabelledMolecules, labels: Labels) -> "Residuals":
        """Residuals of predictions in the order of labels."""
        off = predicted - data.residual(labels, torch.zeros_like(predicted[0, 0, 0]))
        e = int(labels.energies)
        return cls(off[..., 0] if labels.energies else None, off[..., e:] if labels.forces else None)

    def at(self, rows: Bool[Tensor, " n"] | Int[Tensor, " k"]) -> "Residuals":
        """Those of some configurations."""
        return Residuals(*(None if part is None else part[:, rows] for part in self))

    def under(self, weights: Weights, slope: Float[Tensor, "n coordinates"]) -> "Residuals":
        """Residuals of the mixture under a gate with these weights, whose positions have this slope.

        Where energies are no labels, their part in the forces is left out.
        """
        energies = None if self.energies is None else (weights.value.mT * self.energies).sum(0)[None]
        forces = None if self.forces is None else torch.einsum("nl,lnc->nc", weights.value, self.forces)[None]
        if self.energies is not None and forces is not None:
            pull = (weights.slope.mT * self.energies).sum(0)  # what all energies have in common cancels
            forces = forces - pull[:, None] * slope
        return Residuals(energies, forces)

    def squares(self) -> list[Float[Tensor, "L n"] | None]:
        """Mean squares at every configuration, in the units of the labels."""
        forces = None if self.forces is None else self.forces.square().mean(2)
        return [None if self.energies is None else self.energies.square(), forces]

    def losses(self, units: Sequence[float]) -> Float[Tensor, "L n"]:
        """Mean squares in the given units, those of forces and energies weighted by their shares."""
        parts = zip((1.0 - FORCES_SHARE, FORCES_SHARE), self.squares(), units, strict=True)
        terms = [(share, square / unit) for share, square, unit in parts if square is not None]
        return torch.stack([share * term for share, term in terms]).sum(0) / sum(share for share, _ in terms)

    def best_expert(self) -> int:
        """The number of the expert of least loss."""
        return int(self.losses(self.units()).mean(1).argmin())

    def units(self) -> list[float]:
        """Mean squares of energies and of forces, each of the expert for which they are least."""
        tiny = torch.finfo(torch.float64).tiny
        return [1.0 if each is None else max(each.mean(1).min().item(), tiny) for each in self.squares()]


def fit_gate(
    residuals: Residuals,
    geometry: Geometry,
    permutations: Permutations,
    settings: ForceFieldSettings,
    *,
    generator: torch.Generator,
) -> MolecularGate:
    """The gate that sends every configuration to the experts of least error there.

    The utility of an expert is minus the logarithm of its loss: all configurations count alike, however large their
    errors. Of several gates, less or more smooth, the one of least loss at configurations it was not fitted to is
    taken. All of it is too small for a GPU to be of use, and done on the CPU.

    Raises:
        ValueError: there are too few configurations for a gate.
    """
    if len(geometry.values) < FEWEST:
        number = len(geometry.values)
        raise ValueError(f"a gate needs at least {FEWEST} configurations, got {number}; fit without a mixture")
    device, geometry, permutations = geometry.values.device, geometry.to("cpu"), permutations.cpu()
    residuals = Residuals(*(None if part is None else part.cpu() for part in residuals))
    values = geometry.values
    utility = -residuals.losses(residuals.units()).clamp_min(SMALLEST_LOSS).log()
    m = number_distinct(values, permutations, most=settings.gate_inducing)
    points = values[inducing_rows(values, m, permutations, generator=generator)]
    distance = typical_distance(values, permutations)
    least = math.inf
    for width in settings.gate_widths:
        features = GateFeatures(points=points, width=width * distance, permutations=permutations)
        phi = features(values)
        for scale in settings.gate_scales:
            loss = _held_out_loss(features, phi, geometry, residuals, utility, scale)
            if loss < least:
                best, least = (features, phi, scale), loss
    features, phi, scale = best
    channel = fit_channel(phi, utility, torch.ones_like(utility[0]), scale=scale)
    return _gate(features, channel, scale, len(utility)).to(device)


def _gate(features: GateFeatures, channel: Channel, scale: float, L: int) -> MolecularGate:
    return MolecularGate(features=features, scale=features.points.new_tensor(scale), channel=channel, n_experts=L)


def _held_out_loss(
    features: GateFeatures,
    phi: Float[Tensor, "n m"],
    geometry: Geometry,
    residuals: Residuals,
    utility: Float[Tensor, "L n"],
    scale: float,
) -> float:
    """The mean loss under gates that were fitted without the configuration, a fold at a time."""
    total, units, ones = 0.0, residuals.units(), torch.ones_like(utility[0])
    for out, channel in cross_fitted_channels(phi, utility, ones, scale=scale):
        rows = out.nonzero()[:, 0]
        weights, slope = _gate(features, channel, scale, len(utility)).with_slopes(geometry.at(rows))
        total += residuals.at(out).under(weights, slope.flatten(1)).losses(units).sum().item()
    return total / len(phi)
