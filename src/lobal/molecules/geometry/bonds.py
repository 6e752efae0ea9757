"""Which atoms of a molecule are bonded, and configurations in which bonds are broken or others have formed."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.molecules.geometry.descriptor import Positions, atom_pairs
from lobal.molecules.geometry.elements import covalent_radii_of

# By the sum of the covalent radii: atoms nearer to each other are bonded.
BONDED = 1.3
# By the length at the beginning. Thermal vibrations stretch bonds by a tenth or two.
BROKEN = 1.5
# By the sum of the covalent radii: atoms without a bond that come nearer than that have reacted, or overlap.
TOO_CLOSE = 0.8


@final
@dataclass(frozen=True, kw_only=True)
class Bonds:
    """The bonds of one configuration, and how far apart atoms may be without changing them."""

    pairs: Int[Tensor, "b 2"]  # bonded atoms
    lengths: Float[Tensor, " b"]  # Angstrom
    nearest: Float[Tensor, " D"]  # of every pair of atoms, in the order of `atom_pairs`
    farthest: Float[Tensor, " D"]

    @classmethod
    def of(cls, R: Float[Tensor, "N 3"], species: Int[Tensor, " N"]) -> "Bonds":
        """The bonds of a configuration that is near its equilibrium."""
        first, second = atom_pairs(len(species), R.device)
        radii = covalent_radii_of(species).to(R)
        sums, distances = radii[first] + radii[second], (R[first] - R[second]).norm(dim=1)
        is_bonded = distances < BONDED * sums
        return cls(
            pairs=torch.stack([first, second], dim=1)[is_bonded],
            lengths=distances[is_bonded],
            nearest=torch.minimum(TOO_CLOSE * sums, 0.8 * distances),
            farthest=torch.where(is_bonded, BROKEN * distances, torch.inf),
        )

    def are_whole(self, R: Positions) -> Bool[Tensor, " n"]:
        """Whether no bond of a configuration is broken, and no atoms are so near that another has formed."""
        first, second = atom_pairs(R.shape[1], R.device)
        distances = (R[:, first] - R[:, second]).norm(dim=2)
        is_apart: Tensor = (distances > self.nearest.to(R)) & (distances < self.farthest.to(R))
        return is_apart.all(1)
