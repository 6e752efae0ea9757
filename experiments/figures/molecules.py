"""Figures of a molecule's force field: what matters of its shape, and maps over two rotor angles.

Like those of a model, the figures are returned and touch no global state.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray
from scipy.spatial.transform import Rotation

from lobal.report.axes import logarithmic_ticks

SYMBOLS = {1: "H", 6: "C", 7: "N", 8: "O", 9: "F", 14: "Si", 15: "P", 16: "S", 17: "Cl", 35: "Br", 53: "I"}
# Covalent radii in Angstrom (Cordero et al. 2008).
RADII = {1: 0.31, 6: 0.76, 7: 0.71, 8: 0.66, 9: 0.57, 14: 1.11, 15: 1.07, 16: 1.05, 17: 1.02, 35: 1.2, 53: 1.39}
# Atoms are bonded that are at most this much farther apart than their radii: bonds vibrate by a tenth.
BOND_STRETCH = 1.25
TILT = (20.0, 30.0)  # degrees, by which atoms above each other come apart on paper
IMPORTANCE = LinearSegmentedColormap.from_list("importance", ["white", "red"])

MAPS_PER_ROW = 3
DECADES = 6  # that a logarithmic map shows below its largest value
LEVELS = 12
FLAT = 1.0 + 1e-6  # keeps the levels of an even map apart
TURN = 360.0  # degrees
MARKERS = ("o", "s", "^", "D")


class RotorMap(NamedTuple):
    """Values at the angles phi_1 (rows) and phi_2 (columns)."""

    values: Float[ndarray, "k l"]
    label: str = ""  # of the colours: what is shown, in which unit
    log: bool = False  # whether colours follow the logarithm


def bandwidth_figure(
    species: Int[ndarray, " N"], positions: Float[ndarray, "N 3"], shared: Float[ndarray, " D"]
) -> Figure:
    """The molecule in black and, in red, how much each distance between its atoms matters.

    As in Fig. (fig:malonMDAnisotropicBandwidthsVisualization_cropped); `shared` is the diagonal of Sigma_E, one
    bandwidth per pair of atoms in the order (0, 1), (0, 2), ..., (1, 2), ...
    """
    pairs = np.stack(np.triu_indices(len(species), k=1), axis=1)
    gamma, places = importance(shared), plane_view(species, positions)
    ends = places[pairs]
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    order = np.argsort(gamma)  # the most important on top
    axes.add_collection(LineCollection(list(ends[order]), colors=IMPORTANCE(gamma[order]), linewidths=6.0, zorder=1.0))
    bonded = are_bonded(species, positions, pairs)
    axes.add_collection(LineCollection(list(ends[bonded]), colors="black", linewidths=1.6, zorder=2.0))
    for number, (element, (x, y)) in enumerate(zip(species, places, strict=True)):
        name = rf"$\mathrm{{{SYMBOLS[int(element)]}}}_{{{number}}}$"
        disc = {"boxstyle": "circle,pad=0.22", "facecolor": "white", "edgecolor": "black", "linewidth": 0.8}
        axes.text(x, y, name, ha="center", va="center", fontsize="large", bbox=disc, zorder=3.0)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.12)
    axes.set_axis_off()
    _draw_importance_scale(axes, shared)
    return figure


def importance(shared: Float[ndarray, " D"]) -> Float[ndarray, " D"]:
    """gamma = [(-log Sigma - min) / (max - min)]^2, in [0, 1]; one for all where all are equal."""
    logarithm = -np.log(shared)
    extent = np.ptp(logarithm)
    return np.ones_like(logarithm) if extent == 0.0 else np.square((logarithm - logarithm.min()) / extent)


def are_bonded(
    species: Int[ndarray, " N"], positions: Float[ndarray, "N 3"], pairs: Int[ndarray, "D 2"]
) -> Bool[ndarray, " D"]:
    """Which of the pairs are about as close as their covalent radii together."""
    radii = np.array([RADII[int(element)] for element in species])
    distances = np.linalg.norm(positions[pairs[:, 0]] - positions[pairs[:, 1]], axis=1)
    return np.asarray(distances <= BOND_STRETCH * radii[pairs].sum(1))


def plane_view(species: Int[ndarray, " N"], positions: Float[ndarray, "N 3"]) -> Float[ndarray, "N 2"]:
    """The atoms on paper: the plane of those that are no hydrogen, tilted about its two axes."""
    heavy = positions[species > 1] if (species > 1).sum() > 2 else positions
    axes = np.linalg.svd(heavy - heavy.mean(0))[2]
    flat = (positions - heavy.mean(0)) @ axes.T
    return np.asarray(Rotation.from_euler("xy", TILT, degrees=True).apply(flat)[:, :2])


def rotor_maps(
    angles_1: Real[ndarray, " k"],
    angles_2: Real[ndarray, " l"],
    maps: Mapping[str, RotorMap],
    marks: Mapping[str, Float[ndarray, "states 2"]] | None = None,
) -> Figure:
    """Contour maps over two rotor angles in degrees, one per title, with the stable states marked.

    As in Fig. (fig:malonMD_overview). Angles that do not span the full circle are closed periodically. Logarithmic
    maps show `DECADES` decades; what is smaller has the darkest colour.
    """
    columns, rows = min(len(maps), MAPS_PER_ROW), -(-len(maps) // MAPS_PER_ROW)
    figure = Figure(figsize=(0.9 + 3.8 * columns, 0.5 + 3.1 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (title, shown) in zip(panels, maps.items(), strict=False):
        _draw_map(axes, angles_1, angles_2, shown)
        for states, marker in zip((marks or {}).values(), MARKERS, strict=False):
            axes.plot(*states.T, marker, color="white", markeredgecolor="black", markersize=6.0, clip_on=False)
        axes.set_title(title, fontsize="medium")
    _name_angles(list(panels), len(maps), columns)
    if marks:
        handles = panels[0].get_lines()[-len(marks) :]
        figure.legend(handles, list(marks), loc="outside lower center", ncols=len(marks), frameon=False)
    return figure


def _draw_importance_scale(axes: Axes, shared: Float[ndarray, " D"]) -> None:
    """gamma, and the bandwidth that each stands for."""
    bar = axes.figure.colorbar(ScalarMappable(Normalize(0.0, 1.0), IMPORTANCE), ax=axes, shrink=0.8)
    ticks = np.linspace(0.0, 1.0, 5)
    widths = shared.max() * (shared.min() / shared.max()) ** np.sqrt(ticks)
    bar.set_ticks(list(ticks), labels=[f"{tick:g}  ({width:.2g})" for tick, width in zip(ticks, widths, strict=True)])
    bar.set_label(r"importance $\gamma$  (bandwidth $\Sigma_E$)", labelpad=8.0)


def _draw_map(axes: Axes, angles_1: Real[ndarray, " k"], angles_2: Real[ndarray, " l"], shown: RotorMap) -> None:
    phi_1, values = _closed(angles_1, shown.values)
    phi_2, transposed = _closed(angles_2, values.T)
    levels = _levels(transposed, shown.log)
    norm = LogNorm(levels[0], levels[-1]) if shown.log else Normalize(levels[0], levels[-1])
    visible = np.maximum(transposed, levels[0])
    surface = axes.contourf(phi_1, phi_2, visible, levels=levels, norm=norm, cmap="viridis")
    bar = axes.figure.colorbar(surface, cax=axes.inset_axes((1.05, 0.0, 0.05, 1.0)), label=shown.label)
    if shown.log:
        ticks = logarithmic_ticks(levels[0], levels[-1])
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    axes.set_aspect("equal")


def _closed(angles: Real[ndarray, " k"], values: Float[ndarray, "k l"]) -> "tuple[ndarray, ndarray]":
    """The first angle once more at the end, a turn later, unless it is there."""
    if angles[-1] - angles[0] >= TURN:
        return angles, values
    return np.append(angles, angles[0] + TURN), np.concatenate([values, values[:1]])


def _levels(values: Float[ndarray, "k l"], log: bool) -> list[float]:
    """Ascending levels that hold all values, but for those that are smaller than a logarithmic map shows."""
    upper = float(values.max())
    if not log:
        return [float(level) for level in MaxNLocator(LEVELS).tick_values(float(values.min()), upper)]
    lower = max(float(values[values > 0.0].min()), upper * 10.0**-DECADES)
    return [float(level) for level in np.geomspace(lower / FLAT, upper * FLAT, LEVELS + 1)]


def _name_angles(panels: Sequence[Axes], number: int, columns: int) -> None:
    """Names and ticks at the outer panels; those that hold no map are hidden."""
    ticks = np.arange(-180, 181, 90)
    for place, axes in enumerate(panels[:number]):
        axes.set(xticks=ticks, yticks=ticks)
        if place + columns >= number:
            axes.set_xlabel(r"$\phi_1$ (degrees)")
            axes.tick_params(labelbottom=True)
        if place % columns == 0:
            axes.set_ylabel(r"$\phi_2$ (degrees)")
    for axes in panels[number:]:
        axes.set_axis_off()
