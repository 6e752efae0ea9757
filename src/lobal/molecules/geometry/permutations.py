"""Permutation groups of a molecule's atoms, and how they act on descriptors.

A permutation is a row of atom numbers: pi moves a configuration R to R[pi], so that atom a of the new configuration is
atom pi[a] of the old. Rows of a group are unique and the identity is the first.
"""

import functools
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import squared_distances
from lobal.molecules.geometry.descriptor import Descriptors, atom_pairs, pair_numbers

Permutations: TypeAlias = Int[Tensor, "g N"]

# Larger groups are a sign of a wrong generator: of small organic molecules none exceeds a few hundred.
LARGEST_GROUP = 1000
# Configurations that the typical distance is taken of.
MOST_COMPARED = 100


def identity(number_of_atoms: int, device: torch.device | None = None) -> Permutations:
    """The group of a molecule without symmetry."""
    return torch.arange(number_of_atoms, device=device)[None]


class LargeGroupError(ValueError):
    """A group has more elements than predictions can sum over."""


def closure(generators: Int[Tensor, "k N"]) -> Permutations:
    """The smallest group with the given permutations: identity, products and, being finite, inverses.

    Raises:
        LargeGroupError: the group has more than `LARGEST_GROUP` elements.
    """
    group = identity(generators.shape[1], generators.device)
    found = group
    while len(found) > 0:  # elements that are new are multiplied by all generators, until none is new
        products = generators[:, found].flatten(0, 1)
        known = (products[:, None] == group).all(-1).any(1)
        found = products[~known].unique(dim=0)
        group = torch.cat([group, found])
        if len(group) > LARGEST_GROUP:
            raise LargeGroupError(
                f"{len(generators)} permutations generate a group of more than {LARGEST_GROUP} elements; one of them "
                "is most likely no symmetry of the molecule"
            )
    return torch.cat([group[:1], group[1:].unique(dim=0)])


def check_group(permutations: Int[Tensor, "..."]) -> None:
    """Raise a ValueError unless rows of atom numbers are a group, with the identity first and no row twice."""
    if permutations.ndim != 2 or 0 in permutations.shape:
        raise ValueError(f"permutations must have shape (g, N), got {tuple(permutations.shape)}")
    if len(permutations) > LARGEST_GROUP:
        raise ValueError(f"a group must have at most {LARGEST_GROUP} permutations, got {len(permutations)}")
    wrong = (permutations.sort(1).values != identity(permutations.shape[1], permutations.device)).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"every row of permutations must hold the atom numbers 0 to {permutations.shape[1] - 1} once each, "
            f"got {permutations[row].tolist()} in row {row}"
        )

    if not torch.equal(permutations[:1], identity(permutations.shape[1], permutations.device)):
        raise ValueError(f"the first permutation must be the identity, got {permutations[0].tolist()}")
    products = permutations[:, permutations].flatten(0, 1)
    closed = all((part[:, None] == permutations).all(-1).any(1).all() for part in products.split(1024))
    if not closed or len(permutations.unique(dim=0)) < len(permutations):
        raise ValueError(f"{len(permutations)} permutations are not a group; use closure(permutations)")


def descriptor_permutations(permutations: Permutations) -> Int[Tensor, "g D"]:
    """The permutations of descriptors: Phi(R[pi]) = Phi(R)[row of pi]."""
    N = permutations.shape[1]
    first, second = atom_pairs(N, permutations.device)
    return pair_numbers(N, permutations.device)[permutations[:, first], permutations[:, second]]


def symmetrised_squared_distances(
    A: Descriptors, B: Float[Tensor, "m D"], permutations: Permutations
) -> Float[Tensor, "n m"]:
    """Squared distance of the closest representations, min over pi of |Phi(z) - Phi(pi z')|^2.

    Appendix, "Symmetrized DC for molecules". Scale both sides by a bandwidth that the group leaves as it is, if by any:
    otherwise the minimum depends on which of the two is permuted.
    """
    each = (squared_distances(A, B[:, columns]) for columns in descriptor_permutations(permutations))
    return functools.reduce(torch.minimum, each)


def typical_distance(values: Descriptors, permutations: Permutations) -> Scalar:
    """Root mean squared distance between the descriptors of two configurations, in their closest representations.

    Of many configurations, `MOST_COMPARED` are taken at even intervals: consecutive ones are alike.
    """
    some = values[torch.linspace(0, len(values) - 1, min(len(values), MOST_COMPARED), device=values.device).long()]
    squared = symmetrised_squared_distances(some, some, permutations)
    return (squared.sum() / (len(some) * (len(some) - 1))).sqrt()


def orbits(permutations: Permutations) -> Int[Tensor, " D"]:
    """The orbit of every pair of atoms: pairs that the group maps onto each other have the same number."""
    smallest = descriptor_permutations(permutations).amin(0)  # the group maps p to all of its orbit
    numbers: Tensor = smallest.unique(return_inverse=True)[1]
    return numbers


def symmetrised_bandwidth(bandwidth: Float[Tensor, " D"], permutations: Permutations) -> Float[Tensor, " D"]:
    """The bandwidth with equal entries, the geometric mean, for pairs that the group maps onto each other."""
    return bandwidth.log()[descriptor_permutations(permutations)].mean(0).exp()
