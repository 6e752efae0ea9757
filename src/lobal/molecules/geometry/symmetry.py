"""The permutation group of a molecule, recovered from configurations of it.

As in sGDML (Chmiela et al. 2019), atoms are matched between every two configurations by their distance matrices, the
cheapest matches that connect all configurations are kept, and what they generate is the group. The matching is a
search in place of a comparison of eigenvectors, which symmetry makes ambiguous, and a permutation has to pass a test:
permuted configurations must be as close to the data as the data are to themselves.

Only symmetries that the data show are found, beside those that are known. A methyl group counts as a rotor only where
it has turned; `rotors` has those that have not. Distances are blind to reflections, as energies are, so an exchange
that takes a reflection (the two hydrogens of ethanol's CH2 group together with two of its CH3 group) is found, and the
one without it (the two hydrogens of CH2 alone) is not.
"""

import logging

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

from lobal.molecules.geometry.descriptor import Positions, atom_pairs, describe, distance_matrices
from lobal.molecules.geometry.permutations import (
    LargeGroupError,
    Permutations,
    closure,
    descriptor_permutations,
    identity,
    symmetrised_squared_distances,
)

logger = logging.getLogger(__name__)

# Partial matches that the search keeps. For toluene, 32 find the best match of every two configurations and 16 of 99%.
BEAM_WIDTH = 64
# Pairs of configurations grow with the square of their number; more do not show more.
MOST_CONFIGURATIONS = 60
# Permuted configurations may be this much farther from the data than the data from each other. On 50 configurations of
# malonaldehyde the factor is 0.9 to 1.2 for its symmetries and 3.5 or more for other exchanges of like atoms.
TOLERANCE = 1.5
# Squared distances by matrix products have this relative error, after the root.
ROUNDING = 1e-7
# Numbers worked on at a time in the search: 32 MiB.
SEARCH_ENTRIES = 2**22


def permutation_group(
    R: Positions, species: Int[Tensor, "..."], *, known: Int[Tensor, "k N"] | None = None
) -> Permutations:
    """All permutations of like atoms that the configurations show to be symmetries, identity first.

    They are completed by those that are `known` to be symmetries, whatever the configurations show. One that would make
    the group too large is left out, with a warning: a group of fewer symmetries is right as well.

    Some 50 configurations are enough; of more than `MOST_CONFIGURATIONS`, as many are taken at even intervals.

    Raises:
        ValueError: shapes do not fit, positions are not finite, or atoms coincide.
    """
    if species.shape != R.shape[1:2]:
        raise ValueError(f"species must be one number per atom, ({R.shape[1]},), got shape {tuple(species.shape)}")
    describe(R)  # for its checks
    if len(R) > MOST_CONFIGURATIONS:
        R = R[torch.linspace(0, len(R) - 1, MOST_CONFIGURATIONS, device=R.device).long()]
    group = identity(R.shape[1], R.device)
    if known is not None:
        group = closure(torch.cat([group, known.to(R.device)]))
    if len(R) < 2:
        return group
    distances = distance_matrices(R)
    for candidate in synchronised(*match_all(distances, species), len(R)):
        if (candidate == group).all(1).any():
            continue
        if not is_symmetry(candidate, distances, group):
            logger.info("permutation %s matches two configurations but not the others", candidate.tolist())
            continue
        try:
            group = closure(torch.cat([group, candidate[None]]))
        except LargeGroupError as error:
            logger.warning("a symmetry of the configurations is left out: %s", error)
    return group


def match_all(
    distances: Float[Tensor, "n N N"], species: Int[Tensor, " N"]
) -> tuple[Int[Tensor, "p 2"], Int[Tensor, "p N"], Float[Tensor, " p"]]:
    """All pairs (i, j) of configurations, the permutation that brings i closest to j, and |D_i[pi, pi] - D_j|."""
    pairs = torch.triu_indices(len(distances), len(distances), offset=1, device=distances.device).T
    entries = BEAM_WIDTH * len(species) ** 2
    parts = [
        best_permutations(distances[rows[:, 0]], distances[rows[:, 1]], species)
        for rows in pairs.split(max(1, SEARCH_ENTRIES // entries))
    ]
    permutations, cost = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return pairs, permutations, cost


def best_permutations(
    left: Float[Tensor, "p N N"], right: Float[Tensor, "p N N"], species: Int[Tensor, " N"]
) -> tuple[Int[Tensor, "p N"], Float[Tensor, " p"]]:
    """For each pair of distance matrices the pi of least |left[pi, pi] - right|, and that norm.

    A beam search, atom by atom: partial matches are extended by every free atom of the right species, and the
    `BEAM_WIDTH` of least mismatch among the atoms so far are kept. Where the identity is as good, it is preferred.
    """
    order = search_order(species)
    places = torch.zeros(len(left), 1, 0, dtype=torch.long, device=left.device)  # of the atoms order[:k], in `left`
    cost = left.new_zeros(len(left), 1)
    for k in range(len(order)):
        places, cost = _extended(places, cost, left, right[:, order[k], order[:k]], species == species[order[k]])
    found = torch.empty_like(places[:, 0])
    found[:, order] = places[:, 0]
    unmoved = (left - right).square().sum((1, 2))
    best = 2.0 * cost[:, 0]  # every pair of atoms was counted once
    moved = best < unmoved * (1.0 - 1e-9)
    atoms = identity(len(species), left.device)
    return torch.where(moved[:, None], found, atoms), torch.where(moved, best, unmoved).sqrt()


def _extended(
    places: Int[Tensor, "p w k"],
    cost: Float[Tensor, "p w"],
    left: Float[Tensor, "p N N"],
    wanted: Float[Tensor, "p k"],
    alike: Bool[Tensor, " N"],
) -> tuple[Int[Tensor, "p v k1"], Float[Tensor, "p v"]]:
    """The best ways to place one more atom, at the wanted distances from those already placed."""
    p, w, k = places.shape
    N = left.shape[1]
    rows = torch.arange(p, device=left.device)[:, None, None]
    mismatch = (left[rows, places] - wanted[:, None, :, None]).square().sum(2)  # (p, w, N)
    taken = torch.zeros(p, w, N, dtype=torch.bool, device=left.device).scatter_(2, places, True)
    total = (cost[:, :, None] + mismatch).masked_fill(taken | ~alike, torch.inf).flatten(1)
    free = int(alike.sum()) * w  # at the least as many as there are free places in all
    best, index = total.topk(min(BEAM_WIDTH, free, total.shape[1]), largest=False)
    parent = places.gather(1, (index // N)[:, :, None].expand(-1, -1, k))
    return torch.cat([parent, (index % N)[:, :, None]], dim=2), best


def search_order(species: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Rare species first, for they leave the least choice, and heavy ones before light ones."""
    count = (species[:, None] == species).sum(1)
    return torch.from_numpy(np.lexsort((-species.cpu().numpy(), count.cpu().numpy()))).to(species.device)


def synchronised(
    pairs: Int[Tensor, "p 2"], permutations: Int[Tensor, "p N"], cost: Float[Tensor, " p"], n: int
) -> Permutations:
    """The permutations along the tree of least total cost that connects all configurations, cheapest first.

    Every other match is a product of these or contradicts them, and the contradiction is more likely at fault.
    """
    # Only the order of the costs matters to the tree; ranks spare it costs of zero, which would be no edges.
    ranked = cost.argsort()
    first, second = pairs[ranked].T.cpu().numpy().astype(np.int32)  # SciPy 1.11 takes no others
    ranks = coo_array((np.arange(1.0, len(first) + 1.0), (first, second)), shape=(n, n))
    tree = np.sort(minimum_spanning_tree(ranks.tocsr()).data).astype(np.int64) - 1
    return permutations[ranked[torch.from_numpy(tree).to(ranked.device)]]


def is_symmetry(
    candidate: Int[Tensor, " N"], distances: Float[Tensor, "n N N"], group: Permutations, tolerance: float = TOLERANCE
) -> bool:
    """Whether permuted configurations are as close to the others as these are to each other.

    Under a symmetry they come from the same distribution, so the median distance to the closest other configuration
    is the same but for chance. Representations that the known group makes equal are counted as one.
    """
    first, second = atom_pairs(distances.shape[1], distances.device)
    flat = distances[:, first, second]
    permuted = flat[:, descriptor_permutations(candidate[None])[0]]
    rounding = ROUNDING * flat.square().sum(1).mean().sqrt()  # of configurations that are copies of each other
    within = _median_to_closest(flat, flat, group)
    return bool(_median_to_closest(permuted, flat, group) <= tolerance * within + rounding)


def _median_to_closest(A: Float[Tensor, "n D"], B: Float[Tensor, "n D"], group: Permutations) -> Float[Tensor, ""]:
    squared = symmetrised_squared_distances(A, B, group)
    return squared.fill_diagonal_(torch.inf).amin(1).median().sqrt()
