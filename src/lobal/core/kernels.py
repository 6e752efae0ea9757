"""Squared distances, radial kernels, a safe Cholesky factor and whitened features.

A kernel here is a function of the squared scaled distance and equals one at zero: k(x, x) = 1. The factor
|Sigma|^-1 of the paper's Sec. 3.2 is left to the regularisation lambda, which multiplies the kernel everywhere.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs

logger = logging.getLogger(__name__)

Kernel: TypeAlias = Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]

# The smallest and largest relative jitter that `safe_cholesky` tries: below the first nothing happens in float64,
# above the second the matrix is not a covariance matrix in any useful sense.
SMALLEST_JITTER = 1e-10
LARGEST_JITTER = 1e-2
# Kernel matrices of many points are made this many numbers at a time: 128 MiB in float64, and more on a GPU, which is
# slow with little to do.
CHUNK_ENTRIES = 2**24
GPU_CHUNKS = 8
# A GPU solves triangular systems by matrix products, from blocks of this many equations.
BLOCK = 128


def gaussian(squared_distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Gaussian kernel exp(-r^2 / 2)."""
    return (-0.5 * squared_distance).exp_()


def matern12(squared_distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Matern kernel of order 1/2, exp(-r)."""
    return torch.exp(-_distance(squared_distance))


def matern32(squared_distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Matern kernel of order 3/2, (1 + s) exp(-s) with s = sqrt(3) r."""
    s = math.sqrt(3.0) * _distance(squared_distance)
    return (1.0 + s) * torch.exp(-s)


def matern52(squared_distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Matern kernel of order 5/2, (1 + s + s^2/3) exp(-s) with s = sqrt(5) r."""
    s = math.sqrt(5.0) * _distance(squared_distance)
    return (1.0 + s + s.square() / 3.0) * torch.exp(-s)


KERNELS: dict[str, Kernel] = {"gaussian": gaussian, "matern12": matern12, "matern32": matern32, "matern52": matern52}


def kernel_named(name: str) -> Kernel:
    """The kernel of that name, one of `KERNELS`."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {sorted(KERNELS)}, got {name!r}")
    return KERNELS[name]


def _distance(squared_distance: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    # The square root has no derivative at zero; the smallest normal number keeps gradients finite there.
    return squared_distance.clamp_min(torch.finfo(squared_distance.dtype).tiny).sqrt()


def scale_inputs(X: Inputs, bandwidth: Float[Tensor, "..."]) -> Inputs:
    """Inputs in units of the bandwidth, Sigma^-1 x.

    `bandwidth` is a number, the diagonal (d,) of Sigma, or a positive definite Sigma (d, d).
    """
    if bandwidth.ndim < 2:
        return X / bandwidth
    scaled: Tensor = torch.linalg.solve(bandwidth, X.mT)
    return scaled.mT


def squared_distances(A: Float[Tensor, "n d"], B: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Pairwise squared Euclidean distances, never negative.

    By differences in one dimension, by one matrix product in more. Inputs are centred first, to keep their digits where
    they lie far from the origin.
    """
    if A.shape[1] == 1:
        return (A - B.mT).square()
    centre = B.mean(0)
    A, B = A - centre, B - centre
    squares = A.square().sum(-1, keepdim=True) + B.square().sum(-1)
    return torch.addmm(squares, A, B.mT, alpha=-2.0).clamp_min(0.0)


def gram_matrices(squared: Float[Tensor, "n m"], bandwidths: Bandwidths, kernel: Kernel) -> Float[Tensor, "L n m"]:
    """One kernel matrix per bandwidth from distances computed once."""
    return kernel(squared * bandwidths.square().reciprocal()[:, None, None])


def rows_at_once(entries_per_row: int, device: torch.device) -> int:
    """How many rows to process at a time."""
    chunks = GPU_CHUNKS if device.type == "cuda" else 1
    return max(1, chunks * CHUNK_ENTRIES // entries_per_row)


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


@final
@dataclass(frozen=True, kw_only=True)
class WhitenedFeatures:
    """The map x -> phi_l(x) = L_l^-1 k_l(Z, x), with L_l L_l^T = k_l(Z, Z), for every bandwidth at once.

    A function with whitened inducing values b is then mean + sqrt(lambda) phi^T b, and phi^T phi is the Nystroem
    diagonal q(x).
    """

    points: Float[Tensor, "m d"]  # Z
    bandwidths: Bandwidths  # sigma_l
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E: a number, a diagonal or a matrix
    kernel: Kernel
    factor: Float[Tensor, "L m m"]

    @classmethod
    def at(
        cls, points: Inputs, *, bandwidths: Bandwidths, shared_bandwidth: Float[Tensor, "..."], kernel: Kernel
    ) -> "WhitenedFeatures":
        """Features at the given inducing points; factorises their L kernel matrices."""
        scaled = scale_inputs(points, shared_bandwidth)
        K_zz = gram_matrices(squared_distances(scaled, scaled), bandwidths, kernel)
        # Contiguous as in a saved file, so that a loaded model computes the same bits.
        factor = safe_cholesky(K_zz).lower.contiguous()
        return cls(
            points=points, bandwidths=bandwidths, shared_bandwidth=shared_bandwidth, kernel=kernel, factor=factor
        )

    def __call__(self, X: Inputs) -> Float[Tensor, "L n m"]:
        """Whitened features of all inputs."""
        return whitened(self.factor, self._gram(X))

    def chunks(self, X: Inputs) -> Iterator[Float[Tensor, "L chunk m"]]:
        """Features of consecutive rows, at most `CHUNK_ENTRIES` numbers at a time."""
        return map(self, self._parts(X))

    def stacked(self, X: Inputs) -> Float[Tensor, "L n m"]:
        """Features of all inputs in one contiguous array, computed in chunks to save memory."""
        phi = X.new_empty(len(self.bandwidths), len(X), len(self.points))
        begun = 0
        for part in self.chunks(X):
            phi[:, begun : begun + part.shape[1]] = part
            begun += part.shape[1]
        return phi

    def products(self, X: Inputs, values: Float[Tensor, "L m c"]) -> Float[Tensor, "L n c"]:
        """phi(x)^T values at every input, in O(m) each: the triangular system is solved for the values once."""
        weights: Tensor = torch.linalg.solve_triangular(self.factor.mT, values, upper=True)
        return torch.cat([self._gram(part) @ weights for part in self._parts(X)], dim=1)

    def _gram(self, X: Inputs) -> Float[Tensor, "L n m"]:
        width = self.shared_bandwidth
        squared = squared_distances(scale_inputs(X, width), scale_inputs(self.points, width))
        return gram_matrices(squared, self.bandwidths, self.kernel)

    def _parts(self, X: Inputs) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = X.split(rows_at_once(len(self.bandwidths) * len(self.points), X.device))
        return parts
