"""Learning curves: errors of several schemes or models against the number of labels, one panel per kind of error."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from experiments.repetitions import Result, mean_and_error
from lobal.report.axes import logarithmic_ticks, slope_name
from lobal.report.figures import LINES, line_colour
from lobal.report.savings import pooled_errors, relative_sample_sizes

LABELS = "labels $n$"
# As in Fig. (fig:malonMD_IsoVsAniVsMoEVsActivePerformance_pMD_rmse_withLogBox), from the last curve to the first.
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")
GUIDE_OFFSET = 0.8  # of the slope of the learning rate, below all curves


class ErrorCurve(NamedTuple):
    """Mean errors over repetitions, with their standard errors, at ascending numbers of labels."""

    sizes: Int[ndarray, " sizes"]
    mean: Float[ndarray, " sizes"]
    standard_error: Float[ndarray, " sizes"]


def by_size(results: Sequence[Result]) -> list[Result]:
    """Results with names such as "random_rmse_1024" as one result for every size and seed, without it in the names."""
    rows: dict[tuple[int, int], Result] = {}
    for result in results:
        for name, value in result.items():
            stem, _, size = name.rpartition("_")
            if stem and size.isdigit():
                rows.setdefault((int(size), result["seed"]), {"n": int(size), "seed": result["seed"]})[stem] = value
    return [rows[key] for key in sorted(rows)]


def measured_curve(results: Sequence[Result], name: str) -> ErrorCurve:
    """The curve of numbers that results have under names such as "random_rmse", one result for every n and seed.

    RMSE is pooled over the seeds as squares, other errors are averaged.
    """
    sizes = sorted({result["n"] for result in results})
    points = [_pooled([result[name] for result in results if result["n"] == n], "rmse" in name) for n in sizes]
    return ErrorCurve(np.array(sizes), *np.array(points).T)


def _pooled(values: Sequence[float], squared: bool) -> tuple[float, float]:
    if not squared:
        average = mean_and_error(values)
        return average["mean"] or 0.0, average["standard_error"] or 0.0
    pooled, spread = pooled_errors(np.array(values)[:, None])
    return float(pooled[0]), 0.0 if spread is None else float(spread[0])


def sample_sizes(results: Sequence[Result], arm: str, reference: str) -> dict[str, dict[str, float | None]]:
    """Relative sample sizes of one arm against another by n, with jackknifed standard errors, for a record."""
    found = {}
    for n in sorted({result["n"] for result in results}):
        errors = ([[result[f"{each}_rmse"]] for result in results if result["n"] == n] for each in (arm, reference))
        saved = relative_sample_sizes(*errors, smoothness=math.inf, dimension=1.0)
        found[str(n)] = {"rho": saved.overall.value, "standard_error": saved.overall.standard_error}
    return found


def error_panels(
    panels: Mapping[str, Mapping[str, ErrorCurve]],
    xlabel: str = "labelled configurations $n$",
    rate: float | None = None,
) -> Figure:
    """One panel per kind of error, each with the same curves, such as RMSE and largest error.

    Curves are told apart by line, colour and marker, which go by their order in the first panel, the last one solid.
    With a `rate`, panels show the slope n^-rate in grey.
    """
    columns, rows = min(len(panels), 2), -(-len(panels) // 2)
    figure = Figure(figsize=(0.6 + 3.7 * columns, 0.7 + 2.8 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (ylabel, curves) in zip(grid, panels.items(), strict=False):
        draw_errors(axes, curves, xlabel, rate)
        axes.set_ylabel(ylabel)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2 * columns, frameon=False, handlelength=3)
    return figure


def draw_errors(axes: Axes, curves: Mapping[str, ErrorCurve], xlabel: str = LABELS, rate: float | None = None) -> None:
    """Curves with error bars on logarithmic axes, the last one solid; random labels have the colour of all figures."""
    looks = list(zip(STYLES, LINES, MARKERS, strict=True))[: len(curves)][::-1]
    for (name, curve), (line, colour, marker) in zip(curves.items(), looks, strict=True):
        own = line_colour(name, colour)
        axes.errorbar(*curve, fmt=marker + line, color=own, linewidth=1.4, markersize=3.5, capsize=2.0, label=name)
    if rate is not None:
        lowest = min((curve.mean * curve.sizes**rate).min() for curve in curves.values())
        ends = next(iter(curves.values())).sizes[[0, -1]].astype(np.float64)
        guide = GUIDE_OFFSET * lowest * ends**-rate
        axes.plot(ends, guide, color="0.5", linewidth=1.0, linestyle=(0, (8, 4)), label=slope_name(rate))
    axes.set(xscale="log", yscale="log", xlabel=xlabel)
    sizes = sorted({int(size) for curve in curves.values() for size in curve.sizes})
    axes.set_xticks(sizes, labels=[_size_name(size) for size in sizes])
    axes.set_yticks(ticks := logarithmic_ticks(*axes.get_ylim()), labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)


def _size_name(size: int) -> str:
    """Powers of two as such, which is short."""
    exponent = size.bit_length() - 1
    return rf"$2^{{{exponent}}}$" if size == 2**exponent and exponent > 3 else str(size)
