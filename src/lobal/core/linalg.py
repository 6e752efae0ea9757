"""Linear algebra: Cholesky factors with jitter, triangular systems, correlation matrices."""

import logging
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

logger = logging.getLogger(__name__)

# The smallest and largest relative jitter that `safe_cholesky` tries: below the first nothing happens in float64,
# above the second the matrix is not a covariance matrix in any useful sense.
SMALLEST_JITTER = 1e-10
LARGEST_JITTER = 1e-2
# Rounding errors of a posterior covariance, in units of the prior variance: about 1e-14, and up to 1e-6 for a kernel
# that is not differentiable.
ROUNDING_ERRORS = tuple(10.0**exponent for exponent in range(-14, -1))
# A GPU solves triangular systems by matrix products, from blocks of this many equations.
BLOCK = 128


def whitened(factor: Float[Tensor, "L m m"], rows: Float[Tensor, "L n m"]) -> Float[Tensor, "L n m"]:
    """R^-1 times every row, for lower triangular R."""
    if rows.device.type == "cuda":
        return _whitened_by_blocks(factor, rows)
    columns: Tensor = torch.linalg.solve_triangular(factor, rows.mT, upper=False)
    return columns.mT


def _whitened_by_blocks(factor: Float[Tensor, "L m m"], rows: Float[Tensor, "L n m"]) -> Float[Tensor, "L n m"]:
    """Forward substitution by blocks: matrix products, except for the small blocks on the diagonal."""
    solved = torch.empty_like(rows)
    for start in range(0, rows.shape[2], BLOCK):
        block = slice(start, start + BLOCK)
        right = rows[:, :, block]
        if start > 0:
            right = torch.baddbmm(right, solved[:, :, :start], factor[:, block, :start].mT, alpha=-1.0)
        diagonal = factor[:, block, block]
        identity = torch.eye(diagonal.shape[1], dtype=factor.dtype, device=factor.device)
        inverse: Tensor = torch.linalg.solve_triangular(diagonal, identity, upper=False)
        solved[:, :, block] = right @ inverse.mT
    return solved


class Factor(NamedTuple):
    """Lower Cholesky factors and the jitter each needed."""

    lower: Float[Tensor, "*batch m m"]
    jitter: Float[Tensor, "*batch"]


def safe_cholesky(
    K: Float[Tensor, "*batch m m"], *, first_jitter: float = SMALLEST_JITTER, in_place: bool = False
) -> Factor:
    """Cholesky factors of K + jitter * diag(K) with the least jitter that works, matrix by matrix.

    The jitter starts at `first_jitter`, which may be zero, and grows tenfold where the factorisation fails, from
    `SMALLEST_JITTER` on; growth is logged. It is relative to each diagonal entry, so that one label with huge noise
    leaves the others as they are. With `in_place`, the jitter stays on the diagonal of K and K is not copied.

    Raises:
        ValueError: K holds NaN, or is not positive definite even with `LARGEST_JITTER`.
    """
    diagonal = K.diagonal(dim1=-2, dim2=-1).clone()
    if not torch.isfinite(K.detach().sum()):  # of the sum: isfinite(K) would be another matrix
        raise ValueError("a kernel matrix holds NaN or infinite entries; check the inputs and bandwidths for them")
    jitter = torch.full_like(diagonal[..., 0], first_jitter)
    while True:
        jittered = K if in_place else K.clone()
        jittered.diagonal(dim1=-2, dim2=-1).copy_(diagonal + jitter[..., None] * diagonal)
        lower, failed = torch.linalg.cholesky_ex(jittered)
        if not failed.any():
            break
        jitter = torch.where(failed > 0, (10.0 * jitter).clamp_min(SMALLEST_JITTER), jitter)
        if jitter.max() > LARGEST_JITTER:
            raise ValueError(
                f"a {K.shape[-1]} x {K.shape[-1]} kernel matrix is not positive definite with jitter "
                f"{LARGEST_JITTER:g}; remove duplicate inputs or raise the noise"
            )
    if jitter.max() > first_jitter:
        logger.info("Cholesky factorisation of %s needed jitter %.0e", tuple(K.shape), jitter.max().item())
    return Factor(lower, jitter)


class Correlation(NamedTuple):
    """A correlation matrix and its lower Cholesky factor."""

    matrix: Float[Tensor, "n n"]
    factor: Float[Tensor, "n n"]


def correlation(C: Float[Tensor, "n n"], *, prior: Float[Tensor, ""]) -> Correlation:
    """The correlation matrix of a posterior covariance, positive definite and with a diagonal of exactly one.

    The diagonal of C is raised by the least rounding error that makes C positive definite, `ROUNDING_ERRORS` times the
    prior variance. Where the variance of C is zero, the row is that of the identity. Entries above the diagonal of C
    are ignored.

    Raises:
        ValueError: C holds NaN, or is far from a covariance.
    """
    if not torch.isfinite(C.sum()):
        raise ValueError("a posterior covariance holds NaN or infinite entries; check the inputs and labels for them")
    raised, variance = C.tril() + C.tril(-1).mT, C.diagonal().clamp_min(0.0)
    for error in ROUNDING_ERRORS:
        raised.diagonal().copy_(variance + error * prior)
        lower, failed = torch.linalg.cholesky_ex(raised)
        if not failed:
            deviation = raised.diagonal().sqrt()
            matrix = raised.div_(deviation * deviation[:, None])
            matrix.diagonal().fill_(1.0)
            return Correlation(matrix, lower / deviation[:, None])
    raise ValueError(
        f"a {len(C)} x {len(C)} posterior covariance is not positive definite even with {ROUNDING_ERRORS[-1]:g} of the "
        "prior variance on its diagonal; raise the noise, or ask for fewer inputs at once"
    )
