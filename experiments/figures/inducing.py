"""Errors against the number of inducing points. The figure is returned and touches no global state."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.figures.models import set_logarithmic
from lobal.report.campaign_figures import SUGGESTED, Curve, draw_curve
from lobal.report.figures import DATA, LINES, TRUTH

COLOURS = (*LINES, SUGGESTED, DATA, TRUTH)
LineStyle: TypeAlias = Literal["-", "--", ":"]
STYLES: tuple[LineStyle, ...] = ("-", "--", ":")
Mark = TypeVar("Mark")

# By the choice of the inducing points, then by the training set; the sizes of the curves are numbers of points.
Curves: TypeAlias = Mapping[str, Mapping[str, Curve]]


def inducing_point_panels(panels: Mapping[str, Curves]) -> Figure:
    """One panel per title, with a common axis of errors; colours are choices of points, line styles training sets.

    As in Fig. (fig:dopplerExperiment_varyingIPstrategies); errors are pooled over the seeds.
    """
    if not panels:
        raise ValueError("errors against the number of inducing points need at least one panel, got none")
    colours = _assigned((choice for curves in panels.values() for choice in curves), COLOURS, "colours")
    styles = _assigned(
        (name for curves in panels.values() for arms in curves.values() for name in arms), STYLES, "lines"
    )
    figure = Figure(figsize=(3.0 + 3.4 * len(panels), 3.8), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        _draw_panel(axes, curves, colours, styles)
        axes.set_title(title, fontsize="medium")
    row[0].set_ylabel("RMSE")
    handles = [Line2D([], [], color=colour, marker="o", markersize=4.0, label=name) for name, colour in colours.items()]
    handles += [Line2D([], [], color="0.4", linestyle=style, label=name) for name, style in styles.items()]
    row[-1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return figure


def _assigned(names: Iterable[str], marks: tuple[Mark, ...], what: str) -> dict[str, Mark]:
    """A mark for every name, in the order of their first appearance."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) > len(marks):
        raise ValueError(f"there are {len(marks)} {what}, got {len(distinct)} names for them: {distinct}")
    return dict(zip(distinct, marks, strict=False))


def _draw_panel(axes: Axes, curves: Curves, colours: Mapping[str, str], styles: Mapping[str, LineStyle]) -> None:
    for choice, arms in curves.items():
        for name, curve in arms.items():
            draw_curve(axes, curve, color=colours[choice], linestyle=styles[name])
    sizes = {size for arms in curves.values() for curve in arms.values() for size in curve.sizes}
    set_logarithmic(axes, sizes, "inducing points $m$")
