import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.descriptor import (
    atom_pairs,
    dense_jacobian,
    describe,
    distance_matrices,
    jacobian_product,
    pair_numbers,
    transposed_product,
)
from tests.molecules.setting import EXACT, random_molecules


@pytest.fixture
def R(generator: torch.Generator) -> Tensor:  # noqa: N802 - as in the paper
    return random_molecules(generator, 6, N=5)


def test_descriptors_are_inverse_distances_in_the_order_of_the_pairs(R: Tensor) -> None:
    values = describe(R).values
    assert values.shape == (6, 10)
    for p, (i, j) in enumerate(atom_pairs(5).T.tolist()):
        torch.testing.assert_close(values[:, p], 1.0 / (R[:, i] - R[:, j]).norm(dim=-1), **EXACT)
        torch.testing.assert_close(values[:, p], 1.0 / distance_matrices(R)[:, i, j], **EXACT)
        assert pair_numbers(5)[i, j] == pair_numbers(5)[j, i] == p


def test_the_number_of_atoms_follows_from_the_number_of_pairs(generator: torch.Generator) -> None:
    for N in (2, 3, 9, 21):
        assert describe(random_molecules(generator, 1, N)).number_of_atoms == N


def test_the_jacobian_is_that_of_automatic_differentiation(R: Tensor) -> None:
    expected = torch.func.vmap(torch.func.jacrev(inverse_distances))(R).flatten(2)
    torch.testing.assert_close(dense_jacobian(describe(R)), expected, **EXACT)


def inverse_distances(R: Tensor) -> Tensor:
    first, second = atom_pairs(R.shape[0])
    return (R[first] - R[second]).square().sum(-1).rsqrt()


def test_products_without_the_dense_jacobian_equal_those_with_it(R: Tensor, generator: torch.Generator) -> None:
    geometry = describe(R)
    J = dense_jacobian(geometry)
    motion = torch.randn(2, 6, 5, 3, dtype=torch.float64, generator=generator)
    slope = torch.randn(2, 6, 10, dtype=torch.float64, generator=generator)
    expected = torch.einsum("ndk,bnk->bnd", J, motion.flatten(2))
    torch.testing.assert_close(jacobian_product(geometry, motion), expected, **EXACT)
    expected = torch.einsum("ndk,bnd->bnk", J, slope).unflatten(2, (5, 3))
    torch.testing.assert_close(transposed_product(geometry, slope), expected, **EXACT)


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 2), (2, 1, 3), (2, 15)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"positions must have shape \(n, N, 3\) with at least 2 atoms, got \("):
        describe(torch.rand(shape, dtype=torch.float64))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_positions_that_are_not_finite_are_refused(R: Tensor, value: float) -> None:
    R[3, 2, 1] = value
    with pytest.raises(ValueError, match=r"must be finite, got .* for atom 2 of configuration 3"):
        describe(R)


@pytest.mark.parametrize("offset", [0.0, 1e-9])
def test_coinciding_atoms_are_refused(R: Tensor, offset: float) -> None:
    R[4, 3] = R[4, 1] + offset
    with pytest.raises(ValueError, match="atoms 1 and 3 of configuration 4 coincide"):
        describe(R)
