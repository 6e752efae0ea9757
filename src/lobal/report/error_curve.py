"""The error of a campaign over its rounds."""

from dataclasses import dataclass
from typing import final

import numpy as np
from matplotlib.figure import Figure

from lobal.active.learner import ActiveLearner
from lobal.report.axes import number_logarithmic
from lobal.report.figures import ACCENT

MOST_TICKS = 8  # more sizes than that do not get a tick each


@final
@dataclass(frozen=True, kw_only=True)
class Round:
    """A model of the campaign: how many labels it was fitted to, and its error."""

    labels: int
    error: float
    standard_error: float | None = None


def error_rounds(learner: ActiveLearner) -> tuple[Round, ...]:
    """All models whose error is known, the present one last; the last of several with as many labels counts."""
    found = {
        n: Round(labels=n, error=step.validation_error, standard_error=step.standard_error)
        for step in learner.history
        if step.validation_error is not None and (n := step.size if step.labels is None else step.labels)
    }
    fitted, now = learner.fitted, len(learner.labelled.y)
    if fitted is not None and fitted.validation_error is not None:
        found[now] = Round(labels=now, error=fitted.validation_error, standard_error=fitted.standard_error)
    return tuple(found[n] for n in sorted(found))


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
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel=f"error of {target}")
    low, high = float(np.nanmin([errors, lower])), float(np.nanmax([errors, errors + spread]))
    axes.set_ylim(low / 1.25, high * 1.25)
    axes.set_xlim(sizes[0] / 1.15, sizes[-1] * 1.15)
    for axis in (axes.xaxis, axes.yaxis):
        number_logarithmic(axis)
    if len(sizes) <= MOST_TICKS and (np.diff(np.log(sizes)) > 0.1).all():
        axes.set_xticks(sizes, labels=[str(size) for size in sizes])
    axes.spines[["top", "right"]].set_visible(False)
    return figure
