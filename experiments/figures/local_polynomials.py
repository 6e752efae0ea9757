"""Local polynomials beside the mixture: estimates along the inputs, and learning curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator
from numpy import ndarray

from experiments.figures.models import STYLES
from experiments.repetitions import values_by_seed
from lobal.report.axes import number_logarithmic
from lobal.report.campaign_figures import Curve, draw_curve
from lobal.report.figures import LINES

NAMES = {"mixture": "mixture of GPs", "lps1": "local polynomials, $Q = 1$", "lps3": "local polynomials, $Q = 3$"}
PANELS = {
    "bandwidth": "local bandwidth",
    "complexity": "local complexity, as a density",
    "density": "training density",
}
ERRORS = {"rmse": "RMSE", "max_error": "maximum error"}
ARMS = ("active", "random")


def estimates_figure(record: dict[str, Any], models: Sequence[str], edges: Float[ndarray, " _"]) -> Figure:
    """Geometric means over the seeds of what every model estimates, with standard errors, on logarithmic axes."""
    middle = np.concatenate([[0.5 * edges[1]], np.sqrt(edges[1:-1] * edges[2:])])
    figure = Figure(figsize=(11.0, 3.6), layout="constrained")
    row: Sequence[Axes] = figure.subplots(1, len(PANELS))
    for axes, (name, title) in zip(row, PANELS.items(), strict=True):
        for model, colour in zip(models, LINES, strict=False):
            logs = np.log([result[f"{model}_{name}"] for result in record["results"]])
            mean, error = logs.mean(axis=0), logs.std(axis=0, ddof=min(1, len(logs) - 1)) / np.sqrt(len(logs))
            axes.plot(middle, np.exp(mean), color=colour, label=NAMES[model])
            axes.fill_between(middle, np.exp(mean - error), np.exp(mean + error), color=colour, alpha=0.25, linewidth=0)
        axes.set(xscale="log", yscale="log", xlabel="$x$", title=title)
        number_logarithmic(axes.yaxis)
        axes.spines[["top", "right"]].set_visible(False)
    row[0].legend(frameon=False, fontsize="small")
    return figure


def curves_figure(record: dict[str, Any], models: Sequence[str], sizes: Sequence[int]) -> Figure:
    """Errors of every model against the number of labels: root mean squared ones, and the largest."""
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    row: Sequence[Axes] = figure.subplots(1, len(ERRORS))
    for axes, (error, title) in zip(row, ERRORS.items(), strict=True):
        for model, colour in zip(models, LINES, strict=False):
            for arm, style in zip(ARMS, STYLES, strict=False):
                errors = values_by_seed(record["results"], f"{model}_{arm}_{error}", sizes)
                draw_curve(axes, Curve(sizes, errors), color=colour, linestyle=style)
        axes.set(xscale="log", yscale="log", xlabel="labels $n$", title=title)
        axes.set_xticks(sizes, labels=[str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        number_logarithmic(axes.yaxis)
        axes.spines[["top", "right"]].set_visible(False)
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=4.0, label=NAMES[model])
        for model, colour in zip(models, LINES, strict=False)
    ]
    handles += [
        Line2D([], [], color="0.4", linestyle=style, label=arm) for arm, style in zip(ARMS, STYLES, strict=False)
    ]
    row[-1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return figure
