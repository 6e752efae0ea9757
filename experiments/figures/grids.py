"""Grids of a field beside the field, its local complexity, and their interpolation errors by number of cells."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from numpy import ndarray

from experiments.figures.models import COLOURS
from experiments.mesh.quad_tree import Grid, leaves_of, n_cells

SQUARE = (0.0, 1.0, 0.0, 1.0)


class Curve(NamedTuple):
    """Errors of grids, with a standard error where there are several."""

    cells: Float[ndarray, " k"]
    rmse: Float[ndarray, " k"]
    standard_error: Float[ndarray, " k"] | None = None


class Picture(NamedTuple):
    """What the figure shows; arrays over the square have their rows upwards."""

    field: Float[ndarray, "rows columns"]
    complexity: Float[ndarray, "rows columns"]
    labelled: Float[ndarray, "n 2"]
    grids: Mapping[str, Grid]  # three, by title
    curves: Mapping[str, Curve]  # by name


def grids_figure(picture: Picture) -> Figure:
    """Field, complexity and errors above, three grids below."""
    figure = Figure(figsize=(13.0, 8.6), layout="constrained")
    above, below = figure.subplots(2, 3)
    shown = above[0].imshow(picture.field, origin="lower", extent=SQUARE, cmap="viridis")
    figure.colorbar(shown, ax=above[0], label="speed", shrink=0.85)
    above[0].set_title("the field")
    shown = above[1].imshow(picture.complexity, origin="lower", extent=SQUARE, cmap="magma", norm=LogNorm())
    figure.colorbar(shown, ax=above[1], label="local complexity, 1 / bandwidth²", shrink=0.85)
    above[1].plot(*picture.labelled.T, ".", color="white", markersize=2.0)
    above[1].set_title(f"local complexity, isotropic model, {len(picture.labelled)} labels")
    _draw_curves(above[2], picture.curves)
    for axes, (title, grid) in zip(below, picture.grids.items(), strict=True):
        axes.add_collection(LineCollection(list(_edges(grid)), colors="0.25", linewidths=0.4))
        axes.set_title(f"{title}, {n_cells(grid)} cells")
    for axes in (*above[:2], *below):
        axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal", xticks=[0.0, 0.5, 1.0], yticks=[0.0, 0.5, 1.0])
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, Curve]) -> None:
    for (name, curve), colour in zip(curves.items(), ("0.5", *COLOURS), strict=False):
        axes.plot(curve.cells, curve.rmse, color=colour, marker=None if name == "uniform" else "o", ms=3.0, label=name)
        if curve.standard_error is not None:
            low, high = (curve.rmse + sign * curve.standard_error for sign in (-1.0, 1.0))
            axes.fill_between(curve.cells, low, high, color=colour, alpha=0.2, linewidth=0.0)
    axes.set(xscale="log", yscale="log", xlabel="cells", ylabel="interpolation error, RMSE", title="errors")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def _edges(grid: Grid) -> Float[ndarray, "n 5 2"]:
    """The outlines of the leaf cells."""
    leaves = leaves_of(grid)
    outline = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    return np.asarray(leaves.corner[:, None] + leaves.side[:, None, None] * outline)
