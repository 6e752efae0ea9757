"""Which atoms of a molecule are bonded, and configurations in which bonds are broken or others have formed."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.molecules.geometry.descriptor import Positions, atom_pairs
from lobal.molecules.geometry.elements import covalent_radii_of

# By the sum of the covalent radii: atoms nearer to each other are bonded. In the molecules of the G2 set, bonds are up
# to 1.25 long (F2) and other atoms at least 1.38 apart (cyclobutene, across the ring).
BONDED = 1.3
# By the sum of the covalent radii: other atoms that come nearer than that have formed a bond. New bonds, about 1 long
# and up to 1.12 in hydrogen peroxide, vibrate into that within some fs.
FORMED = 1.15
# By the distance at the beginning: bonds are broken from the one on, atoms overlap up to the other. Thermal vibrations
# change bonds by a tenth or two.
BROKEN, OVERLAPPING = 1.5, 0.8


@final
@dataclass(frozen=True, kw_only=True)
class Bonds:
    """The bonds of one configuration, and how far apart atoms may be without changing them."""

    pairs: Int[Tensor, "b 2"]  # bonded atoms
    nearest: Float[Tensor, " D"]  # Angstrom, of every pair of atoms in the order of `atom_pairs`
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
            nearest=torch.minimum(FORMED * sums, OVERLAPPING * distances),
            farthest=torch.where(is_bonded, BROKEN * distances, torch.inf),
        )

    def are_whole(self, R: Positions) -> Bool[Tensor, " n"]:
        """Whether no bond of a configuration is broken and no other has formed; false for NaN."""
        first, second = atom_pairs(R.shape[1], R.device)
        distances = (R[:, first] - R[:, second]).norm(dim=2)
        is_apart: Tensor = (distances > self.nearest.to(R)) & (distances < self.farthest.to(R))
        return is_apart.all(1)
