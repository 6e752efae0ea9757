"""Several models of the same data: predictions one below the other, curves of errors side by side."""

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator
from matplotlib.typing import LineStyleType
from numpy import ndarray

from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import SUGGESTED, Curve, draw_curve
from lobal.report.figures import DATA, LINES, TRUTH, Draw, Function, draw_prediction, line_grid, profile, rows_figure

STYLES: tuple[LineStyleType, ...] = ("-", "--", ":")
COLOURS = (*LINES, SUGGESTED, DATA, TRUTH)
# By what the colours tell, such as the choice of inducing points, and by what the lines tell, such as the training set.
Curves: TypeAlias = Mapping[str, Mapping[str, Curve]]


def comparison_figure(
    models: Mapping[str, MixtureRegressor],
    X: Float[ndarray, "n 1"],
    y: Float[ndarray, " n"],
    truth: Function | None = None,
) -> Figure:
    """The predictions of several models of the same data, one below the other."""
    profiles = {name: profile(model, line_grid(X)) for name, model in models.items()}
    rows: list[Draw] = [
        partial(draw_prediction, fitted=fitted, X=X, y=y, truth=truth, name=name) for name, fitted in profiles.items()
    ]
    return rows_figure(X, rows)


def curve_panels(panels: Mapping[str, Curves], xlabel: str) -> Figure:
    """One panel per title, with a common axis of errors pooled over the seeds; colours and lines tell curves apart."""
    names = [(colour, line) for curves in panels.values() for colour, group in curves.items() for line in group]
    colours = dict(zip(dict.fromkeys(colour for colour, _ in names), COLOURS, strict=False))
    lines = dict(zip(dict.fromkeys(line for _, line in names), STYLES, strict=False))
    figure = Figure(figsize=(3.0 + 3.4 * len(panels), 3.8), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        for colour, group in curves.items():
            for line, curve in group.items():
                draw_curve(axes, curve, color=colours[colour], linestyle=lines[line])
        sizes = sorted({size for group in curves.values() for curve in group.values() for size in curve.sizes})
        axes.set(xscale="log", yscale="log", xlabel=xlabel, title=title)
        axes.set_xticks(sizes, labels=[str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
    row[0].set_ylabel("RMSE")
    handles = [Line2D([], [], color=colour, marker="o", markersize=4.0, label=name) for name, colour in colours.items()]
    handles += [Line2D([], [], color="0.4", linestyle=line, label=name) for name, line in lines.items() if name]
    row[-1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return figure
