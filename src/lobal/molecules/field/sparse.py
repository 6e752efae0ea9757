"""Sparse experts of a force field: Gaussian processes that predict with m inducing configurations.

Inducing values are the energies of these and their forces along the directions that change the shape. With
R R^T = K_zz and the whitened features Phi = K_nz R^-T of all labels, whose noise has variance v,

    A = I + (lambda / v) Phi^T Phi = T T^T,    f = mu + (lambda / v) phi^T A^-1 Phi^T (y - mu),

the optimum of the collapsed bound of Titsias (see `experts.fitc`) and, where all configurations are inducing, the
prediction of dense experts. A is conditioned like the C of those, and R only solved with, so noise may be as small.

Leaving out *all labels of one configuration* i, the inducing ones as they are, takes the block of leverages
H_i = (lambda / v) Phi_i A^-1 Phi_i^T: labels are missed by (I - H_i)^-1 r_i.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import rows_at_once
from lobal.core.linalg import whitened
from lobal.experts.interface import Hyperparameters
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.expert import ForceExperts, Ladder, label_factor
from lobal.molecules.field.kernel import MolecularKernel, Moves, covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.geometry.descriptor import Geometry

logger = logging.getLogger(__name__)

# K_zz is factored with this share of v / lambda on its diagonal: inducing values need not be better known than labels.
JITTER = 1e-2


class Features(NamedTuple):
    """The map from labels to whitened features, for one bandwidth; there are p = m (3 N - 5) inducing values."""

    kernel: MolecularKernel
    bandwidth: Scalar
    inducing: Moves
    factor: Float[Tensor, "p p"]  # R

    @classmethod
    def at(cls, kernel: MolecularKernel, inducing: Moves, *, bandwidth: Scalar, jitter: Scalar) -> "Features":
        """Factors the covariance of the inducing values, with the jitter on its diagonal."""
        K_zz = covariance_along(kernel, inducing, bandwidths=bandwidth[None])[0]
        K_zz.diagonal().add_(jitter)
        return cls(kernel, bandwidth, inducing, label_factor(K_zz))

    def __call__(self, moves: Moves) -> Float[Tensor, "labels p"]:
        """Phi, in the order of `covariance_along`."""
        K_nz = covariance_along(self.kernel, moves, self.inducing, bandwidths=self.bandwidth[None])
        return whitened(self.factor[None], K_nz)[0]


class Part(NamedTuple):
    """Some configurations and their labels."""

    moves: Moves
    y: Float[Tensor, "k v"]  # v^-1/2 (y - mu), forces along the directions


class Solved(NamedTuple):
    """One expert given all labels: A and the whitened inducing values, of prior variance one."""

    factor: Float[Tensor, "p p"]  # T
    values: Float[Tensor, " p"]  # lambda^1/2 A^-1 Phi^T (y - mu) / v
    weights: Float[Tensor, " p"]  # lambda^1/2 R^-T times them: of covariances with inducing values


def sparse_experts_and_left_out(
    data: LabelledMolecules,
    inducing: Geometry,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    on_status: Callable[[str], None] = logger.info,
) -> tuple[ForceExperts, Float[Tensor, "L n w"]]:
    """Experts, and their predictions of all labels of each configuration without it; inducing ones stay inducing.

    O(n m^2 N^3) time, and memory without any n m.

    Raises:
        ValueError: there are no inducing configurations, or these or the data are of another molecule than the kernel.
    """
    fit, n = _Fit.of(data, inducing, ladder, hyperparameters), len(data.geometry.values)
    weights, left_out = [], []
    for number, sigma in enumerate(ladder.bandwidths):
        on_status(f"expert {number + 1} of {len(ladder.bandwidths)}: leaving out each of {n} configurations")
        features = fit.features(sigma)
        solved = fit.solved(features)
        weights.append(fit.inducing.expanded(solved.weights.view(len(inducing.values), -1)).flatten())
        left_out.append(fit.left_out(features, solved))
    mean = torch.stack(left_out)
    if ladder.labels.energies:
        mean[..., 0] += hyperparameters.mean
    rows = torch.stack(weights)
    experts = ForceExperts.of(rows, inducing, Labels.BOTH, ladder=ladder, data=data, mean=hyperparameters.mean)
    return experts, mean


@dataclass(frozen=True)
class _Fit:
    """Everything that the experts of a ladder have in common."""

    data: LabelledMolecules
    directions: ShapeDirections  # of the data
    inducing: ShapeDirections
    ladder: Ladder
    hyperparameters: Hyperparameters

    @classmethod
    def of(
        cls, data: LabelledMolecules, inducing: Geometry, ladder: Ladder, hyperparameters: Hyperparameters
    ) -> "_Fit":
        for geometry in (data.geometry, inducing):
            ladder.kernel.check(geometry)
        if len(inducing.values) == 0:
            raise ValueError("sparse experts need at least one inducing configuration, got none")
        directions = ShapeDirections.of(data.geometry, ladder.labels)
        return cls(data, directions, ShapeDirections.of(inducing, Labels.BOTH), ladder, hyperparameters)

    def features(self, bandwidth: Scalar) -> Features:
        jitter = JITTER * self.hyperparameters.noise / self.hyperparameters.scale
        return Features.at(self.ladder.kernel, self.inducing.moves, bandwidth=bandwidth, jitter=jitter)

    def parts(self) -> Iterator[Part]:
        """As many configurations at a time as have features in so much memory."""
        residual = self.directions.reduced(self.data.residual(self.ladder.labels, self.hyperparameters.mean))
        inducing_values = self.inducing.moves.width * len(self.inducing.moves.values)
        step = rows_at_once(inducing_values * residual.shape[1], residual.device)
        for start in range(0, len(residual), step):
            rows = slice(start, start + step)
            yield Part(self.directions.moves.at(rows), residual[rows] / self.hyperparameters.noise.sqrt())

    def scaled(self, features: Features, part: Part) -> Float[Tensor, "labels p"]:
        """(lambda / v)^1/2 Phi."""
        return features(part.moves) * (self.hyperparameters.scale.sqrt() / self.hyperparameters.noise.sqrt())

    def solved(self, features: Features) -> Solved:
        A = torch.eye(len(features.factor), dtype=features.factor.dtype, device=features.factor.device)
        right_side = A.new_zeros(len(A))
        for part in self.parts():
            Phi = self.scaled(features, part)
            A.addmm_(Phi.mT, Phi)
            right_side.addmv_(Phi.mT, part.y.flatten())
        T = label_factor(A)
        values = torch.cholesky_solve(right_side[:, None], T)
        weights: Tensor = torch.linalg.solve_triangular(features.factor.mT, values, upper=True)
        return Solved(T, values[:, 0], self.hyperparameters.scale.sqrt() * weights[:, 0])

    def left_out(self, features: Features, solved: Solved) -> Float[Tensor, "n w"]:
        """Predicted labels less mu."""
        parts = [self._left_out(self.scaled(features, part), solved, part.y) for part in self.parts()]
        return self.directions.expanded(self.hyperparameters.noise.sqrt() * torch.cat(parts))

    def _left_out(
        self, Phi: Float[Tensor, "labels p"], solved: Solved, y: Float[Tensor, "k v"]
    ) -> Float[Tensor, "k v"]:
        """The same of some configurations along the directions, in units of the noise."""
        H = _own_products(whitened(solved.factor[None], Phi[None])[0], y.shape[1])
        explained = _own_products(Phi, y.shape[1])
        missed = _inverse_of_rest(H, explained) @ (y - (Phi @ solved.values).view_as(y))[..., None]
        return y - missed[..., 0]


def _own_products(rows: Float[Tensor, "labels p"], width: int) -> Float[Tensor, "k w w"]:
    """Products of the rows of each configuration with each other."""
    each: Tensor = rows.unflatten(0, (-1, width))
    return each @ each.mT


def _inverse_of_rest(H: Float[Tensor, "k w w"], explained: Float[Tensor, "k w w"]) -> Float[Tensor, "k w w"]:
    """(I - H)^-1, whose eigenvalues exceed those of the prior, one and what is explained, by rounding only."""
    leverage, vectors = torch.linalg.eigh(H)
    most = 1.0 + explained.diagonal(dim1=1, dim2=2).sum(1)
    rest = torch.maximum(1.0 - leverage, most.reciprocal()[:, None])
    inverse: Tensor = (vectors / rest[:, None]) @ vectors.mT
    return inverse
