"""A field that a simulation gave at the centres of its cells, and how well grids of the unit square interpolate it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.interpolate import CloughTocher2DInterpolator, LinearNDInterpolator, NearestNDInterpolator

from experiments.data_files import load_npz
from experiments.mesh.quad_tree import Grid, Leaves, leaves_of
from lobal.core.arrays import as_column

Points: TypeAlias = Float[ndarray, "n 2"]
Function: TypeAlias = Callable[[Points], Float[ndarray, " n"]]  # of points of the unit square

LATTICE = 1024  # points a side at which errors are measured: 4 x 4 in the smallest cell of eight levels
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
# Arrays of a file from which the density of its cells follows, and the power to raise them to.
DENSITIES = {"inputDensity": 1.0, "importanceWeights": -1.0}
# Share of the square that the simulation's centres may fail to surround, such as one corner with a large cell.
LARGEST_SHARE_OUTSIDE = 1e-3


class Cells(NamedTuple):
    """Centres of a simulation's cells in the unit square, the field there, and the density of cells up to a factor."""

    X: Float[ndarray, "n 2"]
    y: Float[ndarray, " n"]
    density: Float[ndarray, " n"]

    @property
    def sides(self) -> Float[ndarray, " k"]:
        """The different sides of cells, in ascending order; all cells together fill the unit square."""
        area = 1.0 / self.density
        return np.unique(np.sqrt(area / area.sum()))


def load_cells(path: str | Path) -> Cells:
    """The cells of an `.npz` file with arrays `X`, `y` and their density, or importance weights 1 / density.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an array is missing, or X is not in the plane.
    """
    X, y, extras = load_npz(path)
    if X.shape[1] != 2:
        raise ValueError(f"{path} must have two columns in X, got {X.shape[1]}")
    names = [name for name in DENSITIES if name in extras]
    if not names:
        raise ValueError(f"{path} must hold one of the arrays {', '.join(DENSITIES)}, it holds {sorted(extras)}")
    column = as_column(extras[names[0]].reshape(-1), name=names[0], length=len(X), positive=True)
    return Cells(X.astype(np.float64), y, column ** DENSITIES[names[0]])


@final
class Field:
    """The field, linear between the centres of the simulation's cells, on a square without the margins at the walls.

    The centres do not reach the walls, and nothing is extrapolated: the margin is half of the least cell with which
    they surround (almost) all of the square. That square is the unit square here.

    Args:
        cells: of the simulation.
        is_cubic: whether the field is cubic between the centres, with continuous derivatives; linear by default.
    """

    def __init__(self, cells: Cells, *, is_cubic: bool = False) -> None:
        self._between = (CloughTocher2DInterpolator if is_cubic else LinearNDInterpolator)(cells.X, cells.y)
        self._nearest = NearestNDInterpolator(cells.X, cells.y)
        margins = [side / 2 for side in cells.sides if self._share_outside(side / 2) < LARGEST_SHARE_OUTSIDE]
        if not margins:
            raise ValueError("the cells must fill the unit square, but their centres do not surround most of it")
        self.margin = float(margins[0])

    def __call__(self, points: Points) -> Float[ndarray, " n"]:
        """The field at points of the unit square; outside the convex hull of the centres, that of the nearest."""
        X = self.inputs(points)
        values = self._between(X)
        outside = np.isnan(values)
        values[outside] = self._nearest(X[outside])
        return np.asarray(values)

    def inputs(self, points: Points) -> Points:
        """Points of the unit square in the coordinates of the simulation."""
        return _without_margin(points, self.margin)

    def _share_outside(self, margin: float) -> float:
        ticks = np.linspace(0.0, 1.0, 257)  # with the edges
        nodes = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        return float(np.isnan(self._between(_without_margin(nodes, margin))).mean())


def _without_margin(points: Points, margin: float) -> Points:
    return margin + (1.0 - 2.0 * margin) * points


def lattice(n: int) -> Points:
    """The centres of n x n equal squares, row by row."""
    ticks = (np.arange(n) + 0.5) / n
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


class Patches(NamedTuple):
    """Squares with the values of a function at their corners, between which it is taken to be bilinear."""

    corner: Float[ndarray, "n 2"]  # lower left
    side: Float[ndarray, " n"]
    values: Float[ndarray, "n 4"]  # lower left, lower right, upper left, upper right

    @classmethod
    def of(cls, corner: Points, side: Float[ndarray, " n"], function: Function) -> "Patches":
        """The squares with these lower left corners."""
        nodes = corner[:, None] + side[:, None, None] * CORNERS
        return cls(corner, side, function(nodes.reshape(-1, 2)).reshape(-1, 4))

    @property
    def slope(self) -> Float[ndarray, "n 2"]:
        """The gradient in the middle of each square."""
        lower_left, lower_right, upper_left, upper_right = self.values.T
        across = lower_right + upper_right - lower_left - upper_left
        upwards = upper_left + upper_right - lower_left - lower_right
        return np.asarray(0.5 * np.stack([across, upwards], axis=1) / self.side[:, None])

    def at(self, points: Points, number: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
        """The values at points, each in the square of this number."""
        x, y = ((points - self.corner[number]) / self.side[number, None]).T
        lower_left, lower_right, upper_left, upper_right = self.values[number].T
        below, above = lower_left * (1.0 - x) + lower_right * x, upper_left * (1.0 - x) + upper_right * x
        return np.asarray(below * (1.0 - y) + above * y)


def leaf_patches(leaves: Leaves, function: Function) -> Patches:
    """The leaf cells of a grid, each interpolated from its own corners.

    At an edge where one cell meets two smaller ones, their values differ: hanging nodes get no special treatment.
    """
    return Patches.of(leaves.corner, leaves.side, function)


@final
class Reference:
    """A function and its values at a fine lattice, at which the interpolation errors of grids are measured."""

    def __init__(self, function: Function, *, n: int = LATTICE) -> None:
        self.function, self.points = function, lattice(n)
        self.truth = function(self.points)

    def squared_errors(self, grid: Grid) -> Float[ndarray, " m"]:
        """Squared interpolation errors of a grid at all points of the lattice."""
        leaves = leaves_of(grid)
        return self._squared_errors(leaf_patches(leaves, self.function), leaves.at(self.points))

    def rmse(self, grid: Grid) -> float:
        """Root mean squared interpolation error of a grid over the unit square."""
        return float(np.sqrt(self.squared_errors(grid).mean()))

    def uniform_rmse(self, n: int) -> float:
        """The same for n x n equal cells."""
        patches = Patches.of(lattice(n) - 0.5 / n, np.full(n * n, 1.0 / n), self.function)
        column, row = np.minimum((self.points * n).astype(np.int64), n - 1).T
        return float(np.sqrt(self._squared_errors(patches, row * n + column).mean()))

    def _squared_errors(self, patches: Patches, number: Int[ndarray, " m"]) -> Float[ndarray, " m"]:
        return np.asarray(np.square(patches.at(self.points, number) - self.truth))
