"""Covariances of the energies and forces of symmetric molecules, by closed formulas.

With the descriptors Phi, A = Sigma^-2 and s = (Phi - Phi')^T A (Phi - Phi') / sigma^2, a radial kernel g(s) of the
energy implies, for delta = Phi - Phi' and the Jacobians J and J' (Appendix, "The sGDML model"),

    Cov(E, E') = g
    Cov(E, F') = 2 g' / sigma^2  (A delta)^T J'
    Cov(F, E') = -2 g' / sigma^2  J^T A delta
    Cov(F, F') = -2 g' / sigma^2  J^T A J'  -  4 g'' / sigma^4  (J^T A delta) (J'^T A delta)^T.

The paper prints covariances of the gradient; forces are minus that, which is where the signs come from.

Eq. (eq:sGDMLKernel) sums over permutations of both configurations. |Sigma^-1 (pi_s Phi - pi_t Phi')| is the distance
under the bandwidth permuted by pi_s^-1 of Phi and pi_s^-1 pi_t Phi', so the double sum is one over the *distinct*
permuted bandwidths, of which each configuration of one side alone is permuted. There is one bandwidth if the group
leaves it as it is, isotropic ones among them, and the cost is then that of one sum. The sum is divided by the order
of the group: it equals that of the sgdml package where Sigma is isotropic, and a configuration far from its own
permutations has prior variance one. The regularisation lambda takes the paper's factor.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.kernels import squared_distances
from lobal.molecules.field.radial import RadialKernel
from lobal.molecules.geometry.permutations import Permutations, check_group, descriptor_permutations

# Numbers in one block of force covariances: on a CPU it stays in the cache, a GPU is faster with large blocks.
BLOCK_ENTRIES = 2**19
GPU_BLOCK_ENTRIES = 2**25
# Permuted bandwidths that differ by less than rounding are the same.
SAME_BANDWIDTH = 1e-12


@final
@dataclass(frozen=True, kw_only=True)
class MolecularKernel:
    """The kernel but for the bandwidths sigma_l."""

    radial: RadialKernel  # g
    shared_bandwidth: Float[Tensor, " D"]  # diagonal of Sigma
    permutations: Permutations  # a group, the identity first

    def __post_init__(self) -> None:
        check_group(self.permutations)
        N = self.permutations.shape[1]
        if self.shared_bandwidth.shape != (N * (N - 1) // 2,):
            raise ValueError(
                f"the bandwidth of {N} atoms must have {N * (N - 1) // 2} entries, one per pair of atoms, "
                f"got shape {tuple(self.shared_bandwidth.shape)}"
            )
        if not (torch.isfinite(self.shared_bandwidth).all() and (self.shared_bandwidth > 0.0).all()):
            raise ValueError(f"bandwidths must be finite and above zero, got {self.shared_bandwidth.tolist()}")

    def scales(self) -> "Scales":
        """Distinct permuted bandwidths and the share of the double sum that each has."""
        permuted = self.shared_bandwidth[descriptor_permutations(self.permutations)]
        same = ((permuted[:, None] - permuted).abs() <= SAME_BANDWIDTH * permuted).all(-1)
        first = same.int().argmax(1)  # of each permutation: the first one with the same bandwidth
        distinct, count = first.unique(return_counts=True)
        return Scales(permuted[distinct], count.to(self.shared_bandwidth.dtype) / len(permuted))


class Scales(NamedTuple):
    """Bandwidths Sigma_b, b = 1 ... B, whose kernels are summed, and their weights, which sum to one."""

    bandwidths: Float[Tensor, "B D"]
    weights: Float[Tensor, " B"]


class Moves(NamedTuple):
    """Configurations, and the change of their descriptors along some directions of motion.

    Directions come before configurations: the innermost index of a block of covariances is then a long one.
    """

    values: Float[Tensor, "n D"]  # Phi
    jacobians: Float[Tensor, "c n D"]  # J times each direction; none without forces among the labels
    with_energies: bool

    @property
    def width(self) -> int:
        """Labels per configuration."""
        return self.with_energies + len(self.jacobians)

    def at(self, rows: slice | Int[Tensor, " m"]) -> "Moves":
        """The configurations of some rows."""
        return Moves(self.values[rows], self.jacobians[:, rows], self.with_energies)


def energies_at(values: Float[Tensor, "n D"]) -> Moves:
    """Configurations with energies as their only labels."""
    return Moves(values, values.new_zeros(0, *values.shape), with_energies=True)


def covariance_along(
    kernel: MolecularKernel, left: Moves, right: Moves | None = None, *, bandwidths: Bandwidths
) -> Float[Tensor, "L n_rows n_columns"]:
    """Covariances of energies, and of forces along directions, one matrix per bandwidth sigma_l.

    Labels are sorted by configuration, of each the energy first: (E, F) is what the paper calls k(z, z'). Without a
    right side the left side is taken with itself, and half of it computed. Differentiable in bandwidths and Sigma.
    """
    mirrored, right = right is None, right or left
    n, m, a, b = len(left.values), len(right.values), left.width, right.width
    K = left.values.new_empty(len(bandwidths), n, a, m, b)
    centre = right.values.mean(0)  # taken off all descriptors: products of large numbers would lose their difference
    # Configurations per block on either side.
    edge = max(1, math.isqrt((GPU_BLOCK_ENTRIES if K.is_cuda else BLOCK_ENTRIES) // (a * b)))
    for i in _slices(0, n, edge):
        for j in _slices(i.start if mirrored else 0, m, edge):
            block = _block(kernel, left.at(i), right.at(j), bandwidths, centre)
            K[:, i, :, j] = block.permute(0, 2, 1, 4, 3)
            if mirrored and j.start > i.start:
                K[:, j, :, i] = block.permute(0, 4, 3, 2, 1)
    return K.flatten(3, 4).flatten(1, 2)


def _block(
    kernel: MolecularKernel, left: Moves, right: Moves, bandwidths: Bandwidths, centre: Float[Tensor, " D"]
) -> Float[Tensor, "L a n b m"]:
    """Covariances of all labels, summed over scales and permutations; coordinates come before configurations."""
    K = centre.new_zeros(len(bandwidths), left.width, len(left.values), right.width, len(right.values))
    e, f = int(left.with_energies), int(right.with_energies)  # per configuration, before the forces
    precision, columns = bandwidths.square().reciprocal()[:, None, None], descriptor_permutations(kernel.permutations)
    for Sigma, weight in zip(*kernel.scales(), strict=True):
        inverse = Sigma.reciprocal()
        x, X = (left.values - centre) * inverse, left.jacobians * inverse
        for c in columns:
            pair = _pair(x, (right.values[:, c] - centre) / Sigma, X, right.jacobians[..., c] / Sigma)
            g = kernel.radial(pair.squared * precision)
            slope = 2.0 * weight * precision * g.first
            curvature = 4.0 * weight * precision.square() * g.second
            if e and f:
                K[:, 0, :, 0] += weight * g.value
            if e:
                K[:, 0, :, f:] += slope[:, :, None] * pair.right
            if f:
                K[:, e:, :, 0] -= slope[:, None] * pair.left
            for expert in range(len(K)):  # in place and one by one: nothing of this size is made in between
                forces = K[expert, e:, :, f:]
                forces.addcmul_(pair.products, slope[expert, None, :, None], value=-1.0)
                forces.addcmul_((curvature[expert] * pair.left)[:, :, None], pair.right[None], value=-1.0)
    return K


class _Pair(NamedTuple):
    """Terms that the covariances under all bandwidths have in common, with delta = Phi - Phi'."""

    squared: Float[Tensor, "n m"]  # delta^T A delta
    left: Float[Tensor, "c n m"]  # J^T A delta
    right: Float[Tensor, "n k m"]  # J'^T A delta
    products: Float[Tensor, "c n k m"]  # J^T A J'


def _pair(
    x: Float[Tensor, "n D"], y: Float[Tensor, "m D"], X: Float[Tensor, "c n D"], Y: Float[Tensor, "k m D"]
) -> _Pair:
    """Products of descriptors and Jacobians in units of Sigma, each by one matrix product."""
    c, k, n, m = len(X), len(Y), len(x), len(y)
    X_flat, Y_flat = X.flatten(0, 1), Y.flatten(0, 1)
    left = (X * x).sum(-1)[..., None] - (X_flat @ y.mT).view(c, n, m)
    right = (x @ Y_flat.mT).view(n, k, m) - (Y * y).sum(-1)
    return _Pair(squared_distances(x, y), left, right, (X_flat @ Y_flat.mT).view(c, n, k, m))


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(begin, min(begin + step, stop)) for begin in range(start, stop, step))
