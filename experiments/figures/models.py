"""Several models of the same data: predictions one below the other, learning curves side by side."""

from collections.abc import Iterable, Mapping
from functools import partial

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from numpy import ndarray

from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import Curve, draw_curve
from lobal.report.figures import LINES, Draw, Function, draw_prediction, line_grid, profile, rows_figure


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


def learning_curve_panels(models: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """One panel per model, on common axes: pooled errors of its arms against the number of labels."""
    if not models:
        raise ValueError("learning curves need at least one model, got none")
    figure = Figure(figsize=(1.2 + 3.2 * len(models), 3.8), layout="constrained")
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (name, curves) in zip(panels, models.items(), strict=True):
        _draw_curves(axes, curves)
        axes.set_title(name, fontsize="medium")
    panels[0].set_ylabel("RMSE")
    panels[0].legend(frameon=False, fontsize="small", loc="lower left")
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, Curve]) -> None:
    if len(curves) > len(LINES):
        raise ValueError(f"a panel has colours for {len(LINES)} curves, got {len(curves)}: {list(curves)}")
    for (name, curve), colour in zip(curves.items(), LINES, strict=False):
        draw_curve(axes, curve, color=colour, label=name)
    set_logarithmic(axes, {size for curve in curves.values() for size in curve.sizes}, "labels $n$")


def set_logarithmic(axes: Axes, sizes: Iterable[int], label: str) -> None:
    """Logarithmic axes with a tick at each of the sizes, and errors at 1, 2 and 5."""
    ticks = sorted(sizes)
    axes.set(xscale="log", yscale="log", xlabel=label)
    axes.set_xticks(ticks, labels=[str(size) for size in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
