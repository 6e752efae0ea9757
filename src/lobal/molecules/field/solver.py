"""Weights alpha = (lambda K + v I)^-1 y of one expert by preconditioned conjugate gradients.

The covariance C of molecules has eigenvalues over ten orders of magnitude, few of them large. The preconditioner is C
with some couplings left out: a small set of configurations, the landmarks, is coupled to all others; these are coupled
to others in the same group only *beyond* what the landmarks explain. Ordered so, with R the factor of the landmarks'
block, U = R^-1 C_landmarks,rest and S_g the blocks of what is left, C - U^T U,

    P = [R 0; U^T F] [R 0; U^T F]^T,   F = diag(F_1 ... F_G),   F_g F_g^T = S_g.

Eliminating block by block keeps the digits that a formula for the inverse of low rank plus diagonal loses: an error in
F is damped by S, which is small, and not multiplied by C. One group is a Cholesky factorisation; groups of one
configuration are FITC's approximation.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.linalg import safe_cholesky
from lobal.molecules.field.kernel import BLOCK_ENTRIES, GPU_BLOCK_ENTRIES, MolecularKernel, Moves, covariance_along
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.radial import Radial
from lobal.molecules.geometry.clustering import far_apart

logger = logging.getLogger(__name__)

# The residual that is left, by that of alpha = 0: forces of 1 eV/A are then met to 1e-5 eV/A, but for the noise. For
# malonaldehyde, errors at other configurations are those of a factorisation to four digits from 1e-4 on.
TOLERANCE = 1e-5
MOST_ITERATIONS = 1000
# One in so many configurations is a landmark, up to so many labels, and up to so many numbers in U (1 GiB).
CONFIGURATIONS_PER_LANDMARK = 5
MOST_LANDMARK_LABELS = 2500
MOST_COUPLINGS = 2**27
# Kernel values and their derivatives are kept where they take at most so many numbers (2 GiB), else computed again.
STORED_ENTRIES = 2**28
# Labels per group. For 400 configurations of malonaldehyde, 250 and 1000 take as much time.
GROUP = 600
# S is a small difference of large numbers: rounding, by the diagonal.
JITTER = 1e-6


def solved(problem: Problem, *, tolerance: float = TOLERANCE) -> tuple[Float[Tensor, " m"], float, int]:
    """Weights of all labels for the first bandwidth, the residual |y - C alpha| / |y|, and the number of iterations.

    Weights are as a Cholesky factor gives them, but zero along directions that change no shape.

    O(n^2 |G| D) time an iteration, and memory without any n^2 N^2.
    """
    moves, y, bandwidth = problem.directions.moves, problem.residual, problem.bandwidths[0]
    _, scale, noise = problem.hyperparameters
    K = CovarianceOperator.of(problem.kernel, moves, bandwidth=bandwidth, scale=scale)
    P = Elimination.of(problem.kernel, moves, bandwidth=bandwidth, scale=scale, noise=noise)
    alpha, residual, iterations = conjugate_gradients(lambda w: K(w) + noise * w, P, y, tolerance=tolerance)
    logger.info("%d labels: residual %.1e after %d iterations", y.numel(), residual, iterations)
    return problem.directions.expanded(alpha).flatten(), residual, iterations


def conjugate_gradients(
    operator: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    y: Float[Tensor, "*shape"],
    *,
    tolerance: float,
) -> tuple[Float[Tensor, "*shape"], float, int]:
    """C^-1 y, the relative residual that is left, and the number of iterations.

    The flexible variant, which allows for rounding in the preconditioner.
    """
    alpha, r, size = torch.zeros_like(y), y, y.norm()
    z = precondition(r)
    direction, r_z, iteration = z, (r * z).sum(), 0
    while r.norm() > tolerance * size and iteration < MOST_ITERATIONS:
        image = operator(direction)
        step = r_z / (direction * image).sum()
        alpha = alpha + step * direction
        before, r = r, r - step * image
        z = precondition(r)
        direction = z + ((r - before) * z).sum() / r_z * direction
        r_z = (r * z).sum()
        iteration += 1
    remaining = (y - operator(alpha)).norm() / size if size > 0.0 else size
    return alpha, float(remaining), iteration


@final
@dataclass(frozen=True)
class CovarianceOperator:
    """The map from weights of all labels to lambda K times them, for one bandwidth, without the matrix K.

    A product with K is a prediction at the configurations learned from (see `prediction`), in which distances, and
    with them g, g' and g'', are the same for every vector. It costs O(n^2 |G| D), and O(n^2 |G|) memory, where a
    matrix takes O(n^2 N^2) of both and O(n^2 |G| D N^2) to be set up.
    """

    moves: Moves
    scale: Scalar  # lambda
    predictor: Predictor
    radials: list[Radial] | None  # kernel values of all parts, where there is room for them

    @classmethod
    def of(cls, kernel: MolecularKernel, moves: Moves, *, bandwidth: Scalar, scale: Scalar) -> "CovarianceOperator":
        """Computes kernel values where they take at most `STORED_ENTRIES` numbers."""
        predictor = Predictor.unweighted(kernel, moves.values, bandwidths=bandwidth[None])
        operator = cls(moves, scale, predictor, None)
        if len(Radial._fields) * len(moves.values) * predictor.offsets.numel() > STORED_ENTRIES:
            return operator
        return cls(moves, scale, predictor, [predictor.radials(values) for values in operator._parts()])

    def __call__(self, weights: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        """Labels predicted with the given weights."""
        e = int(self.moves.with_energies)
        pulled = torch.einsum("cnd,nc->nd", self.moves.jacobians, weights[:, e:])
        predictor = self.predictor.weighted(weights[None, :, 0] if e else None, pulled[None])
        radials = self.radials or (predictor.radials(values) for values in self._parts())
        parts = [predictor.contracted(values, g) for values, g in zip(self._parts(), radials, strict=True)]
        energies, slope = (torch.cat(columns, dim=1)[0] for columns in zip(*parts, strict=True))
        forces = -torch.einsum("cnd,nd->nc", self.moves.jacobians, slope)
        return self.scale * torch.cat([energies[:, None][:, :e], forces], dim=1)

    def _parts(self) -> Iterator[Float[Tensor, "m D"]]:
        """Configurations in parts: on a CPU, intermediate results stay in the cache."""
        entries = GPU_BLOCK_ENTRIES if self.moves.values.is_cuda else BLOCK_ENTRIES
        return iter(self.moves.values.split(max(1, entries // self.predictor.offsets.numel())))


class _Group(NamedTuple):
    """Labels of one group."""

    rows: Int[Tensor, " q"]
    U: Float[Tensor, "s q"]
    factor: Float[Tensor, "q q"]  # F


@final
@dataclass(frozen=True)
class Elimination:
    """The map r -> P^-1 r."""

    landmarks: Int[Tensor, " s"]
    factor: Float[Tensor, "s s"]  # R
    groups: list[_Group]

    @classmethod
    def of(
        cls, kernel: MolecularKernel, moves: Moves, *, bandwidth: Scalar, scale: Scalar, noise: Scalar
    ) -> "Elimination":
        """Landmarks are far apart, which takes a sixth off the iterations of landmarks at random."""
        w, bandwidths = moves.width, bandwidth[None]
        landmarks = far_apart(moves.values, number_of_landmarks(len(moves.values), w), kernel.permutations)
        rest = torch.ones_like(moves.values[:, 0], dtype=torch.bool).index_fill(0, landmarks, False).nonzero()[:, 0]
        K_ss = covariance_along(kernel, moves.at(landmarks), bandwidths=bandwidths)[0]
        R = safe_cholesky(_with_noise(K_ss, scale, noise)).lower
        groups = []
        for rows in rest.split(max(1, GROUP // w)):
            some = moves.at(rows)
            K_sg = scale * covariance_along(kernel, moves.at(landmarks), some, bandwidths=bandwidths)[0]
            U: Tensor = torch.linalg.solve_triangular(R, K_sg, upper=False)
            S = _with_noise(covariance_along(kernel, some, bandwidths=bandwidths)[0], scale, noise)
            S.addmm_(U.mT, U, alpha=-1.0)
            # Never less than the noise in exact arithmetic, and the noise may be zero.
            S.diagonal().clamp_min_(0.5 * noise).clamp_min_(torch.finfo(S.dtype).tiny)
            groups.append(_Group(_label_rows(rows, w), U, safe_cholesky(S, first_jitter=JITTER).lower))
        return cls(_label_rows(landmarks, w), R, groups)

    def __call__(self, r: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        """Forward and backward substitution."""
        flat = r.flatten()
        z = torch.empty_like(flat)
        forward: Tensor = torch.linalg.solve_triangular(self.factor, flat[self.landmarks, None], upper=False)
        backward = forward
        for rows, U, factor in self.groups:
            own = torch.cholesky_solve(flat[rows, None] - U.mT @ forward, factor)
            z[rows] = own[:, 0]
            backward = backward - U @ own
        z[self.landmarks] = torch.linalg.solve_triangular(self.factor.mT, backward, upper=True)[:, 0]
        return z.view_as(r)


def number_of_landmarks(n: int, width: int) -> int:
    """How many of n configurations with `width` labels each are coupled to all others."""
    most = min(MOST_LANDMARK_LABELS // width, MOST_COUPLINGS // (n * width**2))
    return max(1, min(n // CONFIGURATIONS_PER_LANDMARK, most))


def _with_noise(K: Float[Tensor, "m m"], scale: Scalar, noise: Scalar) -> Float[Tensor, "m m"]:
    C = K.mul_(scale)
    C.diagonal().add_(noise)
    return C


def _label_rows(configurations: Int[Tensor, " n"], width: int) -> Int[Tensor, " m"]:
    return (configurations[:, None] * width + torch.arange(width, device=configurations.device)).flatten()
