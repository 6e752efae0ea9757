"""Learning curves of the Doppler function from the results of both arms: a table, the savings, a figure.

python -m experiments doppler_curves ACTIVE.json RANDOM.json --figure curves.png

The two files come from `python -m experiments doppler_active`.
"""

import json
import math
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console

from experiments.repetitions import Figure, Result, values_by_seed
from lobal.report.campaign_figures import Curve, learning_curve_figure
from lobal.report.figures import save_figure
from lobal.report.savings import Savings, relative_sample_sizes


class Arm(NamedTuple):
    """One arm's numbers by seed: columns such as "rmse_1024"."""

    seeds: list[int]
    results: list[Result]

    @classmethod
    def read(cls, path: Path) -> "Arm":
        """The arm that `doppler_active` wrote to the file."""
        results = sorted(json.loads(path.read_text())["results"], key=lambda result: result["seed"])
        if not results:
            raise ValueError(f"{path} has no results yet; run `python -m experiments doppler_active` first")
        return cls([result["seed"] for result in results], results)

    @property
    def sizes(self) -> list[int]:
        """Numbers of labels, ascending."""
        return sorted(int(name.removeprefix("rmse_")) for name in self.results[0] if name.startswith("rmse_"))

    def column(self, name: str, sizes: list[int]) -> Float[ndarray, "seeds sizes"] | None:
        """The numbers of this name, if they were measured."""
        measured = f"{name}_{sizes[0]}" in self.results[0]
        return values_by_seed(self.results, name, sizes) if measured else None


def compared(active: Arm, random: Arm) -> tuple[list[int], Savings]:
    """The sizes that both arms have, except for the common start, and the savings at them."""
    if active.seeds != random.seeds:
        raise ValueError(f"both arms need the same seeds, got {active.seeds} and {random.seeds}")
    sizes = [size for size in active.sizes if size in random.sizes][1:]
    if not sizes:
        raise ValueError(f"the arms share no size after the start: {active.sizes} and {random.sizes}")
    rmse = [arm.column("rmse", sizes) for arm in (active, random)]
    return sizes, relative_sample_sizes(*rmse, smoothness=math.inf, dimension=1.0)


def table(active: Arm, random: Arm) -> str:
    """Markdown: errors of both arms and of the oracle, rho, the expected rho, largest errors; means over the seeds."""
    sizes, savings = compared(active, random)
    errors = {
        "active": active.column("rmse", sizes),
        "random": random.column("rmse", sizes),
        "oracle, active labels": active.column("oracle_rmse", sizes),
    }
    expected = active.column("expected_savings", sizes)
    further = {
        "expected rho": None if expected is None else 1.0 - expected,
        "max. error active": active.column("max_error", sizes),
        "max. error random": random.column("max_error", sizes),
    }
    cells = {name: _means(values) for name, values in errors.items() if values is not None}
    cells |= {
        name: [f"{mean:.2f}" for mean in values.mean(0)] for name, values in further.items() if values is not None
    }
    lines = [f"| n | rho | {' | '.join(cells)} |", "|---" * (2 + len(cells)) + "|"]
    for row, size in enumerate(sizes):
        error = "" if savings.standard_error is None else f" ± {savings.standard_error[row]:.3f}"
        lines.append(f"| {size} | {savings.rho[row]:.3f}{error} | {' | '.join(each[row] for each in cells.values())} |")
    return "\n".join(lines)


def _means(values: Float[ndarray, "seeds sizes"]) -> list[str]:
    """Means over the seeds, with standard errors if there are several seeds."""
    means = values.mean(axis=0)
    if len(values) < 2:
        return [f"{mean:.4f}" for mean in means]
    errors = np.std(values, axis=0, ddof=1) / math.sqrt(len(values))
    return [f"{mean:.4f} ± {error:.4f}" for mean, error in zip(means, errors, strict=True)]


def main(
    active: Annotated[Path, typer.Argument(help="Results of the active arm.", exists=True, dir_okay=False)],
    random: Annotated[Path, typer.Argument(help="Results of the random arm.", exists=True, dir_okay=False)],
    figure: Figure = None,
) -> None:
    """Print the table of both arms and draw their learning curves."""
    arms = Arm.read(active), Arm.read(random)
    console = Console(soft_wrap=True)
    console.print(table(*arms), markup=False, highlight=False)
    console.print(compared(*arms)[1].verdict())
    if figure is not None:
        sizes = arms[0].sizes
        curves = {"random": arms[1].column("rmse", sizes), "active": arms[0].column("rmse", sizes)}
        curves["active, best bandwidths known"] = arms[0].column("oracle_rmse", sizes)
        drawn = {name: Curve(sizes, rmse) for name, rmse in curves.items() if rmse is not None}
        save_figure(learning_curve_figure(drawn), figure)
