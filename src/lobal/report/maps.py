"""Maps of a campaign over two of its variables: complexity, prediction, and where labels are and failed."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy import ndarray

from lobal.report.axes import logarithmic_scale, logarithmic_ticks, name_axis, relative
from lobal.report.campaign_figures import FAILED, Landscape
from lobal.report.figures import PREDICTION
from lobal.report.variables import MOST_DISTINCT, Variable, telling_variables

SIZE = (4.3, 3.9)
JITTER = 0.28  # of the step from value to value: how far points of few values are moved, so as not to hide each other
HARDLY = 1.1  # a complexity that varies by a smaller factor tells no variables apart
MOST_MAPPED = 4  # variables whose pairs are all mapped

Pair = tuple[Variable, Variable]


def telling_pairs(landscape: Landscape) -> list[Pair]:
    """The pair of variables that the complexity depends on most, then all others among the four of them.

    Where the complexity hardly varies, the prediction counts instead.
    """
    by_prediction = landscape.predictions and is_even(landscape)
    values = [*landscape.predictions.values()] if by_prediction else [np.log(landscape.complexity)]
    order = telling_variables(landscape.variables, landscape.points, *values)
    chosen = [landscape.variables[j] for j in order[:MOST_MAPPED]]
    return list(combinations(chosen, 2))


def is_even(landscape: Landscape) -> bool:
    """Whether the complexity hardly varies over the candidates."""
    return hardly_varies(landscape.complexity)


def hardly_varies(complexity: Float[ndarray, " n"]) -> bool:
    """Whether nine values in ten are within a small factor of each other."""
    return bool(np.ptp(np.quantile(np.log(complexity), [0.05, 0.95])) < np.log(HARDLY))


def named_pairs(variables: Sequence[Variable], maps: Sequence[tuple[str, str]]) -> list[Pair]:
    """The pairs of variables of these names.

    Raises:
        ValueError: there is no variable of a name, or a pair has the same one twice.
    """
    known = {variable.name: variable for variable in variables}
    for names in maps:
        wrong = [name for name in names if name not in known]
        if wrong or len({*names}) < 2:
            raise ValueError(f"a map is over two different ones of {', '.join(known)}, got {' and '.join(names)}")
    return [(known[first], known[second]) for first, second in maps]


def map_figures(landscape: Landscape, pair: Pair) -> Mapping[str, Figure]:
    """Labels, complexity and, where it is known, prediction over the pair, by what each shows."""
    over = f"over {pair[0].name} and {pair[1].name}"
    figures = {f"labelled, suggested and failed inputs {over}": labels_map(landscape, pair)}
    figures[f"local complexity of the candidates {over}"] = complexity_map(landscape, pair)
    for name, values in landscape.predictions.items():
        title = f"predicted {name}" if len(landscape.predictions) > 1 else "prediction"
        figures[f"{title} at the candidates {over}"] = prediction_map(landscape, values, pair, title)
    return figures


def complexity_map(landscape: Landscape, pair: Pair) -> Figure:
    """Candidates in the colour of their complexity, the largest on top."""
    values = relative(landscape.complexity)
    norm = logarithmic_scale(values)
    figure, axes = _panel("local complexity, median = 1")
    _draw_values(axes, landscape, values, pair, norm, "magma")
    ticks = logarithmic_ticks(*norm.inverse(np.array([0.0, 1.0])))
    figure.colorbar(axes.collections[0], ax=axes, ticks=ticks, format="%.3g").minorticks_off()
    return figure


def prediction_map(landscape: Landscape, prediction: Float[ndarray, " n"], pair: Pair, title: str) -> Figure:
    """Candidates in the colour of what is predicted for them."""
    figure, axes = _panel(title.replace("$", r"\$"))
    _draw_values(axes, landscape, prediction, pair, Normalize(*np.quantile(prediction, [0.01, 0.99])), "cividis")
    figure.colorbar(axes.collections[0], ax=axes)
    return figure


def labels_map(landscape: Landscape, pair: Pair) -> Figure:
    """Labelled inputs coloured by their order, suggested ones as rings, failed ones as crosses, candidates in grey."""
    figure, axes = _panel("labels by their order")
    axes.plot(*_places(landscape, landscape.points, pair), ".", color="0.85", markersize=1.5, zorder=0.0)
    x, y = _places(landscape, landscape.labelled, pair)
    turns = axes.scatter(x, y, c=np.arange(1, len(x) + 1), s=14.0, cmap="viridis", linewidths=0.0)
    figure.colorbar(turns, ax=axes)
    marks = {
        f"{len(landscape.suggested)} to come": (landscape.suggested, "o", PREDICTION),
        f"{len(landscape.failed)} failed": (landscape.failed, "x", FAILED),
    }
    for name, (points, mark, colour) in marks.items():
        if len(points):
            look: dict[str, Any] = {"color": colour, "fillstyle": "none", "markersize": 5.0}
            axes.plot(*_places(landscape, points, pair), mark, label=name, **look)
    _name_axes(axes, pair)
    if len(landscape.suggested) + len(landscape.failed):
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def _panel(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize="medium")
    return figure, axes


def _name_axes(axes: Axes, pair: Pair) -> None:
    """Names and scales of both axes, which depend on what has been drawn."""
    for which, variable in zip("xy", pair, strict=True):
        name_axis(axes, which, variable)


def _draw_values(
    axes: Axes, landscape: Landscape, values: Float[ndarray, " n"], pair: Pair, norm: Normalize, colours: str
) -> None:
    order = np.argsort(values)
    x, y = _places(landscape, landscape.points[order], pair)
    size = float(np.clip(6e4 / len(values), 1.5, 30.0))  # dots cover a panel about once
    axes.scatter(x, y, c=values[order], s=size, cmap=colours, norm=norm, linewidths=0.0, rasterized=True)
    _name_axes(axes, pair)


def _places(
    landscape: Landscape, points: Float[ndarray, "n d"], pair: Pair
) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
    """Where points are drawn; those of a variable with few values next to each other."""
    x, y = (
        variable.at(points) + _jitter(variable.at(landscape.points), len(points), seed)
        for seed, variable in enumerate(pair)
    )
    return x, y


def _jitter(values: Float[ndarray, " n"], count: int, seed: int) -> Float[ndarray, " count"]:
    """Random moves that leave values apart; none if there are many."""
    distinct = np.unique(values)
    step = np.diff(distinct).min() if 1 < len(distinct) <= MOST_DISTINCT else 0.0
    return np.random.default_rng(seed).uniform(-JITTER, JITTER, size=count) * step
