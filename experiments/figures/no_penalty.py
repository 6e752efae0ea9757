"""Data, fit and local bandwidth of active learning without a penalty on small bandwidths, beside those with it."""

import numpy as np
from matplotlib.figure import Figure

from experiments.repetitions import Result
from lobal.cli.demo import DOPPLER
from lobal.report.axes import number_logarithmic
from lobal.report.figures import DATA, LINES, PREDICTION, TRUTH

N_PLACES = 1000
PLACES = (np.arange(N_PLACES) + 0.5) / N_PLACES  # at which prediction and local bandwidth are kept
FLAT = 0.5  # the function has no turn above
ARMS = {"without": r"$\vartheta_\sigma = 0$", "with": r"$\vartheta_\sigma = 0.5$"}


def without_penalty_figure(result: Result) -> Figure:
    """As Fig. (fig:dopplerExperiment_noBWPen_dataset_LOB), from one repetition."""
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    grid = figure.subplots(2, len(ARMS), sharex=True, sharey="row", height_ratios=(1.4, 1.0))
    for (data, bandwidth), (arm, title), colour in zip(grid.T, ARMS.items(), LINES, strict=False):
        inputs, labels = result[f"{arm}_inputs"], result[f"{arm}_labels"]
        shown = f"labels, {len(labels)} of {result['n']} shown"
        data.plot(inputs, labels, ".", color=DATA, markersize=2.5, markeredgewidth=0.0, label=shown)
        data.plot(PLACES, DOPPLER(PLACES), color=TRUTH, linewidth=0.8, label="truth")
        data.plot(PLACES, result[f"{arm}_prediction"], color=PREDICTION, linewidth=0.8, label="prediction")
        data.set_title(title)
        bandwidth.plot(PLACES, result[f"{arm}_local_bandwidth"], color=colour, linewidth=1.2)
        bandwidth.set(yscale="log", xlabel="$x$")
        number_logarithmic(bandwidth.yaxis)
    grid[0, 0].set_ylabel("$y$")
    grid[1, 0].set_ylabel("local bandwidth (LOB)")
    named = grid[0, 0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=3, frameon=False, fontsize="small", markerscale=3.0)
    for axes in grid.ravel():
        axes.spines[["top", "right"]].set_visible(False)
    return figure
