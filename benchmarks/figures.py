"""Figures of how long things take."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from lobal.report.campaign_figures import MOST_TICKS, SUGGESTED
from lobal.report.figures import LINES


class Seconds(NamedTuple):
    """Seconds at ascending numbers of labels; an extrapolated one was not measured."""

    sizes: Sequence[int]
    seconds: Sequence[float]
    is_extrapolated: Sequence[bool]


def seconds_figure(curves: Mapping[str, Seconds]) -> Figure:
    """Seconds of a fit against the number of labels, both logarithmic; hollow marks are extrapolated."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, curve), colour in zip(curves.items(), (*LINES, SUGGESTED), strict=False):
        axes.plot(curve.sizes, curve.seconds, color=colour, linewidth=1.2, label=name)
        for size, seconds, is_extrapolated in zip(*curve, strict=True):
            axes.plot(size, seconds, "o", color=colour, markersize=5.0, mfc="white" if is_extrapolated else colour)
    if any(any(curve.is_extrapolated) for curve in curves.values()):
        axes.plot([], [], "o", color="0.4", mfc="white", label="extrapolated")
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
