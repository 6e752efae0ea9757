import numpy as np
import pytest
import torch

from lobal.inducing.cells import cell_means, cell_points, equal_cells, longest_coordinate
from tests.inducing.setting import uniform


@pytest.mark.parametrize("m", [1, 7, 64])
def test_cells_hold_equal_shares_of_the_mass(m: int, rng: np.random.Generator) -> None:
    X = rng.random((5000, 3))
    mass = np.exp(-4.0 * X[:, 0])
    cells = equal_cells(X, mass, m)
    shares = np.array([mass[cell].sum() for cell in cells]) / mass.sum()
    np.testing.assert_allclose(shares, 1.0 / m, rtol=0.06)
    np.testing.assert_array_equal(np.sort(np.concatenate(cells)), np.arange(5000))


def test_a_row_of_almost_all_mass_leaves_no_cell_empty(rng: np.random.Generator) -> None:
    mass = np.ones(40)
    mass[3] = 1e30
    assert [len(cell) for cell in equal_cells(rng.random((40, 2)), mass, 40)] == [1] * 40


def test_the_longest_coordinate_is_along_the_first_principal_axis(rng: np.random.Generator) -> None:
    t = rng.standard_normal(500)
    X = np.outer(t, [3.0, 1.0, 2.0]) + 0.1 * rng.standard_normal((500, 3))
    assert abs(np.corrcoef(longest_coordinate(X, np.ones(500)), t)[0, 1]) > 0.999


def test_lloyd_steps_bring_points_closer_to_the_inputs(generator: torch.Generator) -> None:
    X = uniform(generator, 2000, 6)
    plain = cell_means(X, torch.ones_like(X[:, 0]), 100)
    moved = cell_points(X, 100, generator=generator)
    error, expected = (torch.cdist(X, points).min(1).values.square().mean() for points in (moved, plain))
    assert error < 0.97 * expected


def test_rows_that_almost_coincide_do_not_attract_all_points(generator: torch.Generator) -> None:
    X = uniform(generator, 500)
    X[:20] = 0.5 + 1e-9 * uniform(generator, 20)
    points = cell_points(X, 40, generator=generator)
    assert ((points - 0.5).abs() < 1e-6).all(1).sum() < 5
