import pytest
import torch

from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import (
    check_group,
    closure,
    descriptor_permutations,
    identity,
    orbits,
    symmetrised_bandwidth,
    symmetrised_squared_distances,
)
from tests.molecules.setting import EXACT, random_molecules

CYCLE = torch.tensor([[1, 2, 0, 3]])
SWAP = torch.tensor([[1, 0, 2, 3]])


def test_a_group_is_closed_under_products_and_inverses() -> None:
    group = closure(torch.cat([CYCLE, SWAP]))
    rows = {tuple(row) for row in group.tolist()}
    assert len(rows) == len(group) == 6
    assert {tuple(p[q].tolist()) for p in group for q in group} == rows
    assert {tuple(p.argsort().tolist()) for p in group} == rows
    check_group(group)


@pytest.mark.parametrize(("generators", "order"), [(identity(4), 1), (SWAP, 2), (CYCLE, 3), (closure(CYCLE), 3)])
def test_the_order_of_a_group_is_that_of_its_generators(generators: torch.Tensor, order: int) -> None:
    group = closure(generators)
    assert len(group) == order
    assert torch.equal(group[:1], identity(4))


def test_a_group_that_grows_without_end_is_refused() -> None:
    everything = torch.stack([torch.arange(8).roll(1), torch.tensor([1, 0, 2, 3, 4, 5, 6, 7])])
    with pytest.raises(ValueError, match="generate a group of more than 1000 elements"):
        closure(everything)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1, 1]], r"atom numbers 0 to 2 once each, got \[0, 1, 1\] in row 0"),
        ([[1, 0, 2], [0, 1, 2]], "first permutation must be the identity"),
        ([[0, 1, 2], [1, 2, 0]], "2 permutations are not a group"),
        ([[0, 1, 2], [0, 1, 2]], "2 permutations are not a group"),
        ([0, 1, 2], r"must have shape \(g, N\), got \(3,\)"),
    ],
)
def test_what_is_not_a_group_is_refused(rows: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_group(torch.tensor(rows))


def test_permuting_atoms_permutes_descriptors(generator: torch.Generator) -> None:
    R = random_molecules(generator, 3, N=6)
    permutations = torch.stack([torch.randperm(6, generator=generator) for _ in range(5)])
    for pi, columns in zip(permutations, descriptor_permutations(permutations), strict=True):
        torch.testing.assert_close(describe(R[:, pi]).values, describe(R).values[:, columns], **EXACT)


def test_symmetrised_distances_are_those_of_the_closest_representation(generator: torch.Generator) -> None:
    R, Q = random_molecules(generator, 3), random_molecules(generator, 5)
    group = closure(torch.cat([CYCLE, SWAP]))
    ours = symmetrised_squared_distances(describe(R).values, describe(Q).values, group)
    each = [torch.cdist(describe(R).values, describe(Q[:, pi]).values).square() for pi in group]
    torch.testing.assert_close(ours, torch.stack(each).amin(0), **EXACT)
    assert (ours < each[0]).any()


def test_orbits_are_pairs_that_the_group_exchanges() -> None:
    # pairs: 01 02 03 12 13 23; the cycle of 0, 1, 2 has the orbits {01, 12, 02} and {03, 13, 23}
    assert orbits(closure(CYCLE)).tolist() == [0, 0, 1, 0, 1, 1]
    assert orbits(identity(4)).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_symmetrised_bandwidth_is_constant_on_orbits() -> None:
    bandwidth = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=torch.float64)
    ours = symmetrised_bandwidth(bandwidth, closure(CYCLE))
    short, long = 8.0 ** (1 / 3), 90.0 ** (1 / 3)
    torch.testing.assert_close(ours, bandwidth.new_tensor([short, short, long, short, long, long]), **EXACT)
    torch.testing.assert_close(symmetrised_bandwidth(ours, closure(CYCLE)), ours, **EXACT)
