"""Tables of the record that `benchmarks/calibration.py` writes: means over problems, and ranks on real data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata

from benchmarks.interval_models import MODELS
from experiments.peers.campaigns import lines_by_task
from experiments.peers.problems import DECISION, FUNCTIONS, REPORT

DESIGNS = ("random", "active")
REAL = tuple(name for name in (*DECISION, *REPORT) if name not in FUNCTIONS)
RANKED_SIZES = (500, 2000)
HEADER = [
    "labels",
    "n",
    "model",
    "problems",
    "coverage",
    "lowest coverage",
    "width",
    "NLL",
    "RMSE",
    "validation / true error",
    "seconds",
]
CHANGE_HEADER = ["n", "problems", "RMSE over that before", "larger by more than a standard error"]
RANKS_HEADER = ["labels", "n", "model", "problems", "mean rank in RMSE", "mean rank in NLL"]


class Fit(NamedTuple):
    """One model at so many labels of a problem."""

    problem: str
    design: str
    n: int
    seed: int
    model: str


Record: TypeAlias = Mapping[Fit, Mapping[str, Any]]


def read_record(path: Path) -> dict[Fit, dict[str, Any]]:
    """The fits that a record holds."""
    return {Fit(*task): result for task, result in lines_by_task(path, Fit._fields).items()}


class Group(NamedTuple):
    """Fits to one kind and number of labels, of problems and seeds that all its models have."""

    design: str
    n: int
    models: list[str]
    problems: list[str]
    fits: Record

    def by_problem(self, model: str, name: str) -> Float[ndarray, " problems"]:
        """A figure of a model on every problem, mean over seeds."""
        results = {problem: [fit[name] for fit in self._results(problem, model)] for problem in self.problems}
        return np.array([np.mean(values) for values in results.values()])

    def _results(self, problem: str, model: str) -> list[Mapping[str, Any]]:
        return [result for fit, result in self.fits.items() if (fit.problem, fit.model) == (problem, model)]


def groups(record: Record, problems: Sequence[str] | None = None) -> list[Group]:
    """All kinds and numbers of labels, in ascending order; by default with all problems."""
    found = []
    for design in DESIGNS:
        for n in sorted({fit.n for fit in record if fit.design == design}):
            fits = {fit: result for fit, result in record.items() if (fit.design, fit.n) == (design, n)}
            models = [model for model in MODELS if any(fit.model == model for fit in fits)]
            each = [{(fit.problem, fit.seed) for fit in fits if fit.model == model} for model in models]
            common = {(name, seed) for name, seed in set.intersection(*each) if problems is None or name in problems}
            if common:
                shared = {fit: result for fit, result in fits.items() if (fit.problem, fit.seed) in common}
                found.append(Group(design, n, models, sorted({name for name, _ in common}), shared))
    return found


def rows(record: Record, design: str | None = None) -> list[list[str]]:
    """Means over problems, and the lowest coverage with its problem; a ratio's mean is geometric."""
    found = []
    for group in groups(record):
        for model in group.models if design in (None, group.design) else ():
            coverage, width, nll, rmse, seconds = (
                group.by_problem(model, name) for name in ("coverage", "width", "nll", "rmse", "seconds")
            )
            lowest = int(coverage.argmin())
            numbers = [f"{coverage.mean():.3f}", f"{coverage[lowest]:.3f} ({group.problems[lowest]})"]
            numbers += [f"{values.mean():.3f}" for values in (width, nll, rmse)]
            numbers += [_ratio(group, model), f"{seconds.mean():.1f}"]
            found.append([group.design, str(group.n), model, str(len(group.problems)), *numbers])
    return found


def _ratio(group: Group, model: str) -> str:
    """The error that a model says it has over the true one, geometric mean; empty if it says nothing."""
    ratios = [
        result["validation_ratio"]
        for fit, result in group.fits.items()
        if fit.model == model and fit.problem in group.problems
    ]
    return "" if None in ratios else f"{np.exp(np.log(ratios).mean()):.2f}"


def rank_rows(record: Record) -> list[list[str]]:
    """Mean ranks on real data, one is best."""
    found = []
    for group in (group for group in groups(record, REAL) if group.n in RANKED_SIZES):
        figures = ([group.by_problem(model, name) for model in group.models] for name in ("rmse", "nll"))
        ranks = [rankdata(values, axis=0).mean(axis=1) for values in figures]
        for model, *numbers in zip(group.models, *ranks, strict=True):
            shown = (f"{number:.2f}" for number in numbers)
            found.append([group.design, str(group.n), model, str(len(group.problems)), *shown])
    return found


def change_rows(record: Record, before: Record) -> list[list[str]]:
    """Errors over those that an earlier model had with the same labels, and where they are larger.

    A mean over problems is geometric; problems are named whose mean over seeds is above one by more than its standard
    error.
    """
    found = []
    for n in sorted({fit.n for fit in before}):
        logs: dict[str, list[float]] = {}
        for fit in (fit for fit in before if fit.n == n and fit in record):
            logs.setdefault(fit.problem, []).append(float(np.log(record[fit]["rmse"] / before[fit]["rmse"])))
        means = {name: float(np.mean(values)) for name, values in logs.items()}
        errors = {name: float(np.std(values, ddof=1)) / len(values) ** 0.5 for name, values in logs.items()}
        worse = sorted(name for name, mean in means.items() if mean > errors[name])
        named = ", ".join(f"{name} {np.exp(means[name]):.3f} ± {errors[name]:.3f}" for name in worse)
        found.append([str(n), str(len(means)), f"{np.exp(np.mean([*means.values()])):.3f}", named])
    return found


def print_tables(record: Record) -> None:
    """Print both."""
    titles = {"Means over problems": (HEADER, rows), "Real data": (RANKS_HEADER, rank_rows)}
    for title, (header, content) in titles.items():
        table = Table(*header, title=title, title_justify="left")
        for row in content(record):
            table.add_row(*row)
        Console(width=150).print(table)
