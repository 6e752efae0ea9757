import numpy as np
import pytest

from experiments.mesh.field import Patches, Points, Reference, lattice, leaf_patches
from experiments.mesh.indicators import by_curvature, by_density, by_error, by_gradient
from experiments.mesh.quad_tree import Grid, balanced, leaves_of, n_cells, refined, share_of_cells, split, uniform_grid

DEEPEST = 6


def wave(points: Points) -> np.ndarray:
    return np.sin(4.0 * points[:, 0]) * np.cos(3.0 * points[:, 1])


def front(points: Points) -> np.ndarray:
    """A steep front near the left edge, almost constant elsewhere."""
    return np.tanh(20.0 * (points[:, 0] - 0.2)) + 0.01 * points[:, 1]


def steps(grid: Grid) -> int:
    """The greatest difference of levels across an edge."""
    return max(np.abs(np.diff(grid, axis=axis)).max() for axis in (0, 1))


@pytest.fixture
def random_grid(rng: np.random.Generator) -> Grid:
    density = rng.lognormal(sigma=2.0, size=(16, 16))
    return refined(uniform_grid(1, deepest=DEEPEST), by_density(density), 300)


def test_the_share_of_cells_in_a_region_counts_leaves(random_grid: Grid) -> None:
    leaves = leaves_of(random_grid)
    region = np.zeros((2, 2), dtype=bool)
    region[1, 0] = True
    inside = (leaves.corner[:, 0] < 0.5) & (leaves.corner[:, 1] >= 0.5)
    assert share_of_cells(random_grid, region) == pytest.approx(inside.mean())
    assert share_of_cells(random_grid, ~region) == pytest.approx(1.0 - inside.mean())


def test_leaf_cells_tile_the_square(random_grid: Grid) -> None:
    leaves = leaves_of(random_grid)
    assert len(leaves.width) == n_cells(random_grid)
    assert np.square(leaves.side).sum() == pytest.approx(1.0)
    points = lattice(2**DEEPEST)
    place = (points - leaves.corner[leaves.at(points)]) / leaves.side[leaves.at(points), None]
    assert (place > 0.0).all()
    assert (place < 1.0).all()


def test_cells_have_corners_at_multiples_of_their_side(random_grid: Grid) -> None:
    leaves = leaves_of(random_grid)
    assert (leaves.origin % leaves.width[:, None] == 0).all()
    assert len(np.unique(leaves.width)) > 2


def test_cells_that_share_an_edge_differ_by_one_level(random_grid: Grid) -> None:
    assert steps(random_grid) == 1
    quarter = uniform_grid(1, deepest=DEEPEST)
    quarter[:32, :32] = DEEPEST
    assert steps(quarter) == DEEPEST - 1
    assert steps(balanced(quarter)) == 1
    assert (balanced(quarter) >= quarter).all()


@pytest.mark.parametrize("budget", [64, 65, 100, 257, 1000])
def test_the_budget_is_respected_and_spent(budget: int, rng: np.random.Generator) -> None:
    grid = refined(uniform_grid(3, deepest=8), by_density(rng.lognormal(size=(32, 32))), budget)
    assert budget - 3 * 8 < n_cells(grid) <= budget


def test_a_grid_that_exceeds_the_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="64 cells already, more than the budget of 63"):
        refined(uniform_grid(3, deepest=DEEPEST), by_density(np.ones((1, 1))), 63)


@pytest.mark.parametrize("level", [3, 4, 5, DEEPEST])
def test_a_uniform_density_gives_the_uniform_grid(level: int) -> None:
    grid = refined(uniform_grid(2, deepest=DEEPEST), by_density(np.ones((8, 8))), 4**level)
    np.testing.assert_array_equal(grid, uniform_grid(level, deepest=DEEPEST))


def test_cells_follow_the_density() -> None:
    ticks = (np.arange(64) + 0.5) / 64
    density = np.tile(np.exp(3.0 * ticks), (64, 1))  # e^3 between both ends
    grid = refined(uniform_grid(2, deepest=8), by_density(density), 4000)
    leaves = leaves_of(grid)
    eighth = (8 * (leaves.corner[:, 0] + 0.5 * leaves.side)).astype(int)
    share = np.bincount(eighth) / len(eighth)
    expected = density.sum(axis=0).reshape(8, 8).sum(axis=1) / density.sum()
    # Sides are powers of two, so that the share of the density in a cell varies fourfold; that of the ends by e^3.
    assert np.abs(np.log(share / expected)).max() < np.log(2.0)
    assert share[-1] > 8.0 * share[0]


def test_splitting_replaces_a_cell_by_four() -> None:
    grid = split(uniform_grid(2, deepest=DEEPEST), np.array([5]))
    assert n_cells(grid) == 16 + 3
    leaves = leaves_of(grid)
    np.testing.assert_array_equal(leaves.corner[leaves.side == 1 / 8].min(axis=0), [0.25, 0.25])


def test_a_bilinear_function_is_interpolated_exactly(random_grid: Grid) -> None:
    def bilinear(points: Points) -> np.ndarray:
        return 1.0 + 2.0 * points[:, 0] - points[:, 1] + 3.0 * points.prod(axis=1)

    reference = Reference(bilinear, n=100)
    assert reference.rmse(random_grid) < 1e-12
    assert reference.uniform_rmse(7) < 1e-12


def test_the_error_of_a_smooth_function_falls_with_the_square_of_the_side() -> None:
    reference = Reference(wave, n=256)
    errors = [reference.uniform_rmse(n) for n in (8, 16, 32)]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.05)


def test_both_kinds_of_uniform_grids_have_the_same_error() -> None:
    reference = Reference(wave, n=128)
    assert reference.rmse(uniform_grid(3, deepest=5)) == pytest.approx(reference.uniform_rmse(8))


def test_slopes_are_those_of_a_plane() -> None:
    patches = Patches.of(lattice(4) - 1 / 8, np.full(16, 0.25), lambda points: points @ [2.0, -3.0])
    np.testing.assert_allclose(patches.slope, np.tile([2.0, -3.0], (16, 1)))


def test_curvature_is_that_of_a_parabola_within_the_square(random_grid: Grid) -> None:
    found = by_curvature(lambda points: np.square(points) @ [1.5, 2.0], 0.0)(random_grid)
    leaves = leaves_of(random_grid)
    inside = ((leaves.corner > 0.0) & (leaves.corner + leaves.side[:, None] < 1.0)).all(axis=1)
    np.testing.assert_allclose(found[inside], 5.0)


@pytest.mark.parametrize("kind", ["gradient", "curvature", "error"])
def test_every_indicator_of_the_field_refines_a_front(kind: str) -> None:
    reference = Reference(front, n=256)
    indicators = {
        "gradient": by_gradient(front, 2.0),
        "curvature": by_curvature(front, 3.0),
        "error": by_error(reference),
    }
    grid = refined(uniform_grid(3, deepest=8), indicators[kind], 500)
    patches = leaf_patches(leaves_of(grid), front)
    assert patches.corner[patches.side.argmin(), 0] == pytest.approx(0.2, abs=0.1)
    assert reference.rmse(grid) < 0.8 * reference.uniform_rmse(22)
