"""Squared distances, radial kernels and whitened features.

A kernel here is a function of the squared scaled distance and equals one at zero: k(x, x) = 1. The factor
|Sigma|^-1 of the paper's Sec. 3.2 is left to the regularisation lambda, which multiplies the kernel everywhere.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs
from lobal.core.linalg import safe_cholesky, whitened

Kernel: TypeAlias = Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]

# Kernel matrices of many points are made this many numbers at a time: 128 MiB in float64, and more on a GPU, which is
# slow with little to do.
CHUNK_ENTRIES = 2**24
GPU_CHUNKS = 8


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


def kernel_and_slope(
    squared_distance: Float[Tensor, "*shape"], kernel: Kernel
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """A kernel of `KERNELS` and its derivative by the squared distance, which is zero where there is none."""
    if kernel is gaussian:
        value = gaussian(squared_distance)
        return value, -0.5 * value
    r = squared_distance.sqrt()
    if kernel is matern12:
        value = torch.exp(-r)
        return value, torch.where(r > 0, -0.5 * value / r, 0.0)
    if kernel is matern32:
        s = math.sqrt(3.0) * r
        decay = torch.exp(-s)
        return (1.0 + s) * decay, -1.5 * decay
    assert kernel is matern52
    s = math.sqrt(5.0) * r
    decay = torch.exp(-s)
    linear = (1.0 + s) * decay
    return torch.addcmul(linear, decay, squared_distance, value=5.0 / 3.0), (-5.0 / 6.0) * linear


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
    squares = A.square().sum(1, keepdim=True) + B.square().sum(1)
    return torch.addmm(squares, A, B.mT, alpha=-2.0).clamp_min(0.0)


def gram_matrices(squared: Float[Tensor, "n m"], bandwidths: Bandwidths, kernel: Kernel) -> Float[Tensor, "L n m"]:
    """One kernel matrix per bandwidth from distances computed once."""
    return kernel(squared * bandwidths.square().reciprocal()[:, None, None])


def kernel_matrix(
    A: Float[Tensor, "n d"], B: Float[Tensor, "m d"], bandwidth: Float[Tensor, "..."], kernel: Kernel
) -> Float[Tensor, "n m"]:
    """k(a, b) for a single bandwidth: a number, a diagonal or a matrix.

    Distances are computed by differences. That takes longer than `squared_distances`, and is accurate where a and b are
    equal, or far from the other inputs.
    """
    a, b = scale_inputs(A, bandwidth), scale_inputs(B, bandwidth)
    return kernel(torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square())


def local_kernel_matrix(
    A: Float[Tensor, "n d"],
    a: Float[Tensor, " n"],
    B: Float[Tensor, "m d"],
    b: Float[Tensor, " m"],
    kernel: Kernel,
) -> Float[Tensor, "n m"]:
    """The kernel whose bandwidth is a at A and b at B (Gibbs 1997; Paciorek and Schervish 2004).

    (2 a b / (a^2 + b^2))^(d/2) k(|x - x'|^2 / s^2) with s^2 = (a^2 + b^2) / 2, which is positive definite for every
    kernel that is so in all dimensions.
    """
    squared = 0.5 * (a.square()[:, None] + b.square())
    ratio = a[:, None] * b / squared
    return ratio.pow(0.5 * A.shape[1]) * kernel(squared_distances(A, B) / squared)


def rows_at_once(entries_per_row: int, device: torch.device) -> int:
    """How many rows to process at a time."""
    chunks = GPU_CHUNKS if device.type == "cuda" else 1
    return max(1, chunks * CHUNK_ENTRIES // entries_per_row)


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

    def alone(self, expert: int) -> "WhitenedFeatures":
        """The features of one bandwidth."""
        one = slice(expert, expert + 1)
        return replace(self, bandwidths=self.bandwidths[one], factor=self.factor[one])

    def chunks(self, X: Inputs) -> Iterator[Float[Tensor, "L chunk m"]]:
        """Features of consecutive rows, at most `CHUNK_ENTRIES` numbers at a time."""
        return map(self, X.split(self._rows_at_once(X)))

    def stacked(self, X: Inputs) -> Float[Tensor, "L n m"]:
        """Features of all inputs in one contiguous array, computed in chunks to save memory."""
        phi = X.new_empty(len(self.bandwidths), len(X), len(self.points))
        for place, part in zip(phi.split(self._rows_at_once(X), dim=1), self.chunks(X), strict=True):
            place.copy_(part)
        return phi

    def products(self, X: Inputs, values: Float[Tensor, "L m c"]) -> Float[Tensor, "L n c"]:
        """phi(x)^T values at every input, in O(m) each: the triangular system is solved for the values once."""
        weights: Tensor = torch.linalg.solve_triangular(self.factor.mT, values, upper=True)
        return torch.cat([self._gram(part) @ weights for part in X.split(self._rows_at_once(X))], dim=1)

    def _gram(self, X: Inputs) -> Float[Tensor, "L n m"]:
        width = self.shared_bandwidth
        squared = squared_distances(scale_inputs(X, width), scale_inputs(self.points, width))
        return gram_matrices(squared, self.bandwidths, self.kernel)

    def _rows_at_once(self, X: Inputs) -> int:
        return rows_at_once(len(self.bandwidths) * len(self.points), X.device)
