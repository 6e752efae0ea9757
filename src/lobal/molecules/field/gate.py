"""Gates of a mixture of force fields: `ForceGate`, and the ordinal one, a smooth position on the ladder of bandwidths.

The energy of a mixture is E = sum_l G_l E_l, and the forces are minus its derivative,
F = sum_l G_l F_l - sum_l E_l dG_l / dR. Without the last term, as in the paper, they would not conserve energy. The
paper's gate is in `softmax_gate`.

The position is a sparse Gaussian process under the symmetrised energy kernel, p = mu_g + sqrt(lambda_G) phi^T b with
phi = R^-1 k(Z, z), so that permuted, moved and turned molecules have the same. As a function of the configuration it
is an energy without forces among its labels: `Predictor` gives it together with its derivative, which the forces of a
mixture need (see `mixture`).

Predictions are interpolated between the two experts next to the position. Weights follow 3 t^2 - 2 t^3, whose
derivative vanishes at either end: forces are then continuous, which they are not under linear interpolation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.linalg import safe_cholesky, whitened
from lobal.mixture.analytic.gate_fit import Channel
from lobal.molecules.field.kernel import MolecularKernel, Moves, covariance_along, energies_at
from lobal.molecules.field.labels import EnergiesForces, Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.radial import gaussian
from lobal.molecules.geometry.descriptor import Geometry
from lobal.molecules.geometry.permutations import Permutations


class Weights(NamedTuple):
    """Weights of the experts at positions on the ladder, and their derivatives by the position."""

    value: Float[Tensor, "n L"]
    slope: Float[Tensor, "n L"]


def smooth_weights(position: Float[Tensor, " n"], L: int) -> Weights:
    """Weights of the experts l = 0 ... L - 1 next to each position, clamped to the ladder."""
    inside = position.clamp(0.0, L - 1.0)
    steps = torch.arange(L, dtype=position.dtype, device=position.device)
    away = inside[:, None] - steps
    near = (1.0 - away.abs()).clamp_min(0.0)
    slope = -6.0 * near * (1.0 - near) * away.sign() * (inside == position)[:, None]
    return Weights(near.square() * (3.0 - 2.0 * near), slope)


@final
@dataclass(frozen=True, kw_only=True)
class GateFeatures:
    """phi(z) = R^-1 k(Z, z), with R R^T = k(Z, Z), under an isotropic Gaussian kernel of one width."""

    points: Float[Tensor, "m D"]  # Z, as descriptors
    width: Scalar
    permutations: Permutations

    @cached_property
    def kernel(self) -> MolecularKernel:
        """Isotropic."""
        isotropic = self.width.expand(self.points.shape[1]).contiguous()
        return MolecularKernel(radial=gaussian, shared_bandwidth=isotropic, permutations=self.permutations)

    @cached_property
    def factor(self) -> Float[Tensor, "m m"]:
        """R."""
        return safe_cholesky(_energies(self.kernel, self.points, self.points)).lower

    def __call__(self, values: Float[Tensor, "n D"]) -> Float[Tensor, "n m"]:
        """Features of configurations given by their descriptors."""
        return whitened(self.factor[None], _energies(self.kernel, values, self.points)[None])[0]

    def along(self, moves: Moves) -> Float[Tensor, "n labels m"]:
        """Features of the energies, and minus their derivatives along directions: those of forces."""
        K = covariance_along(self.kernel, moves, energies_at(self.points), bandwidths=torch.ones_like(self.width)[None])
        phi: Tensor = whitened(self.factor[None], K)[0].unflatten(0, (-1, moves.width))
        return phi

    def predictor(self, whitened_means: Float[Tensor, "L m"]) -> Predictor:
        """phi^T b for every row b, with its derivative by the configuration."""
        weights: Tensor = torch.linalg.solve_triangular(self.factor.mT, whitened_means.mT, upper=True)
        return Predictor.of(
            self.kernel,
            Geometry(self.points, self.points.new_zeros(*self.points.shape, 3)),  # of which energies alone are needed
            weights.mT,
            bandwidths=self.points.new_ones(len(whitened_means)),
            labels=Labels.ENERGIES,
        )

    def to(self, device: torch.device) -> "GateFeatures":
        """The same features on a device."""
        return GateFeatures(**{name: getattr(self, name).to(device) for name in ("points", "width", "permutations")})


def _energies(kernel: MolecularKernel, left: Float[Tensor, "n D"], right: Float[Tensor, "m D"]) -> Float[Tensor, "n m"]:
    """Covariances of energies."""
    unit = torch.ones_like(left[0, :1])
    return covariance_along(kernel, energies_at(left), energies_at(right), bandwidths=unit)[0]


class ForceGate(ABC):
    """G(z), the probabilities of L experts at configurations, and the mixture of these under it."""

    features: GateFeatures
    scale: Scalar  # lambda_G

    @abstractmethod
    def to(self, device: torch.device) -> "ForceGate":
        """The same gate on a device."""

    @abstractmethod
    def at(self, geometry: Geometry) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one."""

    @property
    @abstractmethod
    def channels(self) -> Predictor:
        """The processes that weights follow, without their means."""

    @abstractmethod
    def weights_at(self, channels: Float[Tensor, "C n"]) -> tuple[Float[Tensor, "n L"], Float[Tensor, "n L C"]]:
        """Expert probabilities where these processes have given values, and their derivatives by the values."""

    @abstractmethod
    def mixed(
        self, predictor: Predictor, constants: Float[Tensor, " L"], geometry: Geometry
    ) -> tuple[EnergiesForces, Float[Tensor, "n L"]]:
        """The average of the experts under the gate, as of one expert, and their weights.

        Forces are minus the derivative of the energy. Constants are added to the energies of the experts.
        """


@final
@dataclass(frozen=True, kw_only=True)
class MolecularGate(ForceGate):
    """Expert probabilities of configurations."""

    features: GateFeatures
    scale: Scalar  # lambda_G, in squared steps of the ladder
    channel: Channel
    n_experts: int  # L

    def to(self, device: torch.device) -> "MolecularGate":
        channel = Channel(*(part.to(device) for part in self.channel))
        return replace(self, features=self.features.to(device), scale=self.scale.to(device), channel=channel)

    def at(self, geometry: Geometry) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one and at most two neighbouring entries of a row differ from zero."""
        return self.with_slopes(geometry)[0].value

    def with_slopes(self, geometry: Geometry) -> tuple[Weights, Float[Tensor, "n N 3"]]:
        """Expert probabilities, their derivatives by the position on the ladder, and that by the atoms' positions."""
        position, force = self.channels.at(geometry)
        return smooth_weights(position[0] + self.channel.mean, self.n_experts), -force[0]

    def mixed(
        self, predictor: Predictor, constants: Float[Tensor, " L"], geometry: Geometry
    ) -> tuple[EnergiesForces, Float[Tensor, "n L"]]:
        """At each configuration only the two experts are evaluated that have a weight there."""
        weights, slope = self.with_slopes(geometry)
        energies, forces = torch.empty_like(slope[:, 0, 0]), torch.empty_like(slope)
        for first, rows in _neighbours(weights.value):
            both = slice(first, first + 2)
            E, F = predictor.experts(both).at(geometry.at(rows))
            E = E + constants[both, None]
            share, pull = weights.value[rows, both].mT, (weights.slope[rows, both].mT * E).sum(0)  # dE / dp
            energies[rows] = (share * E).sum(0)
            forces[rows] = (share[:, :, None, None] * F).sum(0) - pull[:, None, None] * slope[rows]
        return EnergiesForces(energies[None], forces[None]), weights.value

    @cached_property
    def channels(self) -> Predictor:
        """The position on the ladder, sqrt(lambda_G) phi^T b."""
        return self.features.predictor(self.scale.sqrt() * self.channel.whitened_mean[None])

    def weights_at(self, channels: Float[Tensor, "1 n"]) -> tuple[Float[Tensor, "n L"], Float[Tensor, "n L 1"]]:
        weights, slope = smooth_weights(channels[0] + self.channel.mean, self.n_experts)
        return weights, slope[..., None]


def _neighbours(weights: Float[Tensor, "n L"]) -> Iterator[tuple[int, Int[Tensor, " k"]]]:
    """Experts, each with the configurations where it and the next one have all the weight."""
    first = (weights > 0.0).int().argmax(1).clamp_max(max(0, weights.shape[1] - 2))
    for number in first.unique().tolist():
        yield number, (first == number).nonzero()[:, 0]
