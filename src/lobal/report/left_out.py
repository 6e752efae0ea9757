"""Labels predicted from all others: prediction against measurement, and whether intervals cover what they promise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray
from scipy.stats import norm

from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import DATA, PREDICTION, TRUTH

LEVELS = (0.5, 0.8, 0.95)  # of intervals
MOST_NAMED = 12  # outliers with a name in the figure; more would hide each other
FEW, BINS = 50, (5, 10)  # labels below which the histogram has few bins


@final
@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Each label, and what the model predicts for it from all others."""

    measured: Float[ndarray, " n"]
    mean: Float[ndarray, " n"]
    std: Float[ndarray, " n"]  # of a label, noise included
    outliers: Int[ndarray, " k"]  # rows of labels that contradict the others
    half_width: Callable[[float], float]  # of an interval of some probability, in standard deviations

    @property
    def ranks(self) -> Float[ndarray, " n"]:
        """The probability that the prediction gives to smaller labels (probability integral transform)."""
        tiny = np.finfo(float).tiny
        return np.asarray(norm.cdf((self.measured - self.mean) / np.maximum(self.std, tiny)))

    def coverage(self, level: float) -> float:
        """The share of labels within the central interval of that probability."""
        return float(np.mean(np.abs(self.measured - self.mean) <= self.half_width(level) * self.std))


def left_out(model: MixtureRegressor, X: Float[ndarray, "n d"], y: Float[ndarray, " n"]) -> LeftOut | None:
    """Every training label predicted from all others; none where the model does not know."""
    try:
        mean, std = model.leave_one_out(X, y)
    except ValueError:  # exact experts have not seen labels of weight zero, and know of no others
        return None
    calibration, outliers = model.calibration_, np.asarray(model.outliers_, dtype=np.int64)
    return LeftOut(
        measured=y,
        mean=mean,
        std=std,
        outliers=outliers,
        half_width=lambda level: calibration.half_width(level) / calibration.factor,
    )


def agreement_figure(labels: LeftOut, names: Mapping[int, str], target: str) -> Figure:
    """Measured labels against their predictions from all others; outliers by name."""
    figure = Figure(figsize=(5.0, 4.6), layout="constrained")
    axes = figure.subplots()
    ends = [min(labels.measured.min(), labels.mean.min()), max(labels.measured.max(), labels.mean.max())]
    axes.plot(ends, ends, color=TRUTH, linewidth=0.8, zorder=0.0, label="equal")
    look: dict[str, Any] = {"fmt": "o", "markersize": 3.5, "markeredgewidth": 0.0, "elinewidth": 0.5}
    usual = np.setdiff1d(np.arange(len(labels.mean)), labels.outliers)
    for rows, colour, name in ((usual, DATA, "labels"), (labels.outliers, PREDICTION, "contradict the others")):
        if len(rows):
            spread = 2.0 * labels.std[rows]
            axes.errorbar(labels.mean[rows], labels.measured[rows], xerr=spread, color=colour, label=name, **look)
    _name_outliers(axes, labels, names, room=0.045 * (ends[1] - ends[0]))
    axes.set(xlabel=f"{target}, predicted from all other labels", ylabel=f"{target}, measured")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize="small")
    return figure


def _name_outliers(axes: Axes, labels: LeftOut, names: Mapping[int, str], room: float) -> None:
    """Names beside the outliers, each with room above the one below it."""
    rows = sorted(_farthest(labels)[:MOST_NAMED].tolist(), key=lambda row: float(labels.measured[row]))
    height = -np.inf
    for row in rows:
        height = max(float(labels.measured[row]) + 0.3 * room, height + room)
        text = names.get(row, f"label {row}").replace("$", r"\$")
        axes.annotate(text, (float(labels.mean[row]), height), xytext=(6, 0), textcoords="offset points", size="small")


def _farthest(labels: LeftOut) -> Int[ndarray, " k"]:
    """The outliers, that with the largest error first."""
    error = np.abs(labels.measured - labels.mean)[labels.outliers]
    return labels.outliers[np.argsort(-error, kind="stable")]


def coverage_figure(labels: LeftOut) -> Figure:
    """How many labels intervals of every probability contain, and a band of what chance allows."""
    figure = Figure(figsize=(4.4, 3.8), layout="constrained")
    axes = figure.subplots()
    levels = np.linspace(0.01, 0.99, 99)
    chance = 2.0 * np.sqrt(levels * (1.0 - levels) / len(labels.mean))
    ends = np.clip(levels - chance, 0.0, 1.0), np.clip(levels + chance, 0.0, 1.0)
    axes.fill_between(levels, *ends, color="0.9", linewidth=0.0, label="chance, 2 std. err.")
    axes.plot([0.0, 1.0], [0.0, 1.0], color=TRUTH, linewidth=0.8, label="as promised")
    axes.plot(levels, [labels.coverage(level) for level in levels], color=PREDICTION, linewidth=1.4, label="found")
    axes.plot(LEVELS, [labels.coverage(level) for level in LEVELS], "o", color=PREDICTION, markersize=4.0)
    axes.set(xlabel="probability of the interval", ylabel="share of labels within", xlim=(0, 1), ylim=(0, 1.02))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper left")
    return figure


def ranks_figure(labels: LeftOut) -> Figure:
    """Where labels lie in their predictive distributions: evenly, if these are right."""
    figure = Figure(figsize=(4.4, 3.8), layout="constrained")
    axes = figure.subplots()
    n, bins = len(labels.mean), BINS[len(labels.mean) >= FEW]
    axes.hist(labels.ranks, bins=list(np.linspace(0.0, 1.0, bins + 1)), color=DATA, edgecolor="white")
    even, chance = n / bins, 2.0 * np.sqrt(n / bins * (1.0 - 1.0 / bins))
    axes.axhline(even, color=TRUTH, linewidth=0.8, label="even")
    for height in (max(even - chance, 0.0), even + chance):
        axes.axhline(
            height, color=TRUTH, linewidth=0.8, linestyle=":", label="chance, 2 std. err." if height > even else None
        )
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
    axes.set(xlabel="place of the label in its prediction", ylabel="labels", xlim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def coverage_sentence(labels: LeftOut) -> str:
    """What the intervals of three levels contain, in words, and what to make of it."""
    found = [f"{labels.coverage(level):.0%} lie within their {level:.0%} intervals" for level in LEVELS]
    counted = f"{', '.join(found[:-1])} and {found[-1]}"
    return f"Of the {len(labels.mean)} labels, each predicted from all others, {counted}: {_judgement(labels)}."


def _judgement(labels: LeftOut) -> str:
    """Whether any level is missed by more than two standard errors, and how."""
    n = len(labels.mean)
    scores = [(labels.coverage(level) - level) / np.sqrt(level * (1.0 - level) / n) for level in LEVELS]
    if min(scores) < -2.0:
        return "intervals are too narrow, by more than chance"
    return "intervals are on the safe side" if max(scores) > 2.0 else "as promised, within chance"
