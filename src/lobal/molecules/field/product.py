"""Covariances of a molecule's labels times vectors, without the covariance matrix.

A molecule of N atoms has at most 3 N - 6 ways of changing shape (one if N = 2); along the other directions, which move
and turn it as a whole, no force is ever predicted. Forces along an orthonormal basis of the former are all there is to
learn from, and for malonaldehyde 21 numbers in place of 27.

A product with the covariance of these is a prediction at the configurations learned from (see `prediction`), in which
distances, and with them g, g' and g'', are the same for every vector. It costs O(n^2 |G| D), and O(n^2 |G|) memory,
where a matrix takes O(n^2 N^2) of both and O(n^2 |G| D N^2) to be set up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.molecules.field.kernel import BLOCK_ENTRIES, GPU_BLOCK_ENTRIES, MolecularKernel, Moves, along_coordinates
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.radial import Radial
from lobal.molecules.geometry.descriptor import Geometry, dense_jacobian

# Kernel values and their derivatives are kept where they take at most so many numbers (2 GiB), else computed again.
STORED_ENTRIES = 2**28


class Internal(NamedTuple):
    """Configurations with the directions along which they change shape, and the way between these and coordinates."""

    moves: Moves
    basis: Float[Tensor, "n c coordinates"]  # orthonormal rows; none without forces

    @classmethod
    def of(cls, geometry: Geometry, labels: Labels) -> "Internal":
        """The right singular vectors of the Jacobians that belong to the largest singular values."""
        if not labels.forces:
            none = geometry.values.new_zeros(0, *geometry.values.shape)
            return cls(Moves(geometry.values, none, labels.energies), none.new_zeros(len(geometry.values), 0, 0))
        U, S, Vh = torch.linalg.svd(dense_jacobian(geometry), full_matrices=False)
        number = max(1, 3 * geometry.number_of_atoms - 6)
        jacobians = (U * S[:, None])[..., :number].permute(2, 0, 1).contiguous()
        return cls(Moves(geometry.values, jacobians, labels.energies), Vh[:, :number].contiguous())

    @classmethod
    def coordinates(cls, geometry: Geometry, labels: Labels) -> "Internal":
        """Every atom along every axis: for labels whose noise differs, and would be correlated along other ways."""
        moves = along_coordinates(geometry, labels)
        identity = torch.eye(len(moves.jacobians), dtype=geometry.values.dtype, device=geometry.values.device)
        return cls(moves, identity.expand(len(geometry.values), -1, -1))

    def reduced(self, values: Float[Tensor, "n w"]) -> Float[Tensor, "n v"]:
        """Labels, or weights of them, along the directions; energies stay as they are."""
        return self._turned(values, self.basis)

    def expanded(self, values: Float[Tensor, "n v"]) -> Float[Tensor, "n w"]:
        """The way back, nothing along the directions that change no shape."""
        return self._turned(values, self.basis.mT)

    def expanded_covariance(
        self, covariance: Float[Tensor, "n v v"], noise: Float[Tensor, "n w"]
    ) -> Float[Tensor, "n w w"]:
        """The same of covariances; along the directions that change no shape, there is noise alone."""
        e = int(self.moves.with_energies)
        both = torch.diag_embed(noise)
        across = both[:, e:, e:]
        turn = torch.zeros_like(both[:, : covariance.shape[1]])
        turn[:, :e, :e], turn[:, e:, e:] = torch.eye(e, dtype=noise.dtype, device=noise.device), self.basis
        across -= self.basis.mT @ (self.basis @ across)
        both[:, :e, :e] = 0.0
        return both + turn.mT @ covariance @ turn

    def _turned(self, values: Float[Tensor, "n w"], basis: Float[Tensor, "n to from"]) -> Float[Tensor, "n v"]:
        e = int(self.moves.with_energies)
        forces = values[:, e:] if basis.numel() == 0 else (basis @ values[:, e:, None])[..., 0]
        return torch.cat([values[:, :e], forces], dim=1)


@final
@dataclass(frozen=True)
class CovarianceProduct:
    """The map from weights of all labels to lambda K times them, for one bandwidth."""

    moves: Moves
    scale: Scalar  # lambda
    predictor: Predictor
    stored: list[Radial] | None

    @classmethod
    def of(cls, kernel: MolecularKernel, moves: Moves, *, bandwidth: Scalar, scale: Scalar) -> "CovarianceProduct":
        """Computes distances, and keeps the kernel at them if there is room."""
        predictor = Predictor.bare(kernel, moves.values, bandwidths=bandwidth[None])
        product = cls(moves, scale, predictor, None)
        if len(Radial._fields) * len(moves.values) * predictor.offsets.numel() > STORED_ENTRIES:
            return product
        return cls(moves, scale, predictor, [predictor.radials(values) for values in product._parts()])

    def __call__(self, weights: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        """Labels that all weights together predict."""
        e = int(self.moves.with_energies)
        pulled = torch.einsum("cnd,nc->nd", self.moves.jacobians, weights[:, e:])
        predictor = self.predictor.weighted(weights[None, :, 0] if e else None, pulled[None])
        radials = self.stored or (predictor.radials(values) for values in self._parts())
        parts = [predictor.contracted(values, g) for values, g in zip(self._parts(), radials, strict=True)]
        energies, slope = (torch.cat(columns, dim=1)[0] for columns in zip(*parts, strict=True))
        forces = -torch.einsum("cnd,nd->nc", self.moves.jacobians, slope)
        return self.scale * torch.cat([energies[:, None][:, :e], forces], dim=1)

    def _parts(self) -> Iterator[Float[Tensor, "m D"]]:
        """Configurations some at a time: on a CPU, what is computed in between stays in the cache."""
        entries = GPU_BLOCK_ENTRIES if self.moves.values.is_cuda else BLOCK_ENTRIES
        return iter(self.moves.values.split(max(1, entries // self.predictor.offsets.numel())))
