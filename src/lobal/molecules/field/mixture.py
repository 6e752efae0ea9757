"""A mixture of force fields: experts that differ in bandwidth alone, and a gate that says where each of them is right.

As in the analytic engine, every expert learns from all labels, and the gate from what they say about configurations
that they have not seen: each of those learned from in turn, or a gate set of its own. Labels have next to no noise, so
experts are judged by their errors, those of energies and forces each in units of what the best expert leaves.

The energy is E = sum_l G_l E_l, and the forces are minus its derivative, F = sum_l G_l F_l - sum_l E_l dG_l / dR.
Without the last term, as in the paper, they would not conserve energy.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.experts.interface import Hyperparameters
from lobal.mixture.analytic.ordinal import TOLERANCE, fit_channel
from lobal.molecules.field.expert import ForceExperts, Ladder, LeftOut, experts_and_left_out, molecular_experts
from lobal.molecules.field.gate import GateFeatures, MolecularGate, Weights
from lobal.molecules.field.labels import EnergiesForces, LabelledMolecules, Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.sparse import sparse_experts_and_left_out, sparse_molecular_experts
from lobal.molecules.geometry.clustering import inducing_rows, number_distinct
from lobal.molecules.geometry.descriptor import Geometry
from lobal.molecules.geometry.permutations import Permutations, typical_distance

logger = logging.getLogger(__name__)

FEWEST = 8  # configurations that a gate is fitted to
FOLDS = 4  # of the configurations, each left out once when gates are compared
COMPARED_TOLERANCE = 1e-4  # nats a configuration: enough to tell gates apart
# Of the loss; the rest is that of energies. Forces are 3 N labels of a configuration and tell experts apart better, but
# want larger bandwidths: judged by them alone, the mixture has energies no better than the best expert has them.
FORCES_SHARE = 0.75
SMALLEST_LOSS = 1e-12  # of the best expert's: as good as exact


@final
@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """How to fit the gate."""

    inducing: int = 256  # configurations
    # To choose from, the smoothest first: widths by the typical distance, and lambda_G in squared steps of the ladder.
    widths: tuple[float, ...] = (4.0, 2.0, 1.0)
    scales: tuple[float, ...] = (0.5, 2.0)

    def __post_init__(self) -> None:
        if self.inducing < 1 or not self.widths or not self.scales or min(*self.widths, *self.scales) <= 0.0:
            raise ValueError(
                "a gate has an inducing configuration, a width and a scale at least, all of them positive, got "
                f"{self.inducing}, {self.widths} and {self.scales}"
            )


class Misses(NamedTuple):
    """By how much answers miss the labels of configurations: those of every expert, or of a gate."""

    energies: Float[Tensor, "L n"] | None
    forces: Float[Tensor, "L n coordinates"] | None

    def at(self, rows: Int[Tensor, " k"]) -> "Misses":
        """Those of some configurations."""
        return Misses(*(None if part is None else part[:, rows] for part in self))

    def under(self, weights: Weights, slope: Float[Tensor, "n coordinates"]) -> "Misses":
        """What is missed if a gate with these weights, whose positions have this slope, has the say.

        Where energies are no labels, what they have to do with the slope is left out.
        """
        energies = None if self.energies is None else (weights.value.mT * self.energies).sum(0)[None]
        forces = None if self.forces is None else torch.einsum("nl,lnc->nc", weights.value, self.forces)[None]
        if self.energies is not None and forces is not None:
            pull = (weights.slope.mT * self.energies).sum(0)  # what all energies have in common cancels
            forces = forces - pull[:, None] * slope
        return Misses(energies, forces)

    def squares(self) -> list[Float[Tensor, "L n"] | None]:
        """Mean squares of every configuration, in the units of the labels."""
        forces = None if self.forces is None else self.forces.square().mean(2)
        return [None if self.energies is None else self.energies.square(), forces]

    def losses(self, units: Sequence[float]) -> Float[Tensor, "L n"]:
        """Mean squares in the given units, those of forces and energies weighed by their shares."""
        parts = zip((1.0 - FORCES_SHARE, FORCES_SHARE), self.squares(), units, strict=True)
        terms = [(share, square / unit) for share, square, unit in parts if square is not None]
        return torch.stack([share * term for share, term in terms]).sum(0) / sum(share for share, _ in terms)

    def best_expert(self) -> int:
        """The number of the expert of least loss."""
        return int(self.losses(self.units()).mean(1).argmin())

    def units(self) -> list[float]:
        """What the best expert leaves: least mean squares of energies and of forces."""
        tiny = torch.finfo(torch.float64).tiny
        return [1.0 if each is None else max(each.mean(1).min().item(), tiny) for each in self.squares()]


@final
@dataclass(frozen=True, kw_only=True)
class MolecularMixture:
    """Experts given all labels, and their gate."""

    experts: ForceExperts
    gate: MolecularGate
    misses: Misses  # of what the gate learned from

    def predict(self, geometry: Geometry) -> EnergiesForces:
        """Energies (1, n) and forces (1, n, N, 3) of configurations."""
        return mixed_prediction(self.experts.predictor, self.experts.constants, self.gate, geometry).answers


def fit_mixture(
    data: LabelledMolecules,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    *,
    inducing: Geometry | None = None,
    gate_set: LabelledMolecules | None = None,
    settings: GateSettings | None = None,
    generator: torch.Generator,
    say: Callable[[str], None] = logger.info,
) -> MolecularMixture:
    """Experts on all labels, and a gate from what they say about configurations left out, or about the gate set.

    Experts are dense or, where inducing configurations are given, sparse.

    Raises:
        ValueError: there are too few configurations for a gate.
    """
    experts: ForceExperts
    if gate_set is not None:
        experts = _experts(data, ladder, hyperparameters, inducing)
        misses, geometry = misses_at(experts, gate_set, ladder.labels), gate_set.geometry
    elif inducing is not None:
        experts, left_out = sparse_experts_and_left_out(data, inducing, ladder, hyperparameters)
        misses, geometry = misses_of(left_out, data, ladder.labels), data.geometry
    else:
        experts, left_out = experts_and_left_out(data, ladder, hyperparameters, say)
        misses, geometry = misses_of(left_out, data, ladder.labels), data.geometry
    say(f"fitting the gate to {len(geometry.values)} configurations")
    gate = fit_gate(misses, geometry, ladder.kernel.permutations, settings or GateSettings(), generator=generator)
    return MolecularMixture(experts=experts, gate=gate, misses=misses)


def misses_of(left_out: LeftOut, data: LabelledMolecules, labels: Labels) -> Misses:
    """By how much experts miss each configuration that is left out."""
    mean = left_out.mean
    off = mean - data.residual(labels, torch.zeros_like(mean[0, 0, 0]))
    e = int(labels.energies)
    return Misses(off[..., 0] if labels.energies else None, off[..., e:] if labels.forces else None)


def _experts(
    data: LabelledMolecules, ladder: Ladder, hyperparameters: Hyperparameters, inducing: Geometry | None
) -> ForceExperts:
    if inducing is None:
        return molecular_experts(data, ladder, hyperparameters)
    return sparse_molecular_experts(data, inducing, ladder, hyperparameters)


def misses_at(experts: ForceExperts, data: LabelledMolecules, labels: Labels) -> Misses:
    """By how much every expert misses the labels of configurations that it has not learned from."""
    energies, forces = experts.at(data.geometry)
    return Misses(
        energies - data.energies if labels.energies and data.energies is not None else None,
        (forces - data.forces).flatten(2) if labels.forces and data.forces is not None else None,
    )


def fit_gate(
    misses: Misses,
    geometry: Geometry,
    permutations: Permutations,
    settings: GateSettings,
    *,
    generator: torch.Generator,
) -> MolecularGate:
    """The gate that sends every configuration to the experts of least error there.

    An expert is worth minus the logarithm of its error: every configuration has the same say, however hard it is. Of
    several gates, less or more smooth, the one is taken that leaves least of configurations it was not fitted to. All
    of it is too small for a GPU to be of use, and done on the CPU.

    Raises:
        ValueError: there are too few configurations for a gate.
    """
    if len(geometry.values) < FEWEST:
        number = len(geometry.values)
        raise ValueError(f"a gate is fitted to {FEWEST} configurations at least, got {number}; take one expert")
    device, geometry, permutations = geometry.values.device, geometry.to("cpu"), permutations.cpu()
    misses = Misses(*(None if part is None else part.cpu() for part in misses))
    values, units = geometry.values, misses.units()
    utility = -misses.losses(units).clamp_min(SMALLEST_LOSS).log()
    m = number_distinct(values, permutations, most=settings.inducing)
    points = values[inducing_rows(values, m, permutations, generator=generator)]
    distance = typical_distance(values, permutations)
    least = math.inf
    for width in settings.widths:
        features = GateFeatures.at(points, width=width * distance, permutations=permutations)
        phi = features(values)
        for scale in settings.scales:
            loss = _held_out_loss(features, phi, geometry, misses, utility, scale)
            if loss < least:
                best, least = (features, phi, scale), loss
    return _gate(*best, utility).to(device)


def _gate(
    features: GateFeatures,
    phi: Float[Tensor, "n m"],
    scale: float,
    utility: Float[Tensor, "L n"],
    tolerance: float = TOLERANCE,
) -> MolecularGate:
    channel = fit_channel(phi, utility, torch.ones_like(utility[0]), scale=scale, tolerance=tolerance)
    return MolecularGate(features=features, scale=phi.new_tensor(scale), channel=channel, n_experts=len(utility))


def _held_out_loss(
    features: GateFeatures,
    phi: Float[Tensor, "n m"],
    geometry: Geometry,
    misses: Misses,
    utility: Float[Tensor, "L n"],
    scale: float,
) -> float:
    """The mean loss under gates that were fitted without the configuration, a fold at a time."""
    fold, total, units = torch.arange(len(phi), device=phi.device) % FOLDS, 0.0, misses.units()
    for number in range(FOLDS):
        rest, out = (fold != number).nonzero()[:, 0], (fold == number).nonzero()[:, 0]
        gate = _gate(features, phi[rest], scale, utility[:, rest], COMPARED_TOLERANCE)
        weights, slope = gate.with_slopes(geometry.at(out))
        total += misses.at(out).under(weights, slope.flatten(1)).losses(units).sum().item()
    return total / len(phi)


class Mixed(NamedTuple):
    """What a mixture says, and how much of it comes from each expert."""

    answers: EnergiesForces  # of one expert, as it were
    gate: Float[Tensor, "n L"]


def mixed_prediction(
    predictor: Predictor, constants: Float[Tensor, " L"], gate: MolecularGate, geometry: Geometry
) -> Mixed:
    """The gate's blend of what the experts say, forces minus the derivative of the energy.

    Of each configuration the two experts alone are asked that the gate gives a share to.
    """
    weights, slope = gate.with_slopes(geometry)
    energies, forces = torch.empty_like(slope[:, 0, 0]), torch.empty_like(slope)
    for first, rows in _neighbours(weights.value):
        both = slice(first, first + 2)
        E, F = predictor.experts(both).at(geometry.at(rows))
        E = E + constants[both, None]
        share, pull = weights.value[rows, both].mT, (weights.slope[rows, both].mT * E).sum(0)  # dE / dp
        energies[rows] = (share * E).sum(0)
        forces[rows] = (share[:, :, None, None] * F).sum(0) - pull[:, None, None] * slope[rows]
    return Mixed(EnergiesForces(energies[None], forces[None]), weights.value)


def _neighbours(weights: Float[Tensor, "n L"]) -> Iterator[tuple[int, Int[Tensor, " k"]]]:
    """Every expert that shares configurations with the next one alone, and these configurations."""
    first = (weights > 0.0).int().argmax(1).clamp_max(max(0, weights.shape[1] - 2))
    for number in first.unique().tolist():
        yield number, (first == number).nonzero()[:, 0]
