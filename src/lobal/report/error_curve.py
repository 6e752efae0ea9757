"""The error of a campaign over its rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, final

import numpy as np
from matplotlib.figure import Figure

from lobal.active.campaign.history import Step
from lobal.active.learner import ActiveLearner
from lobal.active.output_surrogate import FittedOutputs
from lobal.active.outputs import Curve
from lobal.active.surrogate import FittedSurrogate
from lobal.report.axes import number_logarithmic
from lobal.report.figures import ACCENT
from lobal.report.variables import titled

Error: TypeAlias = tuple[float | None, float | None]  # with its standard error; None where it is not known

MOST_TICKS = 8  # more sizes than that do not get a tick each


@final
@dataclass(frozen=True, kw_only=True)
class Round:
    """A model of the campaign: how many labels it was fitted to, and its error."""

    labels: int
    error: float
    standard_error: float | None = None


def error_rounds(learner: ActiveLearner, target: str) -> dict[str, tuple[Round, ...]]:
    """All models whose error is known, the present one last, by output; outputs without any are left out.

    The last of several models with as many labels counts. Where a label is one number, it is called `target`.
    """
    outputs = learner.candidates.outputs
    if outputs is None:
        found = {target: _rounds(learner, _error_of_step, _error_of_model)}
    else:
        names = [each.name for each in ([outputs] if isinstance(outputs, Curve) else outputs)]
        units = [each.unit for each in ([outputs] if isinstance(outputs, Curve) else outputs)]
        found = {
            titled(name, unit): _rounds(learner, partial(_output_of_step, place), partial(_output_of_model, place))
            for place, (name, unit) in enumerate(zip(names, units, strict=True))
        }
    return {name: rounds for name, rounds in found.items() if rounds}


def _rounds(
    learner: ActiveLearner, of_step: Callable[[Step], Error], of_model: Callable[[FittedSurrogate], Error]
) -> tuple[Round, ...]:
    errors = {step.size if step.labels is None else step.labels: of_step(step) for step in learner.history}
    if learner.fitted is not None:
        errors[len(learner.labelled.y)] = of_model(learner.fitted)
    return tuple(
        Round(labels=n, error=error, standard_error=sure)
        for n, (error, sure) in sorted(errors.items())
        if n and error is not None
    )


def _error_of_step(step: Step) -> Error:
    return step.validation_error, step.standard_error


def _error_of_model(fitted: FittedSurrogate) -> Error:
    return fitted.validation_error, fitted.standard_error


def _output_of_step(place: int, step: Step) -> Error:
    return _at(step.errors, place), _at(step.standard_errors, place)


def _at(values: tuple[float | None, ...], place: int) -> float | None:
    return values[place] if values else None


def _output_of_model(place: int, fitted: FittedSurrogate) -> Error:
    if not isinstance(fitted, FittedOutputs):
        return None, None
    return fitted.errors[place], _at(fitted.standard_errors, place)


def error_curve_figure(rounds: tuple[Round, ...], target: str) -> Figure:
    """Errors against the number of labels on logarithmic axes, with a band of one standard error."""
    figure = Figure(figsize=(5.0, 3.5), layout="constrained")
    axes = figure.subplots()
    sizes = np.array([each.labels for each in rounds])
    errors = np.array([each.error for each in rounds])
    spread = np.array([np.nan if each.standard_error is None else each.standard_error for each in rounds])
    lower = np.maximum(errors - spread, 0.1 * errors)
    if len(rounds) > 1:
        axes.fill_between(sizes, lower, errors + spread, color=ACCENT, alpha=0.2, linewidth=0.0)
        axes.plot(sizes, errors, color=ACCENT)
    bars = np.nan_to_num([errors - lower, spread])
    axes.errorbar(sizes, errors, yerr=bars, fmt="o", color=ACCENT, markersize=4.5, capsize=2.5)
    name = target.replace("$", r"\$")
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel=f"error of {name}")
    low, high = float(np.nanmin([errors, lower])), float(np.nanmax([errors, errors + spread]))
    axes.set_ylim(low / 1.25, high * 1.25)
    axes.set_xlim(sizes[0] / 1.15, sizes[-1] * 1.15)
    for axis in (axes.xaxis, axes.yaxis):
        number_logarithmic(axis)
    if len(sizes) <= MOST_TICKS and (np.diff(np.log(sizes)) > 0.1).all():
        axes.set_xticks(sizes, labels=[str(size) for size in sizes])
    axes.spines[["top", "right"]].set_visible(False)
    return figure
