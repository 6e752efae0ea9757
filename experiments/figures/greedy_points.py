"""Errors against the number of inducing points, greedy and shared, and how many points each bandwidth takes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.repetitions import Result, values_by_seed
from lobal.report.axes import number_logarithmic
from lobal.report.figures import LINES
from lobal.report.savings import pooled_errors

ARMS = {"superior": "superior training density", "random": "random test sampling"}
CHOICES = {"drawn": "at random", "geometric": r"by $\sqrt{p \cdot \mathrm{LFC}}$"}
GREEDY = r"greedy, of $\sigma_1$"
MARKERS = ("o", "s")


def greedy_figure(results: Sequence[Result], thresholds: Sequence[float], sizes: Sequence[int]) -> Figure:
    """As Fig. (fig:dopplerExperiment_ourIPsVsGFF), with the points of every bandwidth at the right."""
    figure = Figure(figsize=(13.6, 3.8), layout="constrained")
    *panels, counts = figure.subplots(1, len(ARMS) + 1)
    for axes, (arm, title) in zip(panels, ARMS.items(), strict=True):
        greedy = values_by_seed(results, f"{arm}_greedy_rmse", thresholds)
        m = np.mean([[result[f"{arm}_greedy_counts_{each}"][0] for each in thresholds] for result in results], axis=0)
        curves = {GREEDY: (m, greedy)}
        curves |= {
            name: (np.array(sizes), values_by_seed(results, f"{arm}_{each}_rmse", sizes))
            for each, name in CHOICES.items()
        }
        for (name, (numbers, errors)), colour in zip(curves.items(), LINES, strict=False):
            pooled, spread = pooled_errors(errors)
            axes.errorbar(
                numbers, pooled, yerr=spread, marker="o", markersize=4.0, capsize=2.5, color=colour, label=name
            )
        axes.set(xscale="log", yscale="log", xlabel="inducing points $m$", ylabel="RMSE", title=title)
        axes.set_xticks(sizes, labels=[str(size) for size in sizes])
        number_logarithmic(axes.yaxis)
    panels[-1].legend(frameon=False, fontsize="small")
    first = results[0]
    for (arm, title), marker in zip(ARMS.items(), MARKERS, strict=True):
        counts.plot([], [], marker + "-", color="0.5", markersize=4.0, label=title)
        for threshold, shade in zip(thresholds, np.linspace(0.8, 0.0, len(thresholds)), strict=True):
            numbers = first[f"{arm}_greedy_counts_{threshold}"]
            label = rf"$\epsilon_J = {threshold:g}$" if arm == "random" else None
            widths, look = first[f"{arm}_bandwidths"], marker + "-"
            counts.plot(widths, numbers, look, color=str(shade), markersize=4.0, label=label)
    counts.set(
        xscale="log", yscale="log", xlabel=r"bandwidth $\sigma_l$", ylabel="greedy points", title="of every expert"
    )
    number_logarithmic(counts.xaxis)
    counts.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    for axes in figure.axes:
        axes.xaxis.set_minor_locator(NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
    return figure
