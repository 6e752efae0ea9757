"""Savings and learning curves of the Doppler function from the results of both arms.

python -m experiments doppler_curves ACTIVE.json RANDOM.json --figure curves.png

The two files come from `python -m experiments doppler_active`.
"""

import json
import math
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from jaxtyping import Float
from numpy import ndarray

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


def main(
    active: Annotated[Path, typer.Argument(help="Results of the active arm.", exists=True, dir_okay=False)],
    random: Annotated[Path, typer.Argument(help="Results of the random arm.", exists=True, dir_okay=False)],
    figure: Figure = None,
) -> None:
    """Print what active learning saved at every size and draw the learning curves."""
    arms = Arm.read(active), Arm.read(random)
    sizes, savings = compared(*arms)
    for row, size in enumerate(sizes):
        print(f"{size} labels: rho = {savings.rho_at(row)}")
    print(savings.verdict())
    if figure is not None:
        sizes = arms[0].sizes
        curves = {"random": arms[1].column("rmse", sizes), "active": arms[0].column("rmse", sizes)}
        curves["active, best bandwidths known"] = arms[0].column("oracle_rmse", sizes)
        drawn = {name: Curve(sizes, rmse) for name, rmse in curves.items() if rmse is not None}
        save_figure(learning_curve_figure(drawn), figure)
