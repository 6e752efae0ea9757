"""Figures of a campaign: learning curves, and where its labels are, for any number of input columns.

Values are given at the candidates. Figures are returned and change no global state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
from numpy import ndarray
from scipy.integrate import trapezoid

from lobal.active.learner import ActiveLearner
from lobal.report.figures import ACCENT, DATA, LINES, PREDICTION, TRUTH
from lobal.report.savings import pooled_errors

SUGGESTED = "#E69F00"  # of the same palette as the other colours
COMPLEXITY = "local complexity (LFC), median = 1"
SUPERIOR = "superior training density, median = 1"
MOST_TICKS = 8  # more sizes than that do not get a tick each
FEWEST_TICKS = 3  # a readable scale has at least so many
MOST_POINTS = 10_000  # of a scatter plot; more hide each other
N_SLICES = 20  # of a column, for the mean complexity along it


@final
@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Values at (some of) the candidates of a campaign, and the inputs that were labelled and suggested."""

    points: Float[ndarray, "n d"]
    names: tuple[str, ...]  # of the d columns
    complexity: Float[ndarray, " n"]  # LFC, up to a factor
    superior_density: Float[ndarray, " n"]  # up to a factor
    training_density: Float[ndarray, " n"]  # p_k of labelled and suggested points, up to a factor
    labelled: Float[ndarray, "labelled d"]  # in the order they were asked for
    suggested: Float[ndarray, "suggested d"]  # labels still to come

    def __post_init__(self) -> None:
        if len(self.names) != self.points.shape[1]:
            raise ValueError(f"{self.points.shape[1]} input columns need as many names, got {list(self.names)}")


def landscape(learner: ActiveLearner, names: Sequence[str] | None = None) -> Landscape:
    """The learner at 10,000 of its candidates at most, drawn at random with a fixed seed."""
    if learner.fitted is None:
        raise ValueError(f"a landscape needs a fitted model; {len(learner.labelled.y)} labels are too few")
    total, d = learner.candidates.X.shape
    names = learner.candidates.input_names if names is None else names
    rows = np.sort(np.random.default_rng(0).permutation(total)[:MOST_POINTS])
    points = np.asarray(learner.candidates.X[rows], dtype=np.float64)
    return Landscape(
        points=points,
        # matplotlib would read dollar signs as the ends of formulas.
        names=_numbered(d) if names is None else tuple(name.replace("$", r"\$") for name in names),
        complexity=learner.local_complexity()[rows],
        superior_density=learner.superior_density()[rows],
        training_density=learner.training_density()[rows],
        labelled=_coordinates(learner, learner.labelled.X, learner.labelled.candidate),
        suggested=suggested_inputs(learner),
    )


def suggested_inputs(learner: ActiveLearner) -> Float[ndarray, "n d"]:
    """Inputs of the pending points."""
    candidates, recorded = learner.candidates.locate(learner.pending)
    numbers = np.asarray(candidates, dtype=np.int64)
    inputs = learner.candidates.model_inputs(numbers, recorded) if learner.is_box else recorded
    return _coordinates(learner, inputs, numbers)


def _coordinates(learner: ActiveLearner, inputs: ndarray, numbers: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
    """Points as figures show them: their inputs in a box, coordinates of their candidates in a pool."""
    return np.asarray(inputs if learner.is_box else learner.candidates.X[numbers], dtype=np.float64)


def _numbered(d: int) -> tuple[str, ...]:
    return ("$x$",) if d == 1 else tuple(f"$x_{{{j + 1}}}$" for j in range(d))


class Curve(NamedTuple):
    """Errors (seeds, sizes) at ascending numbers of labels."""

    sizes: Sequence[int]
    rmse: Float[ndarray, "seeds sizes"]


def learning_curve_figure(curves: Mapping[str, Curve], rate: float = 0.5) -> Figure:
    """Pooled errors against the number of labels, with standard errors, and the slope of the learning rate n^-tau."""
    sizes = np.unique(np.concatenate([curve.sizes for curve in curves.values()])).astype(np.float64)
    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    axes = figure.subplots()
    lowest = np.inf
    for (name, curve), colour in zip(curves.items(), LINES, strict=False):
        lowest = min(lowest, *draw_curve(axes, curve, color=colour, label=name) * np.asarray(curve.sizes) ** rate)
    guide = 0.85 * lowest * sizes**-rate  # below every curve
    slope = "1/2" if rate == 0.5 else f"{rate:.2g}"
    axes.plot(sizes, guide, color="0.5", linewidth=1.0, linestyle=(0, (8, 4)), label=rf"slope $n^{{-{slope}}}$")
    axes.set(xscale="log", yscale="log", xlabel="labels $n$", ylabel="RMSE")
    for axis in (axes.xaxis, axes.yaxis):
        _number_logarithmic(axis)
    if len(sizes) <= MOST_TICKS:
        axes.set_xticks(sizes, labels=[f"{size:.0f}" for size in sizes])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return figure


def draw_curve(axes: Axes, curve: Curve, **look: Any) -> Float[ndarray, " sizes"]:  # noqa: ANN401 - matplotlib's
    """Draw the pooled errors of a curve with their standard errors; they are returned."""
    pooled, spread = pooled_errors(curve.rmse)
    axes.errorbar(curve.sizes, pooled, yerr=spread, marker="o", markersize=4.0, capsize=2.5, **look)
    return pooled


def training_histogram_figure(landscape: Landscape) -> Figure:
    """One column: histogram of labelled and suggested inputs, with training density and superior density."""
    x, labelled, suggested = (part[:, 0] for part in (landscape.points, landscape.labelled, landscape.suggested))
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    number = len(labelled) + len(suggested)
    bins = np.linspace(x.min(), x.max(), 1 + int(np.clip(1.5 * number**0.5, 8, 80)))
    parts = {f"labelled, {len(labelled)}": labelled, f"suggested, {len(suggested)}": suggested}
    kept = {name: part for name, part in parts.items() if len(part)}
    axes.hist(
        list(kept.values()),
        bins=list(bins),
        weights=[np.full(len(part), 1.0 / (number * (bins[1] - bins[0]))) for part in kept.values()],
        stacked=True,
        color=[{"l": DATA, "s": SUGGESTED}[name[0]] for name in kept],
        label=list(kept),
    )
    order = np.argsort(x, kind="stable")
    for values, colour, name in (
        (landscape.training_density, TRUTH, "training density $p_k$"),
        (landscape.superior_density, PREDICTION, "superior training\ndensity"),
    ):
        area = trapezoid(values[order], x[order])
        axes.plot(x[order], values[order] / area, color=colour, linewidth=1.2, label=name)
    axes.set(xlabel=landscape.names[0], ylabel="density", ylim=(0.0, None))
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
    return figure


def complexity_panels_figure(landscape: Landscape) -> Figure:
    """Several columns: distribution of the complexity, and its mean along the two columns it depends on most."""
    first, second = telling_columns(landscape.points, landscape.complexity)
    figure = Figure(figsize=(12.0, 7.4), layout=ConstrainedLayoutEngine(h_pad=0.1))
    panels = figure.subplots(2, 3)
    _draw_distribution(panels[0, 0], landscape.complexity)
    for axes, column in ((panels[0, 1], first), (panels[0, 2], second)):
        _draw_course(axes, landscape, column)
    panels[0, 2].sharey(panels[0, 1])
    pair = (first, second)
    _draw_values(panels[1, 0], landscape, _relative(landscape.complexity), pair, COMPLEXITY)
    _draw_values(panels[1, 1], landscape, _relative(landscape.superior_density), pair, SUPERIOR)
    _draw_labelled(panels[1, 2], landscape, pair)
    for axes in panels[1]:
        axes.set_xlabel(landscape.names[first])
    panels[1, 0].set_ylabel(landscape.names[second])
    return figure


def telling_columns(points: Float[ndarray, "n d"], complexity: Float[ndarray, " n"]) -> tuple[int, int]:
    """The two columns along which log LFC varies most: the variance of its mean over slices of equal size."""
    if points.shape[1] < 2:
        raise ValueError(f"inputs must have at least two columns, got shape {points.shape}")
    logarithm = np.log(complexity)
    shares = [np.average((means - logarithm.mean()) ** 2, weights=sizes) for means, sizes in _slices(points, logarithm)]
    first, second = np.argsort(shares, kind="stable")[::-1][:2]
    return int(first), int(second)


def _slices(
    points: Float[ndarray, "n d"], values: Float[ndarray, " n"]
) -> list[tuple[Float[ndarray, " k"], Float[ndarray, " k"]]]:
    """Of every column, the mean of the values in each of its slices and the number of points there."""
    result = []
    for column in points.T:
        edges = np.unique(np.quantile(column, np.linspace(0.0, 1.0, N_SLICES + 1)[1:-1]))
        slice_of = np.searchsorted(edges, column)
        sizes = np.bincount(slice_of).astype(float)
        filled = sizes > 0.0
        result.append(((np.bincount(slice_of, weights=values)[filled]) / sizes[filled], sizes[filled]))
    return result


def _draw_values(
    axes: Axes, landscape: Landscape, values: Float[ndarray, " n"], pair: tuple[int, int], title: str
) -> None:
    """Candidates in the colour of their value, the largest on top."""
    norm = _logarithmic(values)
    order = np.argsort(values)
    x, y = landscape.points[order][:, pair].T
    size = float(np.clip(6e4 / len(values), 1.5, 30.0))  # dots cover a panel about once
    dots = axes.scatter(x, y, c=values[order], s=size, cmap="magma", norm=norm, linewidths=0.0, rasterized=True)
    axes.set_title(title, fontsize="medium")
    ticks = logarithmic_ticks(*norm.inverse(np.array([0.0, 1.0])))
    axes.figure.colorbar(dots, ax=axes, ticks=ticks, format="%.3g").minorticks_off()


def _draw_labelled(axes: Axes, landscape: Landscape, pair: tuple[int, int]) -> None:
    """Labelled inputs coloured by their order, suggested ones as rings, candidates in grey."""
    axes.plot(*landscape.points[:, pair].T, ".", color="0.85", markersize=1.5, zorder=0.0)
    x, y = landscape.labelled[:, pair].T
    turns = axes.scatter(x, y, c=np.arange(1, len(x) + 1), s=10.0, cmap="viridis", linewidths=0.0)
    axes.figure.colorbar(turns, ax=axes, label="order of labelling")
    title = f"{len(landscape.labelled)} labelled inputs"
    if len(landscape.suggested):
        axes.plot(*landscape.suggested[:, pair].T, "o", color=PREDICTION, fillstyle="none", markersize=4.0)
        title += f", {len(landscape.suggested)} suggested (rings)"
    axes.set_title(title, fontsize="medium")


def _draw_distribution(axes: Axes, complexity: Float[ndarray, " n"]) -> None:
    """Histogram of LFC relative to its median, on a logarithmic axis."""
    relative = _relative(complexity)
    lower, upper = min(relative.min(), 0.9), max(relative.max(), 1.1)
    axes.hist(relative, bins=list(np.geomspace(lower, upper, 40)), color=ACCENT)
    axes.set(xscale="log", xlabel=COMPLEXITY, ylabel="candidates")
    _number_logarithmic(axes.xaxis)
    axes.set_title("distribution of the local complexity", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_course(axes: Axes, landscape: Landscape, column: int) -> None:
    """LFC against one column, with its (geometric) mean in slices of the column."""
    x = landscape.points[:, column]
    relative = _relative(landscape.complexity)
    axes.plot(x, relative, ".", color=DATA, markersize=1.5, zorder=0.0)
    chosen = landscape.points[:, [column]]
    (means, _), (centres, _) = _slices(chosen, np.log(relative))[0], _slices(chosen, x)[0]
    axes.plot(centres, np.exp(means), color=TRUTH, linewidth=1.2, label="mean")
    axes.set(yscale="log", xlabel=landscape.names[column], ylabel=COMPLEXITY)
    _number_logarithmic(axes.yaxis)
    axes.set_title(f"along {landscape.names[column]}", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)


def _relative(values: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Values in units of their median."""
    positive = values[values > 0.0]
    return np.asarray(values / np.median(positive) if len(positive) else values)


def _number_logarithmic(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis."""
    axis.set_major_locator(FixedLocator(logarithmic_ticks(*axis.get_view_interval())))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def logarithmic_ticks(lower: float, upper: float) -> list[float]:
    """1, 2 and 5 of every decade; over more than two decades only 1; evenly spaced within a small part of a decade."""
    subs = (1.0,) if upper > 100.0 * lower else (1.0, 2.0, 5.0)
    logarithmic = np.outer(LogLocator().tick_values(lower, upper), subs).ravel()
    for values in (logarithmic, MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(lower, upper)):
        ticks = [float(tick) for tick in values if lower <= tick <= upper]
        if len(ticks) >= FEWEST_TICKS:
            break
    return ticks


def _logarithmic(values: Float[ndarray, " n"]) -> LogNorm:
    """A logarithmic scale without the outermost percents, which would take up most of it.

    It spans at least a factor of two, so that values which hardly vary look even.
    """
    positive = values[values > 0.0]
    lower, upper = np.quantile(positive, [0.01, 0.99]) if len(positive) else (1.0, 1.0)
    middle, factor = np.sqrt(lower * upper), max(np.sqrt(upper / lower), np.sqrt(2.0))
    return LogNorm(middle / factor, middle * factor, clip=True)
