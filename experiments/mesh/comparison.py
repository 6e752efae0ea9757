"""Grids of the flow in a thermal cavity: by local complexity, by gradient and curvature, and uniform ones.

Every grid begins with 8 x 8 cells and is refined until it has as many cells as the budget allows. The field at the
corners of a cell is interpolated in it, and the error is the root mean square over the square. `relative_cells` is the
number of cells of a grid over that of a uniform grid with the same error, and `with_labels` counts the labels, too.

OMP_NUM_THREADS=1 python -m experiments mesh $LOBAL_DATA/thermal_cavity_098.npz --output docs/results/mesh.json
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray

from experiments.figures.grids import grids_figure
from experiments.mesh.densities import WINDOWS, best_density, densities, learned, most_curved
from experiments.mesh.field import Field, Reference, load_cells
from experiments.mesh.indicators import by_curvature, by_density, by_error, by_gradient
from experiments.mesh.picture import picture_of
from experiments.mesh.quad_tree import SHARE, Indicator, n_cells, share_of_cells
from experiments.mesh.settings import (
    BUDGETS,
    CURVATURE_POWERS,
    DEEPEST,
    FIRST_LEVEL,
    GRADIENT_POWERS,
    LABELS,
    UNIFORM_SIDES,
    MeshSettings,
)
from experiments.repetitions import Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, mean_and_error
from lobal.cli.checks import whole_numbers
from lobal.mixture.estimator import SMALLEST_TRAINING_SET
from lobal.report.figures import save_figure


def solver_indicators(field: Field, reference: Reference) -> dict[str, Indicator]:
    """What solvers know, by name, and what nobody knows: the best density of cells and the error itself."""
    gradients = {f"gradient_{power:g}": by_gradient(field, power) for power in GRADIENT_POWERS}
    curvatures = {f"curvature_{power:g}": by_curvature(field, power) for power in CURVATURE_POWERS}
    return gradients | curvatures | {"best_density": by_density(best_density(field)), "error": by_error(reference)}


def run(n: int, seed: int, *, settings: MeshSettings) -> Result:
    """Cells and errors of grids in columns such as "superior_rmse_512", by n labels; without labels by the field.

    "superior_curved_512" is the share of the cells in the tenth of the square where the field is most curved.
    """
    cells = load_cells(settings.data)
    field = Field(cells, is_cubic=settings.is_cubic)
    reference, curved = Reference(field, n=settings.points), most_curved(best_density(field))
    result: Result = {"n": n, "seed": seed}
    if n == 0:
        indicators = solver_indicators(field, reference)
        result |= {f"uniform_rmse_{side}": reference.uniform_rmse(side) for side in UNIFORM_SIDES}
    else:
        named = densities(learned(cells, field, n, seed))
        indicators = {name: by_density(density) for name, density in named.items()}
    for name, indicator in indicators.items():
        for budget, grid in settings.grids(indicator):
            result |= {f"{name}_cells_{budget}": n_cells(grid), f"{name}_rmse_{budget}": reference.rmse(grid)}
            result[f"{name}_curved_{budget}"] = share_of_cells(grid, curved)
    return result


def uniform_cells(result: Result, rmse: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
    """The cells of uniform grids with these errors, interpolated between logarithms.

    A uniform grid counts if no coarser one has an error as small.

    Raises:
        ValueError: an error is smaller or greater than that of all uniform grids.
    """
    measured = np.array([result[f"uniform_rmse_{side}"] for side in UNIFORM_SIDES])
    least = np.minimum.accumulate(measured)
    counts = np.append(True, least[1:] < least[:-1])
    errors, sides = measured[counts], np.array(UNIFORM_SIDES)[counts]
    if rmse.min() < errors[-1] or rmse.max() > errors[0]:
        raise ValueError(f"errors must lie between {errors[-1]:.3g} and {errors[0]:.3g}, those of uniform grids")
    return np.asarray(np.exp(np.interp(-np.log(rmse), -np.log(errors), 2.0 * np.log(sides))))


def conclusion(results: Sequence[Result], *, budgets: Sequence[int]) -> dict[str, Any]:
    """Relative numbers of cells by labels, name of the grid and budget, and their geometric mean over the budgets."""
    uniform = next((result for result in results if result["n"] == 0), None)
    if uniform is None:
        return {}
    by_labels = {n: [each for each in results if each["n"] == n] for n in sorted({each["n"] for each in results})}
    return {
        "relative_cells": {str(n): _relative(rows, uniform, budgets, 0) for n, rows in by_labels.items()},
        "with_labels": {str(n): _relative(rows, uniform, budgets, n) for n, rows in by_labels.items() if n > 0},
    }


def _relative(rows: Sequence[Result], uniform: Result, budgets: Sequence[int], labels: int) -> dict[str, Any]:
    last = f"_cells_{budgets[-1]}"
    names = [name.removesuffix(last) for name in rows[0] if name.endswith(last)]
    found = {}
    for name in names:
        cells, rmse = (
            np.array([[row[f"{name}_{kind}_{budget}"] for budget in budgets] for row in rows], dtype=np.float64)
            for kind in ("cells", "rmse")
        )
        ratios = (cells + labels) / uniform_cells(uniform, rmse)
        columns = zip(budgets, ratios.T.tolist(), strict=True)
        overall = np.exp(np.log(ratios).mean(axis=1)).tolist()
        found[name] = {str(budget): mean_and_error(column) for budget, column in columns}
        found[name]["overall"] = mean_and_error(overall)
    return found


def main(
    data: Annotated[str, typer.Argument(help=".npz file with X in the unit square, y and inputDensity.")],
    output: Output,
    budgets: Annotated[str, typer.Option(help="Numbers of cells, separated by commas.")] = BUDGETS,
    labels: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = LABELS,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    figure: Figure = None,
    cubic: Annotated[
        bool, typer.Option("--cubic", help="A cubic reference between the cells, not a linear one.")
    ] = False,
) -> None:
    """Compare grids by local complexity with uniform ones and those of solvers, by their interpolation errors."""
    settings = MeshSettings(data=data, budgets=tuple(whole_numbers(budgets)), is_cubic=cubic)
    sizes = whole_numbers(labels)
    rows = len(load_cells(data).y)
    if not sizes or min(sizes) < SMALLEST_TRAINING_SET or max(sizes) > rows:
        raise ValueError(f"labels must lie between {SMALLEST_TRAINING_SET} and the file's {rows} cells, got {sizes}")
    repetitions = Repetitions(
        experiment=f"{Path(data).stem}: interpolation errors of grids by number of cells",
        settings=asdict(settings)
        | {"data": Path(data).stem, "first_level": FIRST_LEVEL, "deepest": DEEPEST, "share": SHARE, "windows": WINDOWS},
        run=partial(run, settings=settings),
        conclude=partial(conclusion, budgets=settings.budgets),
    )
    pairs = [(0, 0), *((n, seed) for n in sizes for seed in range(first_seed, first_seed + seeds))]
    record = repetitions.complete(pairs, output, jobs=jobs)
    print_relative_cells(record)
    if figure is not None:
        save_figure(grids_figure(picture_of(settings, record, first_seed)), figure)


def print_relative_cells(record: dict[str, Any]) -> None:
    """Print the relative number of cells of every grid, mean over budgets and seeds."""
    for n, grids in record["relative_cells"].items():
        print(f"{n} labels")
        for name, ratios in grids.items():
            overall = ratios["overall"]
            error = "" if overall["standard_error"] is None else f" ± {overall['standard_error']:.2g}"
            print(f"  {name:24} {overall['mean']:.3f}{error}")
