"""Figures of a campaign: learning curves, and where its labels are, for any number of input columns.

Values are given at the candidates. Figures are returned and change no global state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray
from scipy.integrate import trapezoid

from lobal.active.learner import ActiveLearner
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.axes import name_axis, number_logarithmic, slope_name
from lobal.report.figures import DATA, LINES, PREDICTION, TRUTH, line_colour
from lobal.report.savings import pooled_errors
from lobal.report.variables import Variable, variables_for

SUGGESTED = "#E69F00"  # of the same palette as the other colours
FAILED = "#CC79A7"
MOST_TICKS = 8  # more sizes than that do not get a tick each
MOST_POINTS = 10_000  # of a scatter plot; more hide each other


@final
@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Values at (some of) the candidates of a campaign, and the inputs that were labelled and suggested."""

    points: Float[ndarray, "n d"]
    variables: tuple[Variable, ...]
    complexity: Float[ndarray, " n"]  # LFC, up to a factor
    superior_density: Float[ndarray, " n"]  # up to a factor
    training_density: Float[ndarray, " n"]  # p_k of labelled and suggested points, up to a factor
    labelled: Float[ndarray, "labelled d"]  # in the order they were asked for
    suggested: Float[ndarray, "suggested d"]  # labels still to come
    failed: Float[ndarray, "failed d"]
    predictions: Mapping[str, Float[ndarray, " n"]] = field(default_factory=dict)  # by output, where they are numbers


def landscape(
    learner: ActiveLearner,
    variables: Sequence[Variable] | None = None,
    models: Mapping[str, MixtureRegressor] | None = None,
) -> Landscape:
    """The learner at 10,000 of its candidates at most, drawn at random with a fixed seed; `models` are its outputs'."""
    if learner.fitted is None:
        raise ValueError(f"a landscape needs a fitted model; {len(learner.labelled.y)} labels are too few")
    total = len(learner.candidates)
    rows = np.sort(np.random.default_rng(0).permutation(total)[:MOST_POINTS])
    points = np.asarray(learner.candidates.X[rows], dtype=np.float64)
    return Landscape(
        points=points,
        variables=variables_for(learner.candidates) if variables is None else tuple(variables),
        complexity=learner.local_complexity()[rows],
        superior_density=learner.superior_density()[rows],
        training_density=learner.training_density()[rows],
        labelled=_coordinates(learner, learner.labelled.X, learner.labelled.candidate),
        suggested=inputs_of(learner, learner.ledger.pending),
        failed=inputs_of(learner, learner.ledger.failed),
        predictions=_predictions(learner, {} if models is None else models, rows),
    )


def _predictions(
    learner: ActiveLearner, models: Mapping[str, MixtureRegressor], rows: Int[ndarray, " n"]
) -> dict[str, Float[ndarray, " n"]]:
    """What is predicted for candidates."""
    inputs = learner.candidates.inputs_at(torch.from_numpy(rows))
    return {name: np.asarray(model.predict(inputs)) for name, model in models.items()}


def inputs_of(learner: ActiveLearner, numbers: Sequence[int]) -> Float[ndarray, "n d"]:
    """Inputs of points by their numbers in the campaign's ledger, such as those of the pending ones."""
    candidates, recorded = learner.ledger.candidates(numbers), learner.ledger.inputs(numbers)
    return _coordinates(learner, learner.candidates.model_inputs(candidates, recorded), candidates)


def _coordinates(learner: ActiveLearner, inputs: ndarray, numbers: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
    """Points as figures show them: their inputs in a box, coordinates of their candidates in a pool."""
    return np.asarray(inputs if learner.is_box else learner.candidates.X[numbers], dtype=np.float64)


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
        errors = draw_curve(axes, curve, color=line_colour(name, colour), label=name)
        lowest = min(lowest, *errors * np.asarray(curve.sizes) ** rate)
    guide = 0.85 * lowest * sizes**-rate  # below every curve
    axes.plot(sizes, guide, color="0.5", linewidth=1.0, linestyle=(0, (8, 4)), label=slope_name(rate))
    axes.set(xscale="log", yscale="log", xlabel="labels $n$", ylabel="RMSE")
    for axis in (axes.xaxis, axes.yaxis):
        number_logarithmic(axis)
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
    variable, inputs = landscape.variables[0], landscape.points[:, 0]
    x, labelled, suggested = map(variable.at, (landscape.points, landscape.labelled, landscape.suggested))
    figure = Figure(figsize=(5.0, 4.0), layout="constrained")
    axes = figure.subplots()
    number = len(labelled) + len(suggested)
    edges = np.linspace(inputs.min(), inputs.max(), 1 + int(np.clip(1.5 * number**0.5, 8, 80)))
    bins = variable.at(edges[:, None])
    parts = {f"labelled, {len(labelled)}": labelled, f"suggested, {len(suggested)}": suggested}
    kept = {name: part for name, part in parts.items() if len(part)}
    axes.hist(
        list(kept.values()),
        bins=list(bins),
        weights=[np.full(len(part), 1.0 / (number * (edges[1] - edges[0]))) for part in kept.values()],
        stacked=True,
        color=[{"l": DATA, "s": SUGGESTED}[name[0]] for name in kept],
        label=list(kept),
    )
    order = np.argsort(x, kind="stable")
    for values, colour, name in (
        (landscape.training_density, TRUTH, "training density $p_k$"),
        (landscape.superior_density, PREDICTION, "superior training density"),
    ):
        area = trapezoid(values[order], inputs[order])
        axes.plot(x[order], values[order] / area, color=colour, linewidth=1.2, label=name)
    if len(landscape.failed):
        failed = variable.at(landscape.failed)
        axes.plot(failed, np.zeros(len(failed)), "x", color=FAILED, clip_on=False, label=f"failed, {len(failed)}")
    axes.set(ylabel="density", ylim=(0.0, None))
    axes.margins(x=0.01)
    name_axis(axes, "x", variable)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize="small")
    return figure
