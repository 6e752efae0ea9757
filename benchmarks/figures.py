"""Figures of how long things take."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from lobal.report.campaign_figures import MOST_TICKS, SUGGESTED
from lobal.report.figures import LINES


class Seconds(NamedTuple):
    """Seconds at ascending numbers of labels."""

    sizes: Sequence[int]
    seconds: Sequence[float]


def seconds_figure(curves: Mapping[str, Seconds]) -> Figure:
    """Seconds of a fit against the number of labels, both logarithmic."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, curve), colour in zip(curves.items(), (*LINES, SUGGESTED), strict=False):
        axes.plot(curve.sizes, curve.seconds, "o-", color=colour, linewidth=1.2, markersize=5.0, label=name)
    sizes = sorted({size for curve in curves.values() for size in curve.sizes})
    axes.set(xscale="log", yscale="log", xlabel="labels $n$", ylabel="seconds of a fit")
    axes.yaxis.set_major_formatter("{x:g}")
    if len(sizes) <= MOST_TICKS:
        axes.set_xticks(sizes, labels=[f"{size}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return figure
