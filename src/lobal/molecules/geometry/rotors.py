"""Symmetries that a molecule has by its bonds, whether or not its configurations show them: groups of atoms that turn.

A permutation of like atoms never changes the energy. Those that happen in dynamics are worth telling a model about, and
data show them only where they have happened: a few short trajectories may not have turned a methyl group or an amine,
and walkers that start again where they leave what is known never will.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.permutations import identity

# Each makes the group two or three times as large, and predictions as much slower.
MOST_ROTORS = 3
CARBON = 6
MONOVALENT = {1, 9, 17, 35, 53}  # hydrogen and halogens


def rotor_cycles(R: Float[Tensor, "N 3"], species: Int[Tensor, " N"]) -> Int[Tensor, "k N"]:
    """A turn of each group of like atoms that end at one atom with one further bond.

    Three such atoms turn by a third (CH3, NH3, CF3), two by half (NH2, NO2, CO2) unless a double bond holds them, as in
    =CH2. The products of the cycles are all turns of all such groups. There are none of molecules with more than
    `MOST_ROTORS`.

    Args:
        R: a configuration near its equilibrium, in Angstrom; its bonds are those that count.
        species: atomic numbers.

    Example:
        >>> R = [[0.0, 0.0, 0.0], [1.0, 0.0, -0.4], [-0.5, 0.9, -0.4], [-0.5, -0.9, -0.4], [0.0, 0.0, 1.8]]
        >>> rotor_cycles(torch.tensor(R), torch.tensor([6, 1, 1, 1, 17])).tolist()  # chloromethane
        [[0, 2, 3, 1, 4]]
    """
    ends = list(_rotors(R, species))
    if len(ends) > MOST_ROTORS:
        ends = []
    cycles = identity(len(species), R.device).repeat(len(ends), 1)
    for row, atoms in enumerate(ends):
        cycles[row, atoms] = torch.tensor(atoms[1:] + atoms[:1], device=R.device)
    return cycles


def _rotors(R: Float[Tensor, "N 3"], species: Int[Tensor, " N"]) -> Iterator[list[int]]:
    """The atoms at the end of each."""
    pairs = Bonds.of(R, species).pairs
    bonded = [torch.cat([pairs[pairs[:, 0] == atom, 1], pairs[pairs[:, 1] == atom, 0]]) for atom in range(len(species))]
    for centre, others in enumerate(bonded):
        ends = [int(each) for each in others if len(bonded[each]) == 1]
        for kind in {int(species[end]) for end in ends}:
            alike = [end for end in ends if species[end] == kind]
            is_held = len(alike) == 2 and int(species[centre]) == CARBON and kind in MONOVALENT
            if len(alike) in (2, 3) and len(others) == len(alike) + 1 and not is_held:
                yield alike
