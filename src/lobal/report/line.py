"""The model of one input column along it: prediction above, local bandwidth below."""

from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from lobal.mixture.estimator import MixtureRegressor
from lobal.report.axes import number_logarithmic
from lobal.report.figures import LOG_START, Profile, draw_bandwidth, draw_prediction, line_grid, profile, scales_of
from lobal.report.variables import Variable


def line_figures(
    model: MixtureRegressor, X: Float[ndarray, "n 1"], y: Float[ndarray, " n"], *, variable: Variable, target: str
) -> dict[str, Figure]:
    """A figure on a linear axis and, for positive inputs across a decade, another on a logarithmic one.

    A logarithmic variable has the latter only. Bandwidths are in units of the model's inputs.
    """
    fitted, x = profile(model, line_grid(X)), variable.at(X)[:, None]
    shown = replace(fitted, points=variable.at(fitted.points)[:, None])
    start = float(x.min() if variable.logarithmic else np.quantile(x, LOG_START))
    draw = partial(_figure, shown, x, y, start=start, column=variable.label, target=target.replace("$", r"\$"))
    scales = ("log",) if variable.logarithmic else scales_of(x)
    return {f"prediction and local bandwidth, {scale} axis": draw(scale) for scale in scales}


def _figure(
    fitted: Profile,
    X: Float[ndarray, "n 1"],
    y: Float[ndarray, " n"],
    scale: str,
    *,
    start: float,  # of a logarithmic axis
    column: str,
    target: str,
) -> Figure:
    figure = Figure(figsize=(5.0, 5.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.set_xscale(scale)
    draw_prediction(above, fitted=fitted, X=X, y=y, truth=None)
    draw_bandwidth(below, profiles={"local bandwidth": fitted})
    above.set_ylabel(target)
    below.set_xlabel(f"{column} (logarithmic)" if scale == "log" else column)
    if scale == "log":
        below.set_xlim(start / 1.02, X.max() * 1.02)
        number_logarithmic(below.xaxis)
    number_logarithmic(below.yaxis)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    above.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize="small")
    return figure
