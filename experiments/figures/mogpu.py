"""Histograms of sampled inputs beside functions of the local bandwidth, and their learning curves."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import by_size, draw_errors, measured_curve
from experiments.repetitions import Result
from lobal.report.figures import DATA, LINES

BINS = 50  # of [0, 1]
N_PLACES = 400
PLACES = (np.arange(N_PLACES) + 0.5) / N_PLACES  # at which the local bandwidth is kept
ARMS = {"equidistant": "equidistant", "mogpu": "MoGPU", "superior": "superior sampling"}
MEASURES = {"rmse": "RMSE", "max_error": "largest error"}
POWERS = {1.0: r"$\mathrm{LOB}^{-1}$", 0.5: r"$\mathrm{LOB}^{-1/2}$"}


def sampling_figure(results: Sequence[Result], arms: Mapping[str, str] = ARMS) -> Figure:
    """As Fig. (fig:dopplerExperiment_SABER_EquiVsUncertaintyVsPOpt2), from results over seeds; `arms` have titles."""
    figure = Figure(figsize=(9.6, 6.8), layout="constrained")
    above, below = np.ravel(figure.subfigures(2, 1, squeeze=False, height_ratios=(1.0, 1.25)))
    histograms = above.subplots(1, len(arms), sharey=True)
    for axes, (arm, title) in zip(histograms, arms.items(), strict=True):
        _draw_histogram(axes, results, arm)
        axes.set(title=f"{title}, $n = {results[0]['n']}$", xlabel="$x$")
    histograms[0].set_ylabel("density of the inputs")
    histograms[-1].legend(frameon=False, fontsize="small")
    rows = by_size(results)
    for axes, (name, label) in zip(below.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        curves = {title: measured_curve(rows, f"{arm}_{name}") for arm, title in arms.items()}
        draw_errors(axes, curves, rate=0.5 if name == "rmse" else None)
        axes.set_ylabel(label)
        axes.legend(frameon=False, fontsize="small")
    return figure


def _draw_histogram(axes: Axes, results: Sequence[Result], arm: str) -> None:
    counts = np.mean([result[f"{arm}_counts"] for result in results], axis=0)
    axes.stairs(BINS * counts / counts.sum(), np.linspace(0.0, 1.0, BINS + 1), fill=True, color=DATA)
    bandwidth = np.array([result["local_bandwidth"] for result in results])
    for (power, name), colour in zip(POWERS.items(), LINES, strict=False):
        density = bandwidth**-power
        axes.plot(PLACES, (density / density.mean(axis=1)[:, None]).mean(axis=0), color=colour, label=name)
    axes.spines[["top", "right"]].set_visible(False)
