"""What the figure of the experiment shows: curves from its record, and the grids of one fit."""

from typing import Any

import numpy as np

from experiments.figures.grids import Curve, Picture
from experiments.mesh.densities import complexity, densities, learned
from experiments.mesh.field import Field, lattice, load_cells
from experiments.mesh.indicators import by_density, by_gradient
from experiments.mesh.quad_tree import Indicator, refined, uniform_grid
from experiments.mesh.settings import CURVATURE, DEEPEST, FIRST_LEVEL, GRADIENT, UNIFORM_SIDES, MeshSettings

SIDE = 512  # points a side of the picture of the field
LABELS, CELLS = 512, 1024  # of the grids that are shown, or the nearest that the record has
CURVES = {
    "superior": "superior density",
    "isotropic_superior": "superior density, isotropic",
    "superior_amplitude_0.5": "superior density with amplitude",
    GRADIENT: "gradient",
    CURVATURE: "second derivatives",
    "error": "true error (unknown in practice)",
}


def picture_of(settings: MeshSettings, record: dict[str, Any], seed: int) -> Picture:
    """The picture of a record, with one of its fits."""
    n = nearest(LABELS, [entry["n"] for entry in record["summary"] if entry["n"] > 0])
    cells = nearest(CELLS, settings.budgets)
    simulated = load_cells(settings.data)
    field = Field(simulated, is_cubic=settings.is_cubic)
    labels = learned(simulated, field, n, seed)
    found = densities(labels)
    indicators: dict[str, Indicator] = {
        CURVES[name]: by_density(found[name]) for name in ("superior", "isotropic_superior")
    }
    indicators[CURVES[GRADIENT]] = by_gradient(field, float(GRADIENT.rsplit("_", 1)[1]))
    first = uniform_grid(FIRST_LEVEL, deepest=DEEPEST)
    return Picture(
        field(lattice(SIDE)).reshape(SIDE, SIDE),
        complexity(labels.isotropic.bandwidth),
        labels.labelled,
        {title: refined(first, indicator, cells) for title, indicator in indicators.items()},
        curves_of(record, settings.budgets, n),
    )


def nearest(wanted: int, numbers: list[int] | tuple[int, ...]) -> int:
    """The number that is nearest to the wanted one."""
    return min(numbers, key=lambda number: abs(number - wanted))


def curves_of(record: dict[str, Any], budgets: tuple[int, ...], n: int) -> dict[str, Curve]:
    """Errors by cells, of the uniform grid and of those with n labels or none."""
    by_labels = {entry["n"]: entry for entry in record["summary"]}
    sides = [side for side in UNIFORM_SIDES if budgets[0] <= side**2 <= 4 * budgets[-1]]
    uniform = Curve(np.square(sides), np.array([by_labels[0][f"uniform_rmse_{side}"]["mean"] for side in sides]))
    curves = {"uniform": uniform}
    for name, title in CURVES.items():
        entry = by_labels[n if f"{name}_rmse_{budgets[0]}" in by_labels[n] else 0]
        cells = np.array([entry[f"{name}_cells_{budget}"]["mean"] for budget in budgets])
        errors = [entry[f"{name}_rmse_{budget}"] for budget in budgets]
        mean = np.array([error["mean"] for error in errors])
        has_error = all(error["standard_error"] is not None for error in errors)
        spread = np.array([error["standard_error"] for error in errors]) if has_error else None
        curves[title] = Curve(cells, mean, spread)
    return curves
