"""Weights alpha = (lambda K + v I)^-1 y of one expert by preconditioned conjugate gradients.

The covariance C of molecules has eigenvalues over ten orders of magnitude, few of them large. The preconditioner is C
with some couplings left out: a small set of configurations, the shared ones, is coupled to all, the others to those in
the same group only *beyond* what the shared ones explain. Ordered so, with R the factor of the shared block,
U = R^-1 C_shared,rest and S_g the blocks of what is left, C - U^T U,

    P = [R 0; U^T F] [R 0; U^T F]^T,   F = diag(F_1 ... F_G),   F_g F_g^T = S_g.

Eliminating block by block keeps the digits that a formula for the inverse of low rank plus diagonal loses: an error in
F is damped by S, which is small, and not multiplied by C. For this reason single precision is enough for the F_g, and
conjugate gradients with residuals in double precision make up for it. One group is a Cholesky factorisation in mixed
precision; groups of one configuration are FITC's approximation.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import safe_cholesky
from lobal.experts.interface import Hyperparameters
from lobal.molecules.field.kernel import MolecularKernel, Moves, covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.product import CovarianceProduct, Internal
from lobal.molecules.geometry.clustering import far_apart

logger = logging.getLogger(__name__)

# The residual that is left, by that of alpha = 0: forces of 1 eV/A are then met to 1e-5 eV/A, but for the noise. For
# malonaldehyde, errors at other configurations are those of a factorisation to four digits from 1e-4 on.
TOLERANCE = 1e-5
MOST_ITERATIONS = 1000
# One in so many configurations is shared, up to so many labels, and up to so many numbers in U (1 GiB).
CONFIGURATIONS_PER_SHARED = 5
MOST_SHARED = 2500
MOST_COUPLINGS = 2**27
# Labels per group. For 500 configurations of malonaldehyde, 3000 take fewer iterations and as much time.
GROUP = 1000
# Columns of what is left computed at a time.
PANEL = 128
# Rounding in single precision, by the diagonal.
SINGLE_JITTER = 1e-6


class Solution(NamedTuple):
    """Weights, and how well they solve the equations."""

    weights: Float[Tensor, " m"]
    residual: float  # |y - C alpha| / |y|
    iterations: int


def solved(
    data: LabelledMolecules,
    kernel: MolecularKernel,
    *,
    bandwidth: Scalar,
    labels: Labels,
    hyperparameters: Hyperparameters,
    tolerance: float = TOLERANCE,
) -> Solution:
    """Weights of all labels, as a Cholesky factor gives them, but zero where forces cannot be predicted.

    These are the directions that move or turn a molecule as a whole; weights along them predict nothing. The noise is
    one number. O(n^2 |G| D) time an iteration, and memory without any n^2 N^2.
    """
    internal = Internal.of(data.geometry, labels)
    y = internal.reduced(data.residual(labels, hyperparameters.mean))
    scale, noise = hyperparameters.scale, hyperparameters.noise
    K = CovarianceProduct.of(kernel, internal.moves, bandwidth=bandwidth, scale=scale)
    P = Elimination.of(kernel, internal.moves, bandwidth=bandwidth, scale=scale, noise=noise)
    alpha, residual, iterations = conjugate_gradients(lambda w: K(w) + noise * w, P, y, tolerance=tolerance)
    logger.info("%d labels: residual %.1e after %d iterations", y.numel(), residual, iterations)
    return Solution(internal.expanded(alpha).flatten(), residual, iterations)


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    y: Float[Tensor, "*shape"],
    *,
    tolerance: float,
    most_iterations: int = MOST_ITERATIONS,
) -> tuple[Float[Tensor, "*shape"], float, int]:
    """C^-1 y, the relative residual that is left, and the number of iterations.

    The flexible variant: the step after next need not be conjugate to a preconditioner that rounds.
    """
    alpha, r, size = torch.zeros_like(y), y, y.norm()
    z = precondition(r)
    direction, r_z, iteration = z, (r * z).sum(), 0
    while r.norm() > tolerance * size and iteration < most_iterations:
        image = product(direction)
        step = r_z / (direction * image).sum()
        alpha = alpha + step * direction
        before, r = r, r - step * image
        z = precondition(r)
        direction = z + ((r - before) * z).sum() / r_z * direction
        r_z = (r * z).sum()
        iteration += 1
    left = (y - product(alpha)).norm() / size if size > 0.0 else size
    return alpha, float(left), iteration


class _Group(NamedTuple):
    """Labels of one group: U, and F with S brought to a diagonal of one."""

    rows: Int[Tensor, " q"]
    U: Float[Tensor, "s q"]
    scale: Float[Tensor, " q"]  # diag(S)^(-1/2)
    factor: Float[Tensor, "q q"]  # in single precision


@final
@dataclass(frozen=True)
class Elimination:
    """The map r -> P^-1 r."""

    shared: Int[Tensor, " s"]
    factor: Float[Tensor, "s s"]  # R
    groups: list[_Group]

    @classmethod
    def of(
        cls, kernel: MolecularKernel, moves: Moves, *, bandwidth: Scalar, scale: Scalar, noise: Scalar
    ) -> "Elimination":
        """Shared configurations are far apart, which takes a sixth off the iterations of those at random."""
        w, bandwidths = moves.width, bandwidth[None]
        shared = far_apart(moves.values, number_shared(len(moves.values), w), kernel.permutations)
        rest = torch.ones_like(moves.values[:, 0], dtype=torch.bool).index_fill(0, shared, False).nonzero()[:, 0]
        K_ss = covariance_along(kernel, moves.at(shared), bandwidths=bandwidths)[0]
        R = safe_cholesky(_with_noise(K_ss, scale, noise)).lower
        groups = []
        for rows in rest.split(max(1, GROUP // w)):
            some = moves.at(rows)
            K_sg = scale * covariance_along(kernel, moves.at(shared), some, bandwidths=bandwidths)[0]
            U: Tensor = torch.linalg.solve_triangular(R, K_sg, upper=False)
            C = _with_noise(covariance_along(kernel, some, bandwidths=bandwidths)[0], scale, noise)
            groups.append(_Group(_label_rows(rows, w), U, *_single_factor(_less_products(C, U), noise)))
        return cls(_label_rows(shared, w), R, groups)

    def __call__(self, r: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        """Forward through the factor and back."""
        flat = r.flatten()
        z = torch.empty_like(flat)
        forward: Tensor = torch.linalg.solve_triangular(self.factor, flat[self.shared, None], upper=False)
        backward = forward
        for rows, U, scale, factor in self.groups:
            own = (scale * (flat[rows] - (U.mT @ forward)[:, 0]))[:, None].to(factor.dtype)
            own = torch.linalg.solve_triangular(factor, own, upper=False)
            own = torch.linalg.solve_triangular(factor.mT, own, upper=True)
            z[rows] = scale * own[:, 0].to(flat.dtype)
            backward = backward - U @ z[rows, None]
        z[self.shared] = torch.linalg.solve_triangular(self.factor.mT, backward, upper=True)[:, 0]
        return z.view_as(r)


def number_shared(n: int, width: int) -> int:
    """How many of n configurations with so many labels each are coupled to all."""
    most = min(MOST_SHARED // width, MOST_COUPLINGS // (n * width**2))
    return max(1, min(n // CONFIGURATIONS_PER_SHARED, most))


def _less_products(C: Float[Tensor, "q q"], U: Float[Tensor, "s q"]) -> Float[Tensor, "q q"]:
    """C - U^T U in place, of which nothing but the lower triangle is right: a factorisation reads no more."""
    for start in range(0, len(C), PANEL):
        rows, columns = slice(start, start + PANEL), slice(start + PANEL)
        C[rows, columns].addmm_(U[:, rows].mT, U[:, columns], alpha=-1.0)
    return C


def _single_factor(S: Float[Tensor, "q q"], noise: Scalar) -> tuple[Float[Tensor, " q"], Float[Tensor, "q q"]]:
    """The scale of a positive definite matrix, and the factor of what it then is, in single precision."""
    # Never less than the noise in exact arithmetic, and the noise may be zero.
    scale = S.diagonal().clamp_min(0.5 * noise).clamp_min(torch.finfo(S.dtype).tiny).rsqrt()
    single = (S * scale * scale[:, None]).to(torch.float32)
    single.diagonal().add_(SINGLE_JITTER)
    return scale, safe_cholesky(single).lower


def _with_noise(K: Float[Tensor, "m m"], scale: Scalar, noise: Scalar) -> Float[Tensor, "m m"]:
    C = K.mul_(scale)
    C.diagonal().add_(noise)
    return C


def _label_rows(configurations: Int[Tensor, " n"], width: int) -> Int[Tensor, " m"]:
    return (configurations[:, None] * width + torch.arange(width, device=configurations.device)).flatten()
