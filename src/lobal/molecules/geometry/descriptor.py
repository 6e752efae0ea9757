"""Inverse interatomic distances of a molecule and their derivatives by the atoms' positions.

Phi(R)_p = 1 / |r_i - r_j| for every pair p = (i, j) with i < j, in the order of `atom_pairs` (Appendix, "The sGDML
model"): blind to translation, rotation and reflection. A pair moves with two of the atoms only, and in opposite
directions, so the Jacobian is kept as one vector per pair: its derivative by r_i, which is minus that by r_j.
"""

import math
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import resolve_device

Positions: TypeAlias = Float[Tensor, "n N 3"]
Descriptors: TypeAlias = Float[Tensor, "n D"]  # D = N (N - 1) / 2

# Atoms nearer to each other than this share of the molecule's extent have lost the digits of their direction.
SMALLEST_DISTANCE = 1e-7
# Configurations described at a time: a file may hold hundreds of thousands.
DESCRIBED_TOGETHER = 4096


class Geometry(NamedTuple):
    """Configurations as the kernel sees them."""

    values: Descriptors  # Phi
    gradients: Float[Tensor, "n D 3"]  # of each pair by the position of its first atom

    @property
    def number_of_atoms(self) -> int:
        """N, from D = N (N - 1) / 2."""
        return (1 + math.isqrt(1 + 8 * self.values.shape[1])) // 2

    def to(self, device: str | torch.device) -> "Geometry":
        """The same on a device."""
        return Geometry(self.values.to(device), self.gradients.to(device))

    def at(self, rows: slice | Int[Tensor, " k"]) -> "Geometry":
        """The configurations of some rows."""
        return Geometry(self.values[rows], self.gradients[rows])


def atom_pairs(number_of_atoms: int, device: torch.device | None = None) -> Int[Tensor, "2 D"]:
    """First and second atom of every pair: (0, 1), (0, 2), ..., (1, 2), ..."""
    return torch.triu_indices(number_of_atoms, number_of_atoms, offset=1, device=device)


def pair_numbers(number_of_atoms: int, device: torch.device | None = None) -> Int[Tensor, "N N"]:
    """The place of each pair among the descriptors, in either order of atoms; zero on the diagonal."""
    first, second = atom_pairs(number_of_atoms, device)
    numbers = torch.zeros(number_of_atoms, number_of_atoms, dtype=torch.long, device=device)
    numbers[first, second] = numbers[second, first] = torch.arange(len(first), device=device)
    return numbers


def describe(R: Float[Tensor, "..."], *, start: int = 0) -> Geometry:
    """Descriptors and compact Jacobian of configurations (n, N, 3), which messages number from `start` on.

    Raises:
        ValueError: R has another shape, holds NaN or infinite numbers, or two atoms of a configuration coincide.
    """
    _check(R, start)
    first, second = atom_pairs(R.shape[1], R.device)
    difference = R[:, first] - R[:, second]
    distance: Tensor = torch.linalg.vector_norm(difference, dim=-1)
    coincide = distance <= SMALLEST_DISTANCE * distance.amax(1, keepdim=True)
    if coincide.any():
        row, pair = (int(i) for i in coincide.nonzero()[0])
        raise ValueError(
            f"atoms {int(first[pair])} and {int(second[pair])} of configuration {start + row} coincide (distance "
            f"{distance[row, pair].item():g}); their inverse distance is not defined, remove the configuration"
        )
    values = distance.reciprocal()
    return Geometry(values, -difference * values.pow(3)[..., None])


def descriptors(R: Float[Tensor, "..."], device: str | torch.device | None = None) -> Descriptors:
    """Phi of many configurations, on a device; raises what `describe` raises."""
    starts = range(0, max(1, len(R)), DESCRIBED_TOGETHER)
    parts = [(R[start : start + DESCRIBED_TOGETHER].to(resolve_device(device)), start) for start in starts]
    return torch.cat([describe(part, start=start).values for part, start in parts])


def distance_matrices(R: Positions) -> Float[Tensor, "n N N"]:
    """Distances between all atoms of each configuration."""
    distances: Tensor = torch.linalg.vector_norm(R[:, :, None] - R[:, None], dim=-1)
    return distances


def dense_jacobian(geometry: Geometry) -> Float[Tensor, "n D coordinates"]:
    """dPhi / dR in full, the positions flattened atom by atom."""
    n, D, _ = geometry.gradients.shape
    first, second = atom_pairs(geometry.number_of_atoms, geometry.values.device)
    pairs = torch.arange(D, device=first.device)
    J = geometry.gradients.new_zeros(n, D, geometry.number_of_atoms, 3)
    J[:, pairs, first] = geometry.gradients
    J[:, pairs, second] = -geometry.gradients
    return J.flatten(2)


def jacobian_product(geometry: Geometry, motion: Float[Tensor, "*batch n N 3"]) -> Float[Tensor, "*batch n D"]:
    """J times displacements of the atoms: the change of every descriptor, to first order."""
    first, second = atom_pairs(geometry.number_of_atoms, motion.device)
    return ((motion[..., first, :] - motion[..., second, :]) * geometry.gradients).sum(-1)


def transposed_product(geometry: Geometry, slope: Float[Tensor, "*batch n D"]) -> Float[Tensor, "*batch n N 3"]:
    """J^T times derivatives by the descriptors: derivatives by the positions, in O(D) a configuration.

    Each atom gathers the contributions of its pairs, rather than each pair adding to two atoms: the sum is then in the
    same order on every device.
    """
    N = geometry.number_of_atoms
    numbers = pair_numbers(N, slope.device)
    sign = torch.ones(N, N, dtype=slope.dtype, device=slope.device).triu(1)
    sign = sign - sign.mT  # +1 where the atom is the first of its pair, -1 where it is the second
    return ((slope[..., None] * geometry.gradients)[..., numbers, :] * sign[..., None]).sum(-2)


def _check(R: Float[Tensor, "..."], start: int) -> None:
    if R.ndim != 3 or R.shape[1] < 2 or R.shape[2] != 3:
        raise ValueError(
            f"positions must have shape (n, N, 3) with at least 2 atoms, got {tuple(R.shape)}; "
            "a single configuration is R[None]"
        )
    if not torch.isfinite(R).all():
        row, atom, _ = (int(i) for i in (~torch.isfinite(R)).nonzero()[0])
        raise ValueError(
            f"positions must be finite, got {R[row, atom].tolist()} for atom {atom} of configuration {start + row}"
        )
