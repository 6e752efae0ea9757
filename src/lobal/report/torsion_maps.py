"""Where labels went, and where the energy surface is complex, over the two slowest torsions of a molecule.

Torsions are angles: they are shown from the middle of the widest range of angles that no configuration has, once
around, so that no group of configurations is cut in two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy import ndarray

from lobal.molecules.geometry.torsions import angles
from lobal.report.axes import logarithmic_scale, logarithmic_ticks
from lobal.report.campaign_figures import FAILED
from lobal.report.figures import ACCENT
from lobal.report.grown_campaign import GrownCampaign

SIZE = (4.3, 3.9)
POOL = "0.8"  # grey
CELLS, SLICES = 36, 30  # of the range of a torsion
STEPS = [1, 1.5, 3, 4.5, 6, 9, 10]  # between ticks, in degrees by powers of ten


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TorsionView:
    """Angles in degrees of the slowest torsions, two at most, each within one turn."""

    names: tuple[str, ...]
    pool: Float[ndarray, "p t"]
    labelled: Float[ndarray, "n t"]
    failed: Float[ndarray, "f t"]

    @classmethod
    def of(cls, campaign: GrownCampaign) -> "TorsionView":
        """The view of a campaign; without torsions, if the molecule has none."""
        torsions, names = campaign.torsions()
        parts = [angles(R, torsions[:2]).numpy() for R in (campaign.pool, campaign.R, campaign.failed)]
        starts = np.array([window_start(column) for column in np.concatenate(parts).T])
        pool, labelled, failed = (_within_a_turn(part, starts) for part in parts)
        return cls(names=tuple(names[:2]), pool=pool, labelled=labelled, failed=failed)


def window_start(angles: Float[ndarray, " n"]) -> float:
    """The angle in the middle of the widest gap between angles, in degrees from -180 to 180; -180 of no angles."""
    if len(angles) == 0:
        return -180.0
    ordered = np.sort(angles)
    gaps = np.diff(ordered, append=ordered[0] + 360.0)
    place = int(gaps.argmax())
    return float((ordered[place] + gaps[place] / 2.0 + 180.0) % 360.0 - 180.0)


def _within_a_turn(angles: Float[ndarray, "n t"], starts: Float[ndarray, " t"]) -> Float[ndarray, "n t"]:
    return np.asarray(starts + (angles - starts) % 360.0)


def torsion_figures(campaign: GrownCampaign, view: TorsionView) -> Mapping[str, Figure]:
    """What figures show, and these: the labels by their round, and the mean complexity where there is a pool."""
    over = f"over {' and '.join(view.names)}"
    is_plane = len(view.names) == 2
    labels = labels_map(view, campaign.round_of) if is_plane else labels_histogram(view, campaign.round_of)
    figures = {f"labelled configurations by round, {over}": labels}
    if len(campaign.pool):
        draw = complexity_map if is_plane else complexity_line
        figures[f"local complexity of the pool {over}"] = draw(view, campaign.pool_complexity)
    return figures


@final
@dataclass(frozen=True, kw_only=True)
class RoundColours:
    """A colour for each round."""

    colours: ListedColormap
    norm: Normalize

    @classmethod
    def of(cls, round_of: Int[ndarray, " n"]) -> "RoundColours":
        """Of rounds from zero to the last one that asked for labels."""
        number = int(round_of.max(initial=0)) + 1
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.95, number))
        return cls(colours=ListedColormap(colours), norm=BoundaryNorm(np.arange(number + 1) - 0.5, number))

    def colour(self, number: int) -> str:
        """Of one round."""
        return to_hex(self.colours(number))

    def draw_bar(self, figure: Figure, axes: Axes) -> None:
        """What the colours mean, where there are several."""
        if self.colours.N > 1:
            bar = figure.colorbar(ScalarMappable(self.norm, self.colours), ax=axes, label="round")
            bar.ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
            bar.ax.minorticks_off()


def labels_map(view: TorsionView, round_of: Int[ndarray, " n"]) -> Figure:
    """The pool in grey, labels in the colour of the round that asked for them, failed ones as crosses."""
    figure, axes = _panel("labels by round" if round_of.any() else "labels")
    axes.plot(*view.pool.T, ".", color=POOL, markersize=2.0, zorder=0.0, rasterized=True)
    colours, (x, y) = RoundColours.of(round_of), view.labelled.T
    look: dict[str, Any] = {"s": 16.0, "linewidths": 0.3, "edgecolors": "white"}
    axes.scatter(x, y, c=round_of, cmap=colours.colours, norm=colours.norm, **look)
    if len(view.failed):
        axes.plot(*view.failed.T, "x", color=FAILED, markersize=5.0, label=f"{len(view.failed)} failed")
        figure.legend(loc="outside lower center", frameon=False, fontsize="small")
    _name_angle(axes.xaxis, view.names[0])
    _name_angle(axes.yaxis, view.names[1])
    colours.draw_bar(figure, axes)
    return figure


def labels_histogram(view: TorsionView, round_of: Int[ndarray, " n"]) -> Figure:
    """The distribution of the pool in grey, and labels in the colours of their rounds, on top of each other."""
    figure, axes = _panel("labels by round" if round_of.any() else "labels")
    edges = _edges(np.concatenate([view.pool[:, 0], view.labelled[:, 0]]))
    colours, rounds = RoundColours.of(round_of), np.unique(round_of)
    axes.hist(
        [view.labelled[round_of == each, 0] for each in rounds],
        bins=list(edges),
        stacked=True,
        color=[colours.colour(each) for each in rounds.tolist()],
    )
    if len(view.pool):
        weight = np.full(len(view.pool), len(view.labelled) / len(view.pool))
        axes.hist(view.pool[:, 0], bins=list(edges), weights=weight, color="0.4", histtype="step", label="pool, scaled")
        axes.legend(frameon=False, fontsize="small")
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_ylabel("labels")
    _name_angle(axes.xaxis, view.names[0])
    colours.draw_bar(figure, axes)
    return figure


def complexity_map(view: TorsionView, complexity: Float[ndarray, " p"]) -> Figure:
    """The mean complexity of the configurations of the pool in every cell."""
    figure, axes = _panel("mean complexity, median = 1")
    norm = logarithmic_scale(complexity)
    look: dict[str, Any] = {"gridsize": (CELLS, round(CELLS / 3**0.5)), "linewidths": 0.2}
    x, y = view.pool.T
    # Matplotlib 3.8 takes the mean of empty cells too, unless they are left out.
    cells = axes.hexbin(x, y, C=complexity, reduce_C_function=np.mean, mincnt=1, cmap="magma", norm=norm, **look)
    ticks = logarithmic_ticks(*norm.inverse(np.array([0.0, 1.0])))
    figure.colorbar(cells, ax=axes, ticks=ticks, format="%.3g").minorticks_off()
    _name_angle(axes.xaxis, view.names[0])
    _name_angle(axes.yaxis, view.names[1])
    return figure


def complexity_line(view: TorsionView, complexity: Float[ndarray, " p"]) -> Figure:
    """The mean complexity of the configurations of the pool in every slice of the torsion."""
    figure, axes = _panel("mean complexity, median = 1")
    edges = _edges(view.pool[:, 0])
    slices = np.clip(np.searchsorted(edges, view.pool[:, 0], side="right") - 1, 0, len(edges) - 2)
    sizes = np.bincount(slices, minlength=len(edges) - 1)
    sums = np.bincount(slices, weights=complexity, minlength=len(edges) - 1)
    means = np.divide(sums, sizes, out=np.full(len(sums), np.nan), where=sizes > 0)
    axes.stairs(means, edges, color=ACCENT, linewidth=1.4, baseline=None)
    axes.set(ylabel="local complexity, median of the pool = 1", ylim=(0.0, None))
    _name_angle(axes.xaxis, view.names[0])
    return figure


def _edges(angles: Float[ndarray, " n"]) -> Float[ndarray, " k"]:
    lower, upper = angles.min(), angles.max()
    return np.linspace(lower, max(upper, lower + 1.0), SLICES + 1)


def _panel(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _name_angle(axis: Axis, name: str) -> None:
    """The torsion's name and unit; angles beyond 180 degrees are the negative ones they are equal to."""
    axis.set_label_text(f"torsion {name} (°)")
    axis.set_major_locator(MaxNLocator(6, steps=STEPS))
    axis.set_major_formatter(FuncFormatter(lambda angle, _: f"{180.0 - (180.0 - angle) % 360.0:.0f}"))
