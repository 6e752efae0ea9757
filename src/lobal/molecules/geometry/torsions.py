"""Dihedral angles around the bonds of a molecule that can rotate, and which of them move most.

A torsion i-j-k-l is the angle by which i and l are turned against each other around the bond j-k: 0 where they are on
the same side, positive where, looking along the bond from j to k, l is turned clockwise against i (IUPAC).
"""

from collections.abc import Iterable
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.geometry.elements import atom_names

Torsions: TypeAlias = Int[Tensor, "t 4"]  # the atoms i, j, k, l of each
Neighbours: TypeAlias = list[set[int]]  # of every atom

HYDROGEN = 1
# Degrees by which bonds in a line may be bent: around such a line there is no angle.
STRAIGHT = 10.0
# Circular variance of an angle that hardly moves; vibrations by 11 degrees around one place have as much.
RIGID = 0.02


def rotatable_torsions(R: Float[Tensor, "N 3"], species: Int[Tensor, " N"]) -> Torsions:
    """One torsion around every bond that is in no ring and has further atoms at both ends.

    Double bonds are among them. Of the atoms at an end, the heaviest counts, of several the one that comes first.
    Torsions of heavy atoms come first and those of methyl groups and the like last.

    Args:
        R: a configuration near its equilibrium, in Angstrom; its bonds are those that count.
        species: atomic numbers.

    Example:
        >>> R = torch.tensor([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0], [-0.5, 1.3, 0.0], [2.0, -1.3, 0.0]])
        >>> torsions = rotatable_torsions(R, species := torch.tensor([6, 6, 8, 8]))
        >>> torsion_names(torsions, species), angles(R[None], torsions).tolist()
        (['O2-C0-C1-O3'], [[180.0]])
    """
    bonds = [(int(j), int(k)) for j, k in Bonds.of(R, species).pairs]
    neighbours: Neighbours = [{*(a + b - atom for a, b in bonds if atom in (a, b))} for atom in range(len(species))]
    rotors = [(j, k) for j, k in bonds if not _is_in_ring(neighbours, j, k)]
    found = [(_end(R, species, neighbours, k, j), j, k, _end(R, species, neighbours, j, k)) for j, k in rotors]
    torsions = [[i, j, k, end] for i, j, k, end in found if i is not None and end is not None]
    ordered = sorted(torsions, key=lambda torsion: _kind(neighbours, species, torsion))
    return torch.tensor(ordered).reshape(-1, 4).long()


def _is_in_ring(neighbours: Neighbours, j: int, k: int) -> bool:
    """Whether atoms remain connected without the bond between them."""
    reached, new = {j}, neighbours[j] - {k}
    while new:
        reached |= new
        new = set().union(*(neighbours[atom] for atom in new)) - reached
    return k in reached


def _end(
    R: Float[Tensor, "N 3"], species: Int[Tensor, " N"], neighbours: Neighbours, other: int, atom: int
) -> int | None:
    """The atom at an end of the bond other-atom: the heaviest neighbour off its line; none where there is no such."""
    off = [each for each in neighbours[atom] - {other} if not _are_in_line(R, other, atom, each)]
    return min(off, key=lambda each: (-int(species[each]), each), default=None)


def _are_in_line(R: Float[Tensor, "N 3"], i: int, j: int, k: int) -> bool:
    """Whether the angle between two bonds is nearly 180 degrees."""
    cosine = torch.cosine_similarity(R[j] - R[i], R[k] - R[j], dim=0)
    return bool(cosine.clamp(-1, 1).acos().rad2deg() < STRAIGHT)


def _kind(neighbours: Neighbours, species: Int[Tensor, " N"], torsion: Iterable[int]) -> int:
    """0 where all atoms are heavy, 2 where an end has several hydrogens and nothing else, as methyl, 1 between them."""
    first, j, k, last = torsion
    if HYDROGEN not in (species[first], species[last]):
        return 0
    several = [end for end, atom, other in ((first, j, k), (last, k, j)) if len(neighbours[atom] - {other}) > 1]
    return 2 if HYDROGEN in species[several] else 1


def angles(R: Positions, torsions: Torsions) -> Float[Tensor, "n t"]:
    """The torsions of configurations, in degrees from -180 (excluded) to 180 (included)."""
    to_j, axis, to_l = R[:, torsions].diff(dim=2).unbind(2)
    before, after = torch.linalg.cross(to_j, axis), torch.linalg.cross(axis, to_l)  # normal to the two planes
    sine = axis.norm(dim=-1) * (to_j * after).sum(-1)
    turned = torch.atan2(sine, (before * after).sum(-1)).rad2deg()
    return torch.where(turned <= -180.0, turned + 360.0, turned)


def circular_variance(angles: Float[Tensor, "n t"]) -> Float[Tensor, " t"]:
    """How widely angles in degrees are spread: 0 for one angle only, 1 for all directions alike."""
    return 1.0 - torch.polar(torch.ones_like(angles), angles.deg2rad()).mean(0).abs()


def slowest(angles: Float[Tensor, "n t"], torsions: Torsions, species: Int[Tensor, " N"]) -> Int[Tensor, " t"]:
    """The places of the torsions of a pool, the ones that most tell its configurations apart first.

    The configurations are in no order of time: angles that take many values are taken for slow ones. Angles that
    hardly move come last. Of the others, those of heavy atoms come before those that end in a hydrogen, which are fast
    and stay in the order of `rotatable_torsions`, methyl groups last.
    """
    variance = circular_variance(angles).tolist()
    has_hydrogen = (species[torsions[:, [0, 3]]] == HYDROGEN).any(1).tolist()
    keys = [
        (value < RIGID, light, 0.0 if light else -value) for value, light in zip(variance, has_hydrogen, strict=True)
    ]
    return torch.tensor(sorted(range(len(keys)), key=keys.__getitem__)).long()


def torsion_names(torsions: Torsions, species: Int[Tensor, " N"]) -> list[str]:
    """The torsions by their atoms: O4-C0-C1-C2."""
    names = atom_names(species)
    return ["-".join(names[atom] for atom in torsion) for torsion in torsions.tolist()]
