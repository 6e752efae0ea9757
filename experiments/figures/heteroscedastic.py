"""Four panels of the Doppler function with noise that varies: data, local bandwidths, densities and errors."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from experiments.figures.errors import by_size, draw_errors, measured_curve
from experiments.repetitions import Result
from lobal.core.doppler import Doppler
from lobal.report.axes import number_logarithmic
from lobal.report.figures import ACCENT, DATA, LINES, TRUTH, line_colour

N_PLACES = 200
PLACES = (np.arange(N_PLACES) + 0.5) / N_PLACES  # at which local bandwidths and densities are kept
N_DATA = 2048  # labels of the data set that is shown
TITLES = {"random": "random", "blind": "superior, noise taken as constant", "aware": "superior"}


def noise_figure(results: Mapping[str, Sequence[Result]], problem: Doppler) -> Figure:
    """As Fig. (fig:dopplerHExperiment_data_pOpt_lob_rmse), from the results of all arms."""
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    (data, bandwidths), (densities, errors) = figure.subplots(2, 2)
    _draw_data(data, problem)
    pairs = {"heteroscedastic": "aware", "homoscedastic": "homoscedastic"}
    for (name, arm), colour in zip(pairs.items(), LINES, strict=False):
        draw_profile(bandwidths, [result["local_bandwidth"] for result in results[arm]], colour, name)
    bandwidths.set(yscale="log", xlabel="$x$", ylabel="local bandwidth (LOB)")
    number_logarithmic(bandwidths.yaxis)
    for (arm, title), colour in zip(TITLES.items(), LINES[2::-1], strict=True):
        draw_profile(densities, [result["density"] for result in results[arm]], line_colour(arm, colour), title)
    densities.set(xlabel="$x$", ylabel="training density", ylim=(0.0, None))
    draw_errors(errors, {title: measured_curve(by_size(results[arm]), "rmse") for arm, title in TITLES.items()})
    errors.set_ylabel("RMSE")
    for axes in (data, bandwidths, densities, errors):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    return figure


def _draw_data(axes: Axes, problem: Doppler) -> None:
    rng, x = np.random.default_rng(0), np.linspace(0.0, 1.0, 4 * N_DATA)
    inputs = rng.uniform(size=N_DATA)
    axes.plot(inputs, problem.labels(inputs, rng), ".", color=DATA, markersize=2.5, label=f"data, $n = {N_DATA}$")
    axes.plot(x, problem(x), color=TRUTH, linewidth=0.8, label="truth")
    axes.plot(x, problem.noise_variance(x), color=ACCENT, linestyle="--", label="noise variance $v(x)$")
    axes.set(xlabel="$x$", ylabel="$y$")


def draw_profile(axes: Axes, profiles: Sequence[Sequence[float]], colour: str, name: str) -> None:
    """The mean of profiles over the places, and a band of one standard deviation of the repetitions."""
    values: Float[ndarray, "seeds places"] = np.array(profiles)
    mean, spread = values.mean(axis=0), values.std(axis=0)
    axes.fill_between(PLACES, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0.0)
    axes.plot(PLACES, mean, color=colour, linewidth=1.2, label=name)
