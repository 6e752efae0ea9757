"""Partial dependence: how prediction and complexity change with one variable, all others as candidates have them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from lobal.mixture.estimator import MixtureRegressor
from lobal.report.axes import name_axis, number_logarithmic
from lobal.report.figures import ACCENT, PREDICTION
from lobal.report.variables import MOST_DISTINCT, Variable, slices

SAMPLE, STEPS = 100, 41  # candidates, and values of the variable that each is given
BAND = (0.1, 0.9)  # quantiles over the candidates


@final
@dataclass(frozen=True, kw_only=True)
class Course:
    """Values along a variable: their mean over the candidates, and two quantiles."""

    mean: Float[ndarray, " steps"]
    lower: Float[ndarray, " steps"]
    upper: Float[ndarray, " steps"]

    @classmethod
    def of(cls, values: Float[ndarray, "steps candidates"]) -> "Course":
        """The course of values at every step and candidate."""
        lower, upper = np.quantile(values, BAND, axis=1)
        return cls(mean=values.mean(axis=1), lower=lower, upper=upper)

    @classmethod
    def joined(cls, parts: Sequence["Course"]) -> "Course":
        """One course after another."""
        fields = ("mean", "lower", "upper")
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in fields})


@final
@dataclass(frozen=True, kw_only=True)
class Dependence:
    """Prediction and complexity along one variable."""

    variable: Variable
    values: Float[ndarray, " steps"]  # of the variable
    prediction: Course
    complexity: Course  # logarithm of LFC relative to its median over the candidates


def dependences(
    model: MixtureRegressor, variables: Sequence[Variable], points: Float[ndarray, "n d"], *, seed: int = 0
) -> list[Dependence]:
    """Partial dependence on each of the variables, averaged over some of the points.

    Of variables that cannot change alone, the means over the points around each value instead.
    """
    rows = np.random.default_rng(seed).permutation(len(points))[:SAMPLE]
    sample = points[rows]
    middle = float(np.median(np.log(model.local_complexity(sample))))
    return [
        _among(model, variable, points, middle)
        if variable.is_bound
        else _moved(model, variable, points, sample, middle)
        for variable in variables
    ]


def _moved(
    model: MixtureRegressor,
    variable: Variable,
    points: Float[ndarray, "n d"],
    sample: Float[ndarray, "m d"],
    middle: float,
) -> Dependence:
    """Each point of the sample, given every value of the variable."""
    grid = value_grid(variable, points)
    moved = np.repeat(sample[None], len(grid), axis=0)
    moved[:, :, list(variable.columns)] = grid[:, None, :]
    inputs, shape = moved.reshape(-1, points.shape[1]), moved.shape[:2]
    return Dependence(
        variable=variable,
        values=variable.at(moved[:, 0]),
        prediction=Course.of(np.asarray(model.predict(inputs)).reshape(shape)),
        complexity=Course.of(np.log(model.local_complexity(inputs)).reshape(shape) - middle),
    )


def _among(model: MixtureRegressor, variable: Variable, points: Float[ndarray, "n d"], middle: float) -> Dependence:
    """The points as they are, in slices of the variable."""
    x = variable.at(points)
    slice_of = slices(x)
    rows = [np.flatnonzero(slice_of == each) for each in np.unique(slice_of)]
    prediction, complexity = np.asarray(model.predict(points)), np.log(model.local_complexity(points)) - middle
    return Dependence(
        variable=variable,
        values=np.array([x[each].mean() for each in rows]),
        prediction=Course.joined([Course.of(prediction[None, each]) for each in rows]),
        complexity=Course.joined([Course.of(complexity[None, each]) for each in rows]),
    )


def value_grid(variable: Variable, points: Float[ndarray, "n d"]) -> Float[ndarray, "steps k"]:
    """Values of the variable's columns, in ascending order: all there are, or evenly spaced ones of a number."""
    distinct = np.unique(points[:, list(variable.columns)], axis=0)
    if len(distinct) > MOST_DISTINCT and len(variable.columns) == 1:
        return np.linspace(distinct[0], distinct[-1], STEPS)
    return distinct[np.argsort(variable.at(_widened(variable, distinct)), kind="stable")]


def _widened(variable: Variable, columns: Float[ndarray, "n k"]) -> Float[ndarray, "n d"]:
    """Inputs that have these columns, and zeros elsewhere."""
    inputs = np.zeros((len(columns), max(variable.columns) + 1))
    inputs[:, list(variable.columns)] = columns
    return inputs


def dependence_figures(found: Sequence[Dependence], target: str) -> dict[str, Figure]:
    """One figure for each variable, prediction above complexity, on common scales."""
    limits = [_limits([each.prediction for each in found]), _limits([each.complexity for each in found], least=0.7)]
    return {f"dependence on {each.variable.name}": _figure(each, limits, target) for each in found}


def _limits(courses: Sequence[Course], least: float = 0.0) -> tuple[float, float]:
    lower, upper = min(each.lower.min() for each in courses), max(each.upper.max() for each in courses)
    margin = max(0.05 * (upper - lower), 0.5 * (least - (upper - lower)), 0.0)
    return float(lower - margin), float(upper + margin)


def _figure(found: Dependence, limits: Sequence[tuple[float, float]], target: str) -> Figure:
    figure = Figure(figsize=(4.0, 4.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    _draw(above, found, found.prediction, PREDICTION)
    above.set_ylabel(target.replace("$", r"\$"))
    if limits[0][0] < limits[0][1]:
        above.set_ylim(limits[0])
    _draw(below, found, _exponential(found.complexity), ACCENT)
    below.set(yscale="log", ylabel="complexity", ylim=np.exp(limits[1]))
    number_logarithmic(below.yaxis)
    name_axis(below, "x", found.variable)
    return figure


def _exponential(course: Course) -> Course:
    return Course(mean=np.exp(course.mean), lower=np.exp(course.lower), upper=np.exp(course.upper))


def _draw(axes: Axes, found: Dependence, course: Course, colour: str) -> None:
    """Mean and band: bars for categories and few values, else lines."""
    axes.spines[["top", "right"]].set_visible(False)
    if found.variable.levels or len(found.values) <= MOST_DISTINCT:
        spread = [np.maximum(course.mean - course.lower, 0.0), np.maximum(course.upper - course.mean, 0.0)]
        axes.errorbar(found.values, course.mean, yerr=spread, fmt="o", color=colour, markersize=4.5, capsize=3.0)
        return
    axes.fill_between(found.values, course.lower, course.upper, color=colour, alpha=0.2, linewidth=0.0)
    axes.plot(found.values, course.mean, color=colour)
