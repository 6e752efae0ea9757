"""How small a patch of fast oscillations is found with how many labels.

The function sin(3 x_0) + x_1 plus 1.5 sin(w x_0) under a Gaussian of width s, on the unit square with noise of 0.05. A
patch of any size holds as many oscillations, w = 4.8 / s. A model that knows everything but the patch has its root mean
square (RMS) as error, so 1 - (RMSE / RMS)^2 is the share of the patch that is explained.

python -m experiments patch_size --seeds 5 --jobs 16 --output docs/results/patch_size.json \
    --figure docs/results/figures/patch_size.png

Several patches by name, at random labels or those of the default learner:

python -m experiments patches --seeds 5 --jobs 16 --output docs/results/patches.json
python -m experiments patches --active --seeds 5 --jobs 16 --output docs/results/patches_active.json
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import matplotlib.figure
import numpy as np
import typer
from jaxtyping import Float
from matplotlib.lines import Line2D
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from experiments.peers.campaigns import RANDOM, Task, stages
from experiments.peers.problems import Generated, Problem, sampled
from experiments.repetitions import Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds
from lobal.cli.checks import whole_numbers
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import PREDICTION, save_figure

SIZES = (100, 200, 400, 800, 1600)
WIDTHS = (0.03, 0.04, 0.06, 0.08, 0.12, 0.16)
NOISE = 0.05
HEIGHT = 1.5
PHASE = 4.8  # w s: a patch two widths across each way holds three oscillations
HALF = 0.5  # the share at which the map has a line
SIDE = 128  # of the grid that the map's errors are measured on: the smallest patch has five points an oscillation
START = 50  # random labels that an active campaign begins with, and doubles


class Patch(NamedTuple):
    """A wave along one column under a Gaussian, on top of a function that varies slowly."""

    frequency: float
    centre: tuple[float, ...]
    width: tuple[float, ...]  # of every column
    column: int = 0

    def alone(self, X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The patch without what it lies on."""
        squared = np.square((X - np.array(self.centre)) / np.array(self.width)).sum(1)
        return np.asarray(HEIGHT * np.sin(self.frequency * X[:, self.column]) * np.exp(-0.5 * squared))

    def function(self, X: Float[ndarray, "n d"], _: int = 0) -> Float[ndarray, " n"]:
        """All of the function; it is the same for every seed."""
        return np.asarray(np.sin(3.0 * X[:, 0]) + X[:, 1] + self.alone(X))

    @property
    def problem(self) -> Generated:
        """The function with its noise."""
        return Generated(self.function, len(self.centre), NOISE)


PATCHES = {
    "patch2": Patch(60.0, (0.7, 0.3), (0.08, 0.08)),
    "patch2_slow": Patch(30.0, (0.3, 0.6), (0.15, 0.15)),
    "patch2_flat": Patch(50.0, (0.7, 0.3), (0.2, 0.06), column=1),
    "patch3": Patch(40.0, (0.7, 0.3, 0.5), (0.12, 0.12, 0.12)),
}


def of_width(s: float) -> Patch:
    """The patch of the map."""
    return Patch(PHASE / s, (0.7, 0.3), (s, s))


class Judged(NamedTuple):
    """A fitted mixture: its error, the share of the patch that it explains, and the noise that it found."""

    rmse: float
    explained: float
    noise: float


def judged(patch: Patch, case: Problem, n: int, seed: int, *, active: bool) -> Judged:
    """The default mixture at n labels of the pool."""
    task = Task("", "lobal" if active else RANDOM, "", seed)
    *_, (rows, weight, _) = stages(task, case, list(doublings(n)) if active else [n])
    model = MixtureRegressor(random_state=seed).fit(case.X[rows], case.y[rows], sample_weight=weight)
    mse = float(np.mean(np.square(model.predict(case.X_test) - case.truth)))
    return Judged(
        math.sqrt(mse), 1.0 - mse / float(np.mean(np.square(patch.alone(case.X_test)))), math.sqrt(model.noise_)
    )


def doublings(n: int) -> Iterator[int]:
    """Numbers of labels of a campaign: 50, doubled until there are n."""
    size = START
    while size < n:
        yield size
        size *= 2
    yield n


def run_map(n: int, seed: int, *, widths: Sequence[float]) -> Result:
    """The share that is explained and the error, in names such as "explained_0.08" and "rmse_0.08"."""
    result: Result = {"n": n, "seed": seed}
    for s in widths:
        patch, ticks = of_width(s), (np.arange(SIDE) + 0.5) / SIDE
        grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        case = sampled(patch.problem, seed)._replace(X_test=grid, truth=patch.function(grid))
        found = judged(patch, case, n, seed, active=False)
        result |= {f"explained_{s}": found.explained, f"rmse_{s}": found.rmse}
    return result


def run_named(n: int, seed: int, *, active: bool, names: Sequence[str]) -> Result:
    """Errors, explained shares and estimated noise, in names such as "rmse_patch2" and "noise_patch2"."""
    result: Result = {"n": n, "seed": seed}
    for name in names:
        found = judged(PATCHES[name], sampled(PATCHES[name].problem, seed), n, seed, active=active)
        result |= {f"{key}_{name}": value for key, value in found._asdict().items()}
    return result


def shares(record: dict[str, Any], widths: Sequence[float]) -> Float[ndarray, "widths sizes"]:
    """Explained shares, means over the seeds."""
    return np.array([[entry[f"explained_{s}"]["mean"] for entry in record["summary"]] for s in widths])


def map_figure(record: dict[str, Any], widths: Sequence[float]) -> matplotlib.figure.Figure:
    """Explained shares by labels and width, with the line where half is explained."""
    sizes, values = [entry["n"] for entry in record["summary"]], shares(record, widths)
    figure = matplotlib.figure.Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    cells = axes.imshow(values, vmin=0.0, vmax=1.0, cmap="viridis", origin="lower", aspect="auto")
    if values.min() < HALF < values.max():
        axes.contour(values, levels=[HALF], colors=PREDICTION, linewidths=2.0)
        line = Line2D([], [], color=PREDICTION, linewidth=2.0, label=f"half of the patch is explained ({HALF:g})")
        figure.legend(handles=[line], loc="outside upper center", frameon=False, fontsize="small")
    for (row, column), share in np.ndenumerate(values):
        axes.text(column, row, f"{share:.2f}", color="white" if share < HALF else "black", ha="center", va="center")
    axes.set(xlabel="labels $n$", ylabel="width $s$ of the patch")
    axes.set_xticks(range(len(sizes)), labels=[str(n) for n in sizes])
    axes.set_yticks(range(len(widths)), labels=[str(s) for s in widths])
    figure.colorbar(cells, ax=axes, label="explained share of the patch")
    return figure


def main(
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of labels.")] = ",".join(map(str, SIZES)),
    widths: Annotated[str, typer.Option(help="Widths of the patch, ascending.")] = ",".join(map(str, WIDTHS)),
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    figure: Figure = None,
) -> None:
    """Fit patches of several widths with random labels, and print which share of them is explained."""
    chosen = tuple(float(s) for s in widths.split(","))
    repetitions = Repetitions(
        experiment="explained share of a patch of fast oscillations, by its width and the number of labels",
        settings={"widths": chosen, "noise": NOISE, "height": HEIGHT, "phase": PHASE},
        run=partial(run_map, widths=chosen),
    )
    record = repetitions.complete(_pairs(sizes, seeds, first_seed), output, jobs=jobs)
    _print(["s", *(str(entry["n"]) for entry in record["summary"])], map_rows(record), record["experiment"])
    if figure is not None:
        save_figure(map_figure(record, chosen), figure)


def named(
    output: Output,
    active: Annotated[bool, typer.Option("--active", help="Labels of the default learner, not random ones.")] = False,
    sizes: Annotated[str, typer.Option(help="Numbers of labels.")] = "800",
    names: Annotated[str, typer.Option(help="Patches, separated by commas.")] = ",".join(PATCHES),
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
) -> None:
    """Fit the patches that have a name: errors against the function, and the estimated noise."""
    chosen = tuple(names.split(","))
    if unknown := [name for name in chosen if name not in PATCHES]:
        raise ValueError(f"patches must be among {', '.join(PATCHES)}, got {', '.join(unknown)}")
    repetitions = Repetitions(
        experiment=f"patches of fast oscillations, {'active' if active else 'random'} labels",
        settings={"patches": {name: PATCHES[name]._asdict() for name in chosen}, "noise": NOISE, "active": active},
        run=partial(run_named, active=active, names=chosen),
    )
    record = repetitions.complete(_pairs(sizes, seeds, first_seed), output, jobs=jobs)
    _print(NAMED_HEADER, named_rows(record), record["experiment"])


def map_rows(record: dict[str, Any]) -> list[list[str]]:
    """Explained shares: the widths of a record, with mean and standard error at every size."""
    return [
        [str(s), *(_shown(entry[f"explained_{s}"]) for entry in record["summary"])]
        for s in record["settings"]["widths"]
    ]


NAMED_HEADER = ["patch", "n", "RMSE", "explained share", f"noise ({NOISE})"]


def named_rows(record: dict[str, Any]) -> list[list[str]]:
    """The patches of a record at every size, mean and standard error."""
    return [
        [name, str(entry["n"]), *(_shown(entry[f"{key}_{name}"]) for key in Judged._fields)]
        for name in record["settings"]["patches"]
        for entry in record["summary"]
    ]


def _print(header: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _pairs(sizes: str, seeds: int, first_seed: int) -> list[tuple[int, int]]:
    return [(n, seed) for seed in range(first_seed, first_seed + seeds) for n in whole_numbers(sizes)]


def _shown(number: dict[str, float | None]) -> str:
    error = number["standard_error"]
    return f"{number['mean']:.3f}" + ("" if error is None else f" ± {error:.3f}")
