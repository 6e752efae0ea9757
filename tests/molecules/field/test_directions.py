from typing import Any

import pytest
import torch

from lobal.molecules.field import solver as module
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.kernel import MolecularKernel, covariance_along
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.radial import matern52
from lobal.molecules.field.solver import CovarianceOperator
from lobal.molecules.geometry.descriptor import dense_jacobian, describe
from lobal.molecules.geometry.permutations import identity
from tests.molecules.setting import ANISOTROPIC, GROUP, covariance, every_label, random_molecules

CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}
KERNEL = MolecularKernel(radial=matern52, shared_bandwidth=ANISOTROPIC, permutations=GROUP)
SIGMA, SCALE = torch.tensor([1.5, 3.0], dtype=torch.float64)


@every_label
@pytest.mark.parametrize("stored", [1, 2**28])
@pytest.mark.parametrize("block", [1, 2**17])
def test_products_are_those_with_the_matrix(
    labels: Labels, stored: int, block: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORED_ENTRIES", stored)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", block)
    moves = ShapeDirections.of(describe(random_molecules(generator, 7)), labels).moves
    w = torch.randn(7, moves.width, dtype=torch.float64, generator=generator)
    K = SCALE * covariance_along(KERNEL, moves, bandwidths=SIGMA[None])[0]
    operator = CovarianceOperator.of(KERNEL, moves, bandwidth=SIGMA, scale=SCALE)
    torch.testing.assert_close(operator(w).flatten(), K @ w.flatten(), **CLOSE)


@every_label
def test_the_directions_of_a_change_of_shape_are_all_there_is(labels: Labels, generator: torch.Generator) -> None:
    geometry = describe(random_molecules(generator, 4))
    directions = ShapeDirections.of(geometry, labels)
    full = covariance(KERNEL, geometry, bandwidths=SIGMA[None], rows=labels)[0]
    w = torch.randn(4, labels.width(4), dtype=torch.float64, generator=generator)
    reduced = covariance_along(KERNEL, directions.moves, bandwidths=SIGMA[None])[0] @ directions.reduced(w).flatten()
    expanded = directions.expanded(reduced.view(4, directions.moves.width))
    torch.testing.assert_close(expanded.flatten(), full @ w.flatten(), **CLOSE)


@pytest.mark.parametrize(("N", "number"), [(2, 1), (3, 3), (4, 6), (7, 15)])
def test_a_molecule_changes_shape_in_3_n_less_6_ways(N: int, number: int, generator: torch.Generator) -> None:
    geometry = describe(random_molecules(generator, 3, N))
    directions = ShapeDirections.of(geometry, Labels.FORCES)
    assert directions.basis.shape == (3, number, 3 * N)
    eye = torch.eye(number, dtype=torch.float64).expand(3, -1, -1)
    torch.testing.assert_close(directions.basis @ directions.basis.mT, eye, **CLOSE)
    along = dense_jacobian(geometry) @ directions.basis.mT
    torch.testing.assert_close(along.permute(2, 0, 1), directions.moves.jacobians, **CLOSE)


def test_atoms_in_a_line_or_a_plane_are_no_exception(generator: torch.Generator) -> None:
    flat = random_molecules(generator, 3) * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    line = random_molecules(generator, 3) * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    kernel = MolecularKernel(radial=matern52, shared_bandwidth=ANISOTROPIC, permutations=identity(4))
    for geometry in (describe(flat), describe(line)):
        directions = ShapeDirections.of(geometry, Labels.FORCES)
        full = covariance(kernel, geometry, bandwidths=SIGMA[None], rows=Labels.FORCES)[0]
        w = torch.randn(3, 12, dtype=torch.float64, generator=generator)
        operator = CovarianceOperator.of(kernel, directions.moves, bandwidth=SIGMA, scale=SCALE)
        ours = directions.expanded(operator(directions.reduced(w)))
        expected = SCALE * (full @ w.flatten())
        torch.testing.assert_close(ours.flatten(), expected, rtol=0.0, atol=1e-11 * expected.abs().max().item())
