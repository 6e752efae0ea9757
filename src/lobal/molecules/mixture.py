"""A mixture of force fields: experts that differ in bandwidth alone, and a gate that says where each of them is right.

As in the analytic engine, every expert learns from all labels, and the gate from what they say about configurations
that they have not seen: each of those learned from in turn, or a gate set of its own. Labels have next to no noise, so
experts are judged by squared errors, those of energies and forces each in units of what the best expert leaves.

The energy is E = sum_l G_l E_l, and the forces are minus its derivative, F = sum_l G_l F_l - sum_l E_l dG_l / dR. Without
the last term, as in the paper, they would not conserve energy.
"""

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.experts.expert import Hyperparameters
from lobal.mixture.ordinal import Channel, fit_channel
from lobal.molecules.clustering import inducing_rows
from lobal.molecules.descriptor import Geometry
from lobal.molecules.expert import Ladder, MolecularExperts, experts_and_left_out, molecular_experts
from lobal.molecules.gate import GateFeatures, MolecularGate, smooth_weights
from lobal.molecules.labels import EnergiesForces, LabelledMolecules, Labels
from lobal.molecules.permutations import Permutations, typical_distance
from lobal.molecules.prediction import Predictor

logger = logging.getLogger(__name__)

FEWEST = 8  # configurations that a gate is fitted to
FOLDS = 4  # of the configurations, each left out once when gates are compared
COMPARED_TOLERANCE = 1e-4  # nats a configuration: enough to tell gates apart


@final
@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """How to fit the gate."""

    inducing: int = 256  # configurations
    widths: tuple[float, ...] = (4.0, 2.0, 1.0)  # to choose from, by the typical distance, the smoothest first
    # Numbers that one configuration counts as, to choose from: its labels' errors are not independent of each other.
    says: tuple[float, ...] = (1.0, 5.0, 25.0)
    scale: float = 4.0  # lambda_G in squared steps of the ladder


class Misses(NamedTuple):
    """By how much every expert misses labels of configurations that it has not seen."""

    energies: Float[Tensor, "L n"] | None
    forces: Float[Tensor, "L n coordinates"] | None

    def at(self, rows: Tensor) -> "Misses":
        """Those of some configurations."""
        return Misses(*(None if part is None else part[:, rows] for part in self))

    def losses(self, gate: Float[Tensor, "n L"] | None = None) -> Float[Tensor, "k n"]:
        """Squared errors of every expert, or of the experts under a gate; the best expert has one on average."""
        parts = []
        for part in self:
            if part is not None:
                each = part.flatten(2) if part.ndim > 2 else part[..., None]
                least = each.square().mean((1, 2)).min()
                answers = each if gate is None else torch.einsum("nl,lnc->nc", gate, each)[None]
                parts.append(answers.square().mean(2) / least.clamp_min(torch.finfo(least.dtype).tiny))
        return torch.stack(parts).mean(0)


@final
@dataclass(frozen=True, kw_only=True)
class MolecularMixture:
    """Experts given all labels, and their gate."""

    experts: MolecularExperts
    gate: MolecularGate
    misses: Misses  # of what the gate learned from

    def predict(self, geometry: Geometry) -> EnergiesForces:
        """Energies (1, n) and forces (1, n, N, 3) of configurations."""
        return mixed_prediction(self.experts.predictor, self.experts.constants, self.gate, geometry)


def fit_mixture(
    data: LabelledMolecules,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    *,
    gate_set: LabelledMolecules | None = None,
    settings: GateSettings | None = None,
    generator: torch.Generator,
    say: Callable[[str], None] = logger.info,
) -> MolecularMixture:
    """Experts on all labels, and a gate from what they say about configurations left out, or about the gate set.

    Raises:
        ValueError: there are too few configurations for a gate.
    """
    number = len((gate_set or data).geometry.values)
    if number < FEWEST:
        raise ValueError(f"a gate is fitted to {FEWEST} configurations at least, got {number}; take one expert")
    if gate_set is None:
        experts, left_out = experts_and_left_out(data, ladder, hyperparameters, say)
        misses, geometry = _misses_left_out(left_out.mean, data, ladder.labels), data.geometry
    else:
        experts = molecular_experts(data, ladder, hyperparameters)
        misses, geometry = misses_at(experts, gate_set, ladder.labels), gate_set.geometry
    say(f"fitting the gate to {len(geometry.values)} configurations")
    permutations = ladder.kernel.permutations
    gate = fit_gate(misses, geometry, permutations, settings or GateSettings(), generator=generator)
    return MolecularMixture(experts=experts, gate=gate, misses=misses)


def _misses_left_out(mean: Float[Tensor, "L n w"], data: LabelledMolecules, labels: Labels) -> Misses:
    off = mean - data.residual(labels, torch.zeros_like(mean[0, 0, 0]))
    e = int(labels.energies)
    return Misses(off[..., 0] if labels.energies else None, off[..., e:] if labels.forces else None)


def misses_at(experts: MolecularExperts, data: LabelledMolecules, labels: Labels) -> Misses:
    """By how much every expert misses the labels of configurations that it has not learned from."""
    energies, forces = experts.predictor.at(data.geometry)
    energies = energies + experts.constants[:, None]
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

    Of several, less or more smooth, the one that does so best for configurations that it was not fitted to.
    """
    values, losses = geometry.values, misses.losses()
    points = values[inducing_rows(values, min(settings.inducing, len(values)), permutations, generator=generator)]
    distance, best = typical_distance(values, permutations), math.inf
    for width in settings.widths:
        features = GateFeatures.at(points, width=width * distance, permutations=permutations)
        phi = features(values)
        for says in settings.says:
            loss = _held_out_loss(phi, misses, -0.5 * says * losses, settings.scale)
            if loss < best:
                best, chosen = loss, (features, phi, says)
    features, phi, says = chosen
    return MolecularGate(
        features=features,
        scale=phi.new_tensor(settings.scale),
        channel=fit_channel(phi, -0.5 * says * losses, torch.ones_like(losses[0]), scale=settings.scale),
        n_experts=len(losses),
    )


def _held_out_loss(phi: Float[Tensor, "n m"], misses: Misses, utility: Float[Tensor, "L n"], scale: float) -> float:
    """The mean loss under gates that were fitted without the configuration, a fold at a time."""
    fold = torch.arange(len(phi), device=phi.device) % FOLDS
    said = torch.zeros_like(utility.mT)
    for number in range(FOLDS):
        rest, out = fold != number, fold == number
        weight = torch.ones_like(utility[0, rest])
        channel = fit_channel(phi[rest], utility[:, rest], weight, scale=scale, tolerance=COMPARED_TOLERANCE)
        said[out] = smooth_weights(_position(channel, phi[out], scale), len(utility)).value
    return misses.losses(said).mean().item()


def _position(channel: Channel, phi: Float[Tensor, "n m"], scale: float) -> Float[Tensor, " n"]:
    return channel.mean + math.sqrt(scale) * (phi @ channel.whitened_mean)


def mixed_prediction(
    predictor: Predictor, constants: Float[Tensor, " L"], gate: MolecularGate, geometry: Geometry
) -> EnergiesForces:
    """The gate's blend of what the experts say, forces minus the derivative of the energy.

    Each expert is asked about the configurations alone that the gate gives it a share of: two at most of each.
    """
    weights, slope = gate.with_slopes(geometry)
    energies, forces = torch.zeros_like(slope[:, 0, 0]), torch.zeros_like(slope)
    pull = torch.zeros_like(energies)  # dE / dp
    for number, rows in _shares(weights.value):
        E, F = predictor.expert(number).at(geometry.at(rows))
        E = E[0] + constants[number]
        energies[rows] += weights.value[rows, number] * E
        forces[rows] += weights.value[rows, number, None, None] * F[0]
        pull[rows] += weights.slope[rows, number] * E
    return EnergiesForces(energies[None], (forces - pull[:, None, None] * slope)[None])


def _shares(weights: Float[Tensor, "n L"]) -> Iterator[tuple[int, Tensor]]:
    """Every expert that has a share, and the configurations that it has it of."""
    for number, share in enumerate(weights.mT):
        rows = share.nonzero()[:, 0]
        if len(rows) > 0:
            yield number, rows
