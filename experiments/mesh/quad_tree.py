"""Quad-trees: grids of the unit square whose cells are halved, in both directions, where it is worth it.

A grid is an array of levels: entry (i, j) is the level of the leaf cell that covers square (i, j) of the finest
lattice, rows upwards. The cell of level l has the side 2^-l. Every grid is balanced, as solvers require it: cells that
share an edge differ by at most one level.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

Grid: TypeAlias = Int[ndarray, "R R"]
Indicator: TypeAlias = Callable[["Grid"], Float[ndarray, " n"]]  # of every leaf cell; the greatest are split first

# Share of the cells that are split before the indicator is evaluated anew.
SHARE = 0.05


class Leaves(NamedTuple):
    """The leaf cells of a grid, numbered by rows and columns of their lower left corners."""

    origin: Int[ndarray, "n 2"]  # row and column of the lower left square of the finest lattice
    width: Int[ndarray, " n"]  # in squares of the finest lattice
    number: Int[ndarray, "R R"]  # of the leaf that covers each square

    @property
    def side(self) -> Float[ndarray, " n"]:
        """The length of an edge."""
        return self.width / len(self.number)

    @property
    def corner(self) -> Float[ndarray, "n 2"]:
        """x and y of the lower left corner."""
        return self.origin[:, ::-1] / len(self.number)

    def at(self, points: Float[ndarray, "m 2"]) -> Int[ndarray, " m"]:
        """The number of the leaf that each point of the unit square lies in."""
        column, row = np.minimum((points * len(self.number)).astype(np.int64), len(self.number) - 1).T
        return np.asarray(self.number[row, column])


def uniform_grid(level: int, *, deepest: int) -> Grid:
    """4^level equal cells that can be split down to the deepest level."""
    if not 0 <= level <= deepest:
        raise ValueError(f"level must lie between 0 and the deepest level {deepest}, got {level}")
    return np.full((2**deepest, 2**deepest), level)


def deepest_level(grid: Grid) -> int:
    """The level of cells that cannot be split."""
    return len(grid).bit_length() - 1


def leaves_of(grid: Grid) -> Leaves:
    """The leaf cells."""
    rows, columns = np.indices(grid.shape)
    width = 2 ** (deepest_level(grid) - grid)
    first_row, first_column = rows - rows % width, columns - columns % width
    is_origin = (rows == first_row) & (columns == first_column)
    numbers = np.cumsum(is_origin).reshape(grid.shape) - 1
    return Leaves(np.argwhere(is_origin), width[is_origin], numbers[first_row, first_column])


def n_cells(grid: Grid) -> int:
    """The number of leaf cells; each square of the finest lattice counts by its share of its cell."""
    return round(float((4.0 ** (grid - deepest_level(grid))).sum()))


def share_of_cells(grid: Grid, region: Bool[ndarray, "k k"]) -> float:
    """The share of the leaf cells that lies in a region of the squares of a lattice, the finest or a coarser one."""
    factor = len(grid) // len(region)
    fine = np.kron(region, np.ones((factor, factor), dtype=bool))
    number = 4.0 ** (grid - deepest_level(grid))
    return float(number[fine].sum() / number.sum())


def split(grid: Grid, chosen: Int[ndarray, " k"]) -> Grid:
    """The grid with the leaf cells of these numbers split, and others as far as balance requires it."""
    leaves = leaves_of(grid)
    is_chosen = np.zeros(len(leaves.width), dtype=bool)
    is_chosen[chosen] = True
    return balanced(grid + is_chosen[leaves.number])


def balanced(grid: Grid) -> Grid:
    """The coarsest balanced grid that has at least these levels."""
    while True:
        padded = np.pad(grid, 1, mode="edge")
        around = [padded[1:-1, 2:], padded[1:-1, :-2], padded[2:, 1:-1], padded[:-2, 1:-1]]
        is_too_coarse = np.max(around, axis=0) > grid + 1
        if not is_too_coarse.any():
            return grid
        number = leaves_of(grid).number
        is_split = np.zeros(number.max() + 1, dtype=bool)
        is_split[number[is_too_coarse]] = True
        grid = grid + is_split[number]


def refined(grid: Grid, indicator: Indicator, budget: int) -> Grid:
    """The grid refined, a share of the cells at a time, until a further split would exceed the budget of cells.

    Cells are split in the order of their indicator, which sees the grid as it is. Cells of the deepest level, and cells
    whose indicator is zero, stay.
    """
    if n_cells(grid) > budget:
        raise ValueError(f"the grid has {n_cells(grid)} cells already, more than the budget of {budget}")
    while True:
        width, values = leaves_of(grid).width, indicator(grid)
        order = np.argsort(-values, kind="stable")
        order = order[(width[order] > 1) & (values[order] > 0.0)]
        wanted = order[: max(1, round(SHARE * len(width)))]
        finer = split(grid, wanted)
        if len(wanted) == 0 or n_cells(finer) > budget:
            return _within(grid, wanted, budget)
        grid = finer


def _within(grid: Grid, chosen: Int[ndarray, " k"], budget: int) -> Grid:
    """The grid with as many of the chosen cells split, from the first on, as the budget allows, by bisection."""
    affordable, least_too_many = 0, len(chosen)
    while affordable + 1 < least_too_many:
        middle = (affordable + least_too_many) // 2
        if n_cells(split(grid, chosen[:middle])) <= budget:
            affordable = middle
        else:
            least_too_many = middle
    return split(grid, chosen[:affordable])
