"""Directions along which a molecule changes shape.

A molecule of N atoms has at most 3 N - 6 of them (one if N = 2). Along all others, which move and turn it as a whole,
predicted forces vanish. Forces along an orthonormal basis of the former contain all there is to learn: 21 numbers in
place of 27 for malonaldehyde.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.molecules.field.kernel import Moves, energies_at
from lobal.molecules.field.labels import Labels
from lobal.molecules.geometry.descriptor import Geometry, dense_jacobian


class ShapeDirections(NamedTuple):
    """Configurations with the directions along which they change shape, and the map between these and coordinates."""

    moves: Moves
    basis: Float[Tensor, "n c coordinates"]  # orthonormal rows; none without forces

    @classmethod
    def of(cls, geometry: Geometry, labels: Labels) -> "ShapeDirections":
        """The right singular vectors of the Jacobians that belong to the largest singular values."""
        if not labels.forces:
            return cls(energies_at(geometry.values), geometry.values.new_zeros(len(geometry.values), 0, 0))
        U, S, Vh = torch.linalg.svd(dense_jacobian(geometry), full_matrices=False)
        number = max(1, 3 * geometry.number_of_atoms - 6)
        jacobians = (U * S[:, None])[..., :number].permute(2, 0, 1).contiguous()
        return cls(Moves(geometry.values, jacobians, labels.energies), Vh[:, :number].contiguous())

    def reduced(self, values: Float[Tensor, "n w"]) -> Float[Tensor, "n v"]:
        """Labels or their weights along the directions; energies stay as they are."""
        return self._in_basis(values, self.basis)

    def expanded(self, values: Float[Tensor, "n v"]) -> Float[Tensor, "n w"]:
        """The inverse of `reduced`, zero along directions that change no shape."""
        return self._in_basis(values, self.basis.mT)

    def _in_basis(self, values: Float[Tensor, "n w"], basis: Float[Tensor, "n to from"]) -> Float[Tensor, "n v"]:
        e = int(self.moves.with_energies)
        forces = values[:, e:] if basis.numel() == 0 else (basis @ values[:, e:, None])[..., 0]
        return torch.cat([values[:, :e], forces], dim=1)
