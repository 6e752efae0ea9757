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
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import rows_at_once
from lobal.core.linalg import whitened
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.expert import ForceExperts, label_factor, with_mean
from lobal.molecules.field.kernel import Moves, covariance_along
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.problem import Problem
from lobal.molecules.geometry.descriptor import Geometry

logger = logging.getLogger(__name__)

# K_zz is factored with this share of v / lambda on its diagonal: inducing values need not be better known than labels.
JITTER = 1e-2


def sparse_experts_and_left_out(problem: Problem, inducing: Geometry) -> tuple[ForceExperts, Float[Tensor, "L n w"]]:
    """Experts, and their predictions of all labels of each configuration without it; inducing ones stay inducing.

    O(n m^2 N^3) time, and memory without any n m.
    """
    directions, weights, left_out = ShapeDirections.of(inducing, Labels.BOTH), [], []
    for number, sigma in enumerate(problem.bandwidths, start=1):
        n = len(problem.residual)
        logger.info("expert %d of %d: %d configurations left out", number, len(problem.bandwidths), n)
        expert = _SparseExpert.of(problem, directions.moves, sigma)
        weights.append(directions.expanded(expert.weights().view(len(inducing.values), -1)).flatten())
        left_out.append(expert.left_out())
    experts = ForceExperts.of(problem, torch.stack(weights), inducing, Labels.BOTH)
    return experts, with_mean(problem, torch.stack(left_out))


@dataclass(frozen=True)
class _SparseExpert:
    """One expert given all labels; there are p = m (3 N - 5) inducing values, of prior variance one when whitened."""

    problem: Problem
    bandwidth: Scalar
    inducing: Moves
    inducing_factor: Float[Tensor, "p p"]  # R
    factor: Float[Tensor, "p p"]  # T
    values: Float[Tensor, " p"]  # lambda^1/2 A^-1 Phi^T (y - mu) / v, the whitened inducing values

    @classmethod
    def of(cls, problem: Problem, inducing: Moves, bandwidth: Scalar) -> "_SparseExpert":
        K_zz = covariance_along(problem.kernel, inducing, bandwidths=bandwidth[None])[0]
        K_zz.diagonal().add_(JITTER * problem.hyperparameters.noise / problem.hyperparameters.scale)
        R = label_factor(K_zz)
        A = torch.eye(len(R), dtype=R.dtype, device=R.device)
        right_side = A.new_zeros(len(A))
        for Phi, y in _parts(problem, inducing, bandwidth, R):
            A.addmm_(Phi.mT, Phi)
            right_side.addmv_(Phi.mT, y.flatten())
        T = label_factor(A)
        return cls(problem, bandwidth, inducing, R, T, torch.cholesky_solve(right_side[:, None], T)[:, 0])

    def weights(self) -> Float[Tensor, " p"]:
        """lambda^1/2 R^-T times the values: of covariances with inducing values."""
        weights: Tensor = torch.linalg.solve_triangular(self.inducing_factor.mT, self.values[:, None], upper=True)
        return self.problem.hyperparameters.scale.sqrt() * weights[:, 0]

    def left_out(self) -> Float[Tensor, "n w"]:
        """Predicted labels less mu."""
        parts = []
        for Phi, y in _parts(self.problem, self.inducing, self.bandwidth, self.inducing_factor):
            H = _own_products(whitened(self.factor[None], Phi[None])[0], y.shape[1])
            explained = _own_products(Phi, y.shape[1])
            missed = _inverse_of_rest(H, explained) @ (y - (Phi @ self.values).view_as(y))[..., None]
            parts.append(y - missed[..., 0])
        return self.problem.directions.expanded(self.problem.hyperparameters.noise.sqrt() * torch.cat(parts))


def _parts(
    problem: Problem, inducing: Moves, bandwidth: Scalar, R: Float[Tensor, "p p"]
) -> Iterator[tuple[Float[Tensor, "labels p"], Float[Tensor, "k v"]]]:
    """(lambda / v)^1/2 Phi and v^-1/2 (y - mu), of as many configurations at a time as have features in so much memory.

    Labels are in the order of `covariance_along`.
    """
    residual, scale, noise = problem.residual, problem.hyperparameters.scale, problem.hyperparameters.noise
    step = rows_at_once(len(R) * residual.shape[1], residual.device)
    for start in range(0, len(residual), step):
        rows = slice(start, start + step)
        moves = problem.directions.moves.at(rows)
        K_nz = covariance_along(problem.kernel, moves, inducing, bandwidths=bandwidth[None])
        yield whitened(R[None], K_nz)[0] * (scale.sqrt() / noise.sqrt()), residual[rows] / noise.sqrt()


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
