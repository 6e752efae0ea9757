"""Expected savings beside measured ones, on every problem and at every size of the comparison.

Expected is what the learner says before it asks for the labels that double their number. Measured is what labels of the
same number have then saved against points spread with constant complexity: with errors e, and e_0 of constant
complexity, which fall like n^-r, rho = (e / e_0)^(1 / r) of the labels reach the same error.

python -m experiments peers_calibration docs/results/peers.jsonl \
    --figure docs/results/figures/peers_calibration.png
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from experiments.peers.campaigns import HALVES, RANDOM, SIZES, Task, finished
from experiments.peers.report import Record
from lobal.active.expected_savings import ExpectedSavings
from lobal.report.figures import LINES, save_figure

JUDGE, LOCAL, CONSTANT = "mixture", "lobal", "lobal, constant complexity"
SMALLEST_RATE = 0.1  # of learning curves that hardly fall
LITTLE = 0.1  # expected share below which hardly anything is expected
LOWEST, HIGHEST = -0.6, 1.05  # shares that the figure shows; others are drawn at its edge


class Measured(NamedTuple):
    """A share of labels, with its standard error over seeds."""

    share: float
    standard_error: float


class Case(NamedTuple):
    """One problem at one size: means over seeds."""

    problem: str
    n: int  # labels when the expectation was stated
    known: int  # seeds at which it was known
    expected: float
    standard_error: float
    measured: Measured  # against constant complexity, at the size after that
    against_random: Measured

    def is_covered(self, standard_errors: float) -> bool:
        """Whether the measured share lies within so many standard errors, those of both, of the expected one."""
        error = math.hypot(self.standard_error, self.measured.standard_error)
        return abs(self.expected - self.measured.share) <= standard_errors * error


def runs_of(record: Record, problem: str, sizes: str) -> list[list[Mapping[str, Any]]]:
    """The campaigns with local and with constant complexity and with random labels, for seeds that have all three."""
    tasks = [Task(problem, LOCAL, sizes, seed) for seed in sorted({task.seed for task in record})]
    triples = [[task._replace(strategy=name) for name in (LOCAL, CONSTANT, RANDOM)] for task in tasks]
    return [
        [record[task] for task in arm] for arm in zip(*(each for each in triples if {*each} <= {*record}), strict=True)
    ]


def measured(
    own: Float[ndarray, "seeds sizes"], other: Float[ndarray, "seeds sizes"], n: Sequence[int], position: int
) -> Measured:
    """The share of labels saved against another strategy at one of the sizes."""
    rate = max(SMALLEST_RATE, -float(np.polyfit(np.log(n), other.mean(axis=0), 1)[0]))
    logarithms = (own[:, position] - other[:, position]) / rate
    rho = math.exp(logarithms.mean())
    return Measured(1.0 - rho, rho * float(logarithms.std(ddof=1)) / math.sqrt(len(own)))


def cases(record: Record, half: str) -> list[Case]:
    """All problems and sizes at which expected savings were known to at least two campaigns: means over these."""
    found = []
    for problem in HALVES[half]:
        for sizes in SIZES:
            arms = runs_of(record, problem, sizes)
            if not arms or len(arms[0]) < 2:
                continue
            runs = arms[0]
            own, constant, random = (np.log([run["errors"][JUDGE]["rmse"] for run in arm]) for arm in arms)
            n = runs[0]["n"]
            for position in range(1, len(n)):
                stated = [ExpectedSavings(*(run["expected"][position - 1] or (0.0, None))) for run in runs]
                known = np.array([each.by_chance is not None for each in stated])
                if known.sum() < 2:
                    continue
                found.append(
                    Case(
                        problem,
                        n[position - 1],
                        int(known.sum()),
                        float(np.mean([each.share for each in stated if each.standard_error])),
                        float(np.mean([each.standard_error for each in stated if each.standard_error])),
                        measured(own[known], constant[known], n, position),
                        measured(own[known], random[known], n, position),
                    )
                )
    return found


def parts(found: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases in which hardly anything was expected, and the others."""
    return {
        f"below {LITTLE:.2f} expected": [case for case in found if case.expected < LITTLE],
        f"at least {LITTLE:.2f} expected": [case for case in found if case.expected >= LITTLE],
    }


def calibration_figure(found: dict[str, list[Case]]) -> Figure:
    """Expected against measured: what the complexity saves, and all that is saved against random labels."""
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2, sharex=True, sharey=True), ("measured", "against_random"), strict=True):
        for (half, points), colour in zip(found.items(), LINES, strict=False):
            values = [getattr(case, name) for case in points]
            axes.errorbar(
                [case.expected for case in points],
                np.clip([value.share for value in values], LOWEST, HIGHEST),
                xerr=[case.standard_error for case in points],
                yerr=[value.standard_error for value in values],
                fmt="o",
                markersize=3.5,
                linewidth=0.6,
                color=colour,
                label=f"{half} half",
            )
        axes.axline((0.0, 0.0), slope=1.0, color="0.5", linewidth=0.8)
        axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        axes.set(xlabel="expected share of labels saved by local complexity", ylim=(LOWEST - 0.03, HIGHEST))
        axes.spines[["top", "right"]].set_visible(False)
    left, right = figure.axes
    left.set(title="against constant complexity", ylabel="measured share")
    left.legend(frameon=False, loc="lower right")
    right.set(title="against random labels")
    return figure


def main(
    path: Annotated[Path, typer.Argument(help="The record.", exists=True, dir_okay=False)],
    figure: Annotated[Path | None, typer.Option(help="File for the figure.")] = None,
) -> None:
    """Print expected and measured savings, and how often the stated error covers the difference."""
    record = finished(path)
    found = {half: cases(record, half) for half in HALVES}
    for half, each in found.items():
        for case in each:
            savings = (Measured(case.expected, case.standard_error), case.measured, case.against_random)
            shown = (f"{value.share:5.2f} ± {value.standard_error:.2f}" for value in savings)
            names = f"expected ({case.known} seeds)", "measured", "against random"
            columns = (f"{name} {value}" for name, value in zip(names, shown, strict=True))
            print(f"{case.problem:20} {case.n:5}  " + "  ".join(columns))
        for k in (1.0, 2.0):
            for name, part in parts(each).items():
                if part:
                    share = np.mean([case.is_covered(k) for case in part])
                    print(f"{half} half, {name}: within {k:g} standard errors in {share:.0%} of {len(part)} cases")
    if figure is not None:
        save_figure(calibration_figure({half: each for half, each in found.items() if each}), figure)
