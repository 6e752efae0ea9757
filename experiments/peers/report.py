"""Tables and learning curves of the comparison, from its record.

python -m experiments peers_report docs/results/peers.jsonl --figure docs/results/figures/peers.png
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from experiments.peers.campaigns import HALVES, JUDGES, RANDOM, SETS, SIZES, Task, finished
from lobal.report.axes import number_logarithmic
from lobal.report.campaign_figures import Curve, draw_curve
from lobal.report.figures import LINES, save_figure
from lobal.report.figures import RANDOM as RANDOM_COLOUR

RANGES = ("many", "few")  # of sizes, as tables have them
HINDSIGHT = "the best of these in hindsight"
SEVERAL = 3  # strategies at least of which the best is shown
Record = Mapping[Task, Mapping[str, Any]]
COLOURS = (RANDOM_COLOUR, *LINES, "#E69F00", "#56B4E9", "#999999", "#B8860B")


class Ratio(NamedTuple):
    """A geometric mean of error ratios and its standard error, over seeds."""

    mean: float
    standard_error: float | None


def log_ratios(record: Record, problem: str, strategy: str, sizes: str, judge: str) -> Float[ndarray, "seeds sizes"]:
    """Logarithms of the error over that of random labels after the start, for seeds that have both."""
    pairs = [
        (record[task]["errors"][judge]["rmse"], record[task._replace(strategy=RANDOM)]["errors"][judge]["rmse"])
        for task in record
        if task[:3] == (problem, strategy, sizes) and task._replace(strategy=RANDOM) in record
    ]
    return np.array([np.log(np.divide(own[1:], random[1:])) for own, random in pairs]).reshape(
        len(pairs), len(pairs[0][0]) - 1 if pairs else 0
    )


def ratio(record: Record, problems: Sequence[str], strategy: str, sizes: str, judge: str) -> Ratio | None:
    """The geometric mean over problems and sizes; none if a problem is missing.

    The standard error is that over seeds, which the problems share: means over the problems seed by seed.
    """
    each = [log_ratios(record, problem, strategy, sizes, judge) for problem in problems]
    seeds = min(len(values) for values in each)
    if not seeds:
        return None
    by_seed = np.mean([values[:seeds].mean(axis=1) for values in each], axis=0)
    mean = float(np.exp(by_seed.mean()))
    return Ratio(mean, None if seeds < 2 else float(mean * by_seed.std(ddof=1) / np.sqrt(seeds)))


def best_in_hindsight(record: Record, problems: Sequence[str], sizes: str, judge: str) -> float | None:
    """The geometric mean of the least ratio of any strategy on each problem at each size; none if one is missing.

    No rule that chooses one of the strategies for every problem and size has less, with the same campaigns. As the
    least of several means over seeds it is too low by chance.
    """
    least = []
    for problem in problems:
        each = [log_ratios(record, problem, strategy, sizes, judge) for strategy in strategies_of(record)]
        means = [values.mean(axis=0) for values in each if len(values)]
        if not means:
            return None
        least.append(np.min(means, axis=0).mean())
    return float(np.exp(np.mean(least)))


def losses(record: Record, strategy: str, judge: str) -> list[tuple[str, int, Ratio]]:
    """Problems and numbers of labels at which the errors exceed those of random labels by two standard errors."""
    found = []
    for sizes in SIZES:
        for problem in sorted({task.problem for task in record if task[1:3] == (strategy, sizes)}):
            values = log_ratios(record, problem, strategy, sizes, judge)
            for column, n in enumerate(SIZES[sizes][1 : 1 + values.shape[1]] if len(values) > 1 else ()):
                mean, error = values[:, column].mean(), values[:, column].std(ddof=1) / np.sqrt(len(values))
                if mean > 2.0 * error:
                    found.append((problem, n, Ratio(float(np.exp(mean)), float(np.exp(mean) * error))))
    return found


def strategies_of(record: Record) -> list[str]:
    """The strategies of a record, in the order in which they came, without random labels."""
    return [name for name in dict.fromkeys(task.strategy for task in record) if name != RANDOM]


def table(record: Record, name: str, ranges: Sequence[str] = RANGES) -> list[list[str]]:
    """Rows of ratios to random labels: one strategy each, a column for every range of sizes and judge.

    Strategies of which there is nothing are left out. Below several of them stands the best of all in hindsight.
    """
    cells = {
        strategy: [ratio(record, SETS[name], strategy, sizes, judge) for sizes in ranges for judge in JUDGES]
        for strategy in strategies_of(record)
    }
    rows = [[strategy, *map(_shown, row)] for strategy, row in cells.items() if any(row)]
    if len(rows) < SEVERAL:
        return rows
    least = [best_in_hindsight(record, SETS[name], sizes, judge) for sizes in ranges for judge in JUDGES]
    return [*rows, [HINDSIGHT, *("" if value is None else f"{value:.3f}" for value in least)]]


def _shown(found: Ratio | None) -> str:
    if found is None:
        return ""
    return f"{found.mean:.3f}" + ("" if found.standard_error is None else f" ± {found.standard_error:.3f}")


def header(ranges: Sequence[str] = RANGES) -> list[str]:
    """The header of that table."""
    return ["strategy", *(f"{judge}, {SIZES[each][0]}-{SIZES[each][-1]}" for each in ranges for judge in JUDGES)]


def whole_strategies(record: Record, problems: Sequence[str], sizes: str) -> list[str]:
    """The strategies that have campaigns on all problems, without random labels."""
    measured = {task[:3] for task in record}
    return [name for name in strategies_of(record) if {(each, name, sizes) for each in problems} <= measured]


def curves_figure(record: Record, problems: Sequence[str], sizes: str, judge: str = "mixture") -> Figure:
    """Learning curves of the strategies that all problems have, one panel a problem."""
    columns = 4
    rows = -(-len(problems) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.5 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, problem in zip(panels, problems, strict=False):
        for strategy, colour in zip([RANDOM, *whole_strategies(record, problems, sizes)], COLOURS, strict=False):
            runs = [record[task] for task in record if task[:3] == (problem, strategy, sizes)]
            errors = np.array([run["errors"][judge]["rmse"] for run in runs])
            draw_curve(axes, Curve(runs[0]["n"], errors), color=colour, label=strategy)
        axes.set(xscale="log", yscale="log", title=problem)
        axes.set_xticks(SIZES[sizes], labels=[str(n) for n in SIZES[sizes]], minor=False)
        number_logarithmic(axes.yaxis)
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(problems) :]:
        axes.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", frameon=False)
    figure.supxlabel("labels")
    figure.supylabel("RMSE")
    return figure


def main(
    path: Annotated[Path, typer.Argument(help="The record.", exists=True, dir_okay=False)],
    figure: Annotated[Path | None, typer.Option(help="File for the learning curves of the report half.")] = None,
    sizes: Annotated[str, typer.Option(help="few or many, for the figure.")] = "many",
) -> None:
    """Print the ratios to random labels on both halves, and where random labels were better."""
    console, record = Console(width=150), finished(path)
    for name in SETS:
        shown = Table(*header(), title=f"Errors relative to random labels, {name}", title_justify="left")
        for row in table(record, name):
            shown.add_row(*row)
        console.print(shown)
    for strategy in strategies_of(record):
        for problem, n, found in losses(record, strategy, "mixture"):
            console.print(f"{strategy} is worse than random labels on {problem} at {n}: {found.mean:.2f}")
    if figure is not None:
        save_figure(curves_figure(record, HALVES["report"], sizes), figure)
