"""Which cells of a grid to split first: by a density of cells, or by the field itself as flow solvers do it.

The solvers' indicators see the field at the corners of the present cells only. They are multiplied by a power of the
side of the cell. With the powers d/2 + 1 of the gradient and d/2 + 2 of second derivatives they are, up to a factor,
the root of the squared error integrated over the cell: of a function interpolated by constants, and bilinearly.
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from experiments.mesh.field import Function, Reference, leaf_patches
from experiments.mesh.quad_tree import Grid, Indicator, Leaves, leaves_of


def by_density(density: Float[ndarray, "k k"]) -> Indicator:
    """The share of a density in every cell; splitting the greatest makes the cells' density follow it.

    The density is given at the squares of a lattice, rows upwards, as fine as the finest cells or coarser.
    """

    def indicator(grid: Grid) -> Float[ndarray, " n"]:
        factor, rest = divmod(len(grid), len(density))
        if rest:
            raise ValueError(f"{len(density)} squares a side of the density do not divide {len(grid)} of the grid")
        fine = np.kron(density, np.ones((factor, factor)))
        return _sums(leaves_of(grid), fine)

    return indicator


def by_gradient(function: Function, power: float) -> Indicator:
    """|grad f| side^power; with power 1 the change of the function across the cell.

    With power 2 the root of a cell's squared error integrated over its area, up to a factor, if a constant stands for
    the function there.
    """

    def indicator(grid: Grid) -> Float[ndarray, " n"]:
        patches = leaf_patches(leaves_of(grid), function)
        return np.asarray(np.linalg.norm(patches.slope, axis=1) * patches.side**power)

    return indicator


def by_curvature(function: Function, power: float) -> Indicator:
    """|(f_xx, f_yy)| side^power, from the gradients in the cells on either side; f_xy makes no bilinear error.

    With power 3 the root of a cell's squared error integrated over its area, up to a factor.
    """

    def indicator(grid: Grid) -> Float[ndarray, " n"]:
        leaves = leaves_of(grid)
        patches = leaf_patches(leaves, function)
        second = [_difference(leaves, patches.slope[:, axis], axis) for axis in (0, 1)]
        return np.asarray(np.hypot(*second) * patches.side**power)

    return indicator


def by_error(reference: Reference) -> Indicator:
    """The squared interpolation error in every cell, which nobody knows who needs a grid."""

    def indicator(grid: Grid) -> Float[ndarray, " n"]:
        leaves = leaves_of(grid)
        return np.bincount(leaves.at(reference.points), reference.squared_errors(grid), len(leaves.width))

    return indicator


def _sums(leaves: Leaves, values: Float[ndarray, "R R"]) -> Float[ndarray, " n"]:
    return np.bincount(leaves.number.ravel(), values.ravel(), len(leaves.width))


def _difference(leaves: Leaves, slope: Float[ndarray, " n"], axis: int) -> Float[ndarray, " n"]:
    """The derivative of values in cells along x (axis 0) or y (axis 1), from neighbours and, at walls, the cell."""
    index = 1 - axis  # rows of the lattice are y
    before, behind = (leaves.origin + leaves.width[:, None] // 2 for _ in range(2))
    before[:, index] = np.maximum(leaves.origin[:, index] - 1, 0)
    behind[:, index] = np.minimum(leaves.origin[:, index] + leaves.width, len(leaves.number) - 1)
    first, last = (leaves.number[row, column] for row, column in (before.T, behind.T))
    centre = leaves.corner[:, axis] + 0.5 * leaves.side
    return np.asarray((slope[last] - slope[first]) / (centre[last] - centre[first]))
