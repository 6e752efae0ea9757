"""Figures of a fitted model of one input column.

Every function returns a `matplotlib.figure.Figure` and changes no global state: no pyplot, no display.
"""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy import ndarray

from lobal.core.files import write_atomically
from lobal.core.superior_density import superior_density
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.model import bandwidth_volume
from lobal.report.axes import number_logarithmic

Function: TypeAlias = Callable[[Float[ndarray, " n"]], Float[ndarray, " n"]]
Draw: TypeAlias = Callable[[Axes], None]

# Okabe and Ito's palette, which colour-blind readers can tell apart.
DATA, TRUTH, PREDICTION, ACCENT = "#56B4E9", "#000000", "#D55E00", "#0072B2"
BAND = "#F7DFCC"  # the prediction's colour, pale
LINES = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
RANDOM = "#000000"  # of random labels in figures of errors
LOG_START = 0.002  # share of the inputs left of the logarithmic axis; they would take up most of it
RESOLUTION = 200  # dots per inch


def line_colour(name: str, otherwise: str) -> str:
    """The colour of a curve by its name: the same for random labels in every figure, the other one for the rest."""
    return RANDOM if name.startswith("random") else otherwise


class Grid(NamedTuple):
    """Points over the range of the data, and the length of the cell around each."""

    points: Float[ndarray, "n 1"]
    cells: Float[ndarray, " n"]


@final
@dataclass(frozen=True, kw_only=True)
class Profile:
    """A fitted model at the points of a grid; the two densities integrate to one over its cells."""

    points: Float[ndarray, "n 1"]
    mean: Float[ndarray, " n"]
    std: Float[ndarray, " n"]  # of a new label, noise included
    gate: Float[ndarray, "n L"]
    bandwidths: Float[ndarray, " L"]  # of the experts, sigma_l |Sigma_E|^(1/d)
    local_bandwidth: Float[ndarray, " n"]  # LOB
    complexity: Float[ndarray, " n"]  # LFC, as a density
    superior_density: Float[ndarray, " n"]


def profile(model: MixtureRegressor, grid: Grid) -> Profile:
    """The fitted model at the points of the grid; the test density is taken to be uniform there."""
    mean, std = model.predict(grid.points, return_std=True)
    return Profile(
        points=grid.points,
        mean=mean,
        std=std,
        gate=model.gate(grid.points),
        bandwidths=expert_bandwidths(model),
        local_bandwidth=model.local_bandwidth(grid.points),
        complexity=_normalised(model.local_complexity(grid.points), grid.cells),
        superior_density=_normalised(_superior_density(model, grid.points), grid.cells),
    )


def expert_bandwidths(model: MixtureRegressor) -> Float[ndarray, " L"]:
    """The bandwidth of every expert in units of the inputs; their geometric mean if these have several columns."""
    widths = (model.mixture_.bandwidths * bandwidth_volume(model.mixture_.shared_bandwidth)).cpu().numpy()
    return np.asarray(model.input_units_.volume * widths)


def line_grid(X: Float[ndarray, "n 1"], count: int = 1000) -> Grid:
    """Points from the smallest to the largest input: evenly spaced and, if all are positive, also geometrically."""
    lower, upper = X.min(), X.max()
    if lower == upper:
        raise ValueError(f"the input column must vary, got {lower} everywhere")
    x = np.linspace(lower, upper, count)
    if lower > 0.0:
        x = np.union1d(x, np.geomspace(lower, upper, count).clip(lower, upper))
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2.0, x[-1:]])  # the trapezoidal rule
    return Grid(x[:, None], np.diff(edges))


def _superior_density(model: MixtureRegressor, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Eq. (eq:GeneralizedOptimalSampling) for uniform test inputs, up to a constant factor."""
    density = superior_density(
        torch.from_numpy(model.local_complexity(points)),
        torch.ones(len(points), dtype=torch.float64),
        torch.from_numpy(model.noise_variance(points)),
        smoothness=model.smoothness_,
        dimension=model.intrinsic_dimension_,
    )
    return density.numpy()


def _normalised(values: Float[ndarray, " n"], cells: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return np.asarray(values / (values @ cells))


def overview_figure(
    model: MixtureRegressor, X: Float[ndarray, "n 1"], y: Float[ndarray, " n"], truth: Function | None = None
) -> Figure:
    """Prediction, gate, local bandwidth, and complexity and superior density, one below the other."""
    fitted = profile(model, line_grid(X))
    rows: list[Draw] = [
        partial(draw_prediction, fitted=fitted, X=X, y=y, truth=truth),
        partial(_draw_gate, fitted=fitted),
        partial(draw_bandwidth, profiles={"LOB": fitted}),
        partial(_draw_densities, fitted=fitted),
    ]
    return rows_figure(X, rows)


def bandwidth_figure(
    models: Mapping[str, MixtureRegressor],
    X: Float[ndarray, "n 1"],
    y: Float[ndarray, " n"],
    truth: Function | None = None,
    column: str = "$x$",
) -> Figure:
    """Data and fit of the first model above, local bandwidths of all models below.

    Args:
        models: fitted models by name.
        X: training inputs.
        y: training labels.
        truth: the noise-free function, if known.
        column: name of the input column.
    """
    profiles = {name: profile(model, line_grid(X)) for name, model in models.items()}
    name, first = next(iter(profiles.items()))
    return rows_figure(
        X,
        [
            partial(draw_prediction, fitted=first, X=X, y=y, truth=truth, name=name),
            partial(draw_bandwidth, profiles=profiles),
        ],
        column,
    )


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure atomically, in the format of its suffix; missing folders are created."""
    target = Path(path)
    formats = figure.canvas.get_supported_filetypes()
    suffix = target.suffix.removeprefix(".").lower()
    if suffix not in formats:
        raise ValueError(f"a figure's name must end in one of {sorted(formats)}, got {target.name!r}")
    content = io.BytesIO()
    figure.savefig(content, format=suffix, dpi=RESOLUTION)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content.getvalue())


def scales_of(X: Float[ndarray, "n 1"]) -> tuple[str, ...]:
    """The axes to show inputs on: a logarithmic one too, for positive inputs across a decade."""
    return ("linear", "log") if 0.0 < 10.0 * X.min() < X.max() else ("linear",)


def rows_figure(X: Float[ndarray, "n 1"], rows: Sequence[Draw], column: str = "$x$") -> Figure:
    """One row per drawing, with a linear x axis and, for positive inputs across a decade, also a logarithmic one."""
    scales = scales_of(X)
    figure = Figure(figsize=(1.5 + 4.5 * len(scales), 0.6 + 2.2 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(scales), squeeze=False, sharex="col", sharey="row")
    for draw, line in zip(rows, panels, strict=True):
        for axes, scale in zip(line, scales, strict=True):
            axes.set_xscale(scale)
            draw(axes)
            axes.spines[["top", "right"]].set_visible(False)
        for axes in line[1:]:
            axes.set_ylabel("")
        # Outside the panels, so that it covers nothing, and in the order in which the areas of the gate are stacked.
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "reverse": True}
        line[-1].legend(**place, frameon=False, fontsize="small", markerscale=2.0)
    margin = 0.01 * (X.max() - X.min())
    panels[-1, 0].set(xlabel=column, xlim=(X.min() - margin, X.max() + margin))
    if "log" in scales:
        panels[-1, 1].set(xlabel=f"{column} (logarithmic)", xlim=(np.quantile(X, LOG_START), X.max() + margin))
        number_logarithmic(panels[-1, 1].xaxis)
    return figure


def draw_prediction(
    axes: Axes,
    fitted: Profile,
    X: Float[ndarray, "n 1"],
    y: Float[ndarray, " n"],
    truth: Function | None,
    name: str = "prediction",
) -> None:
    """Data, prediction with a band of two standard deviations of a new label, and the true function if known."""
    x = fitted.points[:, 0]
    lower, upper = fitted.mean - 2.0 * fitted.std, fitted.mean + 2.0 * fitted.std
    size, order = (2.5, 1.0) if len(y) > 200 else (5.0, 3.0)  # many dots are small and below the lines
    data = f"data, $n = {len(y)}$"
    axes.plot(X[:, 0], y, ".", color=DATA, markersize=size, markeredgewidth=0.0, zorder=order, label=data)
    axes.fill_between(x, lower, upper, color=BAND, linewidth=0.0, zorder=0.0, label=r"$\pm 2$ std. dev.")
    if truth is not None:
        axes.plot(x, truth(x), color=TRUTH, linewidth=0.8, label="truth")
    axes.plot(x, fitted.mean, color=PREDICTION, linewidth=1.0, label=name)
    axes.set_ylabel("$y$")


def _draw_gate(axes: Axes, fitted: Profile) -> None:
    labels = [rf"$\sigma_{{{number}}}$ = {width:.2g}" for number, width in enumerate(fitted.bandwidths, start=1)]
    # Viridis in as many steps as there are experts: dark for small bandwidths, bright for large ones.
    colours = [to_hex(colour) for colour in matplotlib.colormaps["viridis"](np.linspace(0.0, 1.0, len(labels)))]
    axes.stackplot(fitted.points[:, 0], fitted.gate.T, labels=labels, colors=colours, linewidth=0.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("gate $G(x)$")


def draw_bandwidth(axes: Axes, profiles: Mapping[str, Profile]) -> None:
    """Local bandwidths of all profiles, and those of their experts in grey."""
    for (name, fitted), colour in zip(profiles.items(), LINES, strict=False):
        axes.plot(fitted.points[:, 0], fitted.local_bandwidth, color=colour, linewidth=1.2, label=name)
        for width in fitted.bandwidths:
            axes.axhline(width, color="0.9", linewidth=0.6, zorder=0.0)
    axes.set_yscale("log")
    axes.set_ylabel("local bandwidth (LOB)")


def _draw_densities(axes: Axes, fitted: Profile) -> None:
    x = fitted.points[:, 0]
    axes.plot(x, fitted.complexity, color=ACCENT, linewidth=1.2, label="LFC (normalised)")
    axes.plot(x, fitted.superior_density, color=PREDICTION, linewidth=1.2, label="superior training\ndensity")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("density")
