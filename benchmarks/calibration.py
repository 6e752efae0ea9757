"""Coverage and width of 95% intervals, likelihood and errors of test labels, of the default model and of others.

python -m benchmarks.calibration docs/results/calibration.jsonl --data $LOBAL_DATA --seeds 3 --jobs 16 --minutes 8

Labels are a uniform draw of a problem's pool, or those of the default learner: one campaign, from the smallest size to
the largest. Test labels have the noise of training labels. Errors, widths and likelihoods are in units of the standard
deviation of the test labels. The record has one line for every fit; those it holds are not run again.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import torch
import typer
from jaxtyping import Float, Int
from numpy import ndarray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.calibration_tables import DESIGNS, Fit, print_tables, read_record
from benchmarks.interval_models import MODELS, PROCESSES, Prediction, mixture
from experiments.patch_size import PATCHES
from experiments.peers.campaigns import LARGEST_SHARE, Task, append_missing, results_as_they_come, stages
from experiments.peers.problems import DECISION, REPORT, Problem, problem, sampled
from experiments.repetitions import FirstSeed, Jobs, Seeds
from lobal.active.mixture_surrogate import TEST_INPUTS
from lobal.cli.checks import plain_errors

SIZES = (30, 60, 120, 240, 500, 800, 2000)
PROBLEMS = (*DECISION, *REPORT, *PATCHES)
LARGEST_OF_PROCESSES = 800  # active labels of scikit-learn's processes: 2000 take minutes
# Standard deviations below this share of the labels' count as that: leaves of equal labels have none at all.
SMALLEST_SD = 1e-3
DRAW, INPUTS = 3, 4  # random streams of the labels and of inputs without labels


class Labels(NamedTuple):
    """Rows of a pool, and the weight of each."""

    rows: Int[ndarray, " n"]
    weight: Float[ndarray, " n"]


class Campaign(NamedTuple):
    """One campaign of the default learner."""

    problem: str
    seed: int


Labelled: TypeAlias = Mapping[Campaign, Mapping[int, Labels]]


def case_of(name: str, seed: int, data: Path) -> Problem:
    """A problem of the comparison with peers, or a patch."""
    return sampled(PATCHES[name].problem, seed) if name in PATCHES else problem(name, seed, data)


def random_labels(case: Problem, n: int, seed: int) -> Labels:
    """A uniform draw of the pool, weighted by the problem's importance."""
    rows = np.random.default_rng([seed, DRAW]).permutation(len(case.y))[:n]
    return Labels(rows, case.importance[rows])


def unlabelled(case: Problem, labels: Labels, seed: int) -> Float[ndarray, "m d"]:
    """Other inputs of the pool, drawn by the problem's importance, as a learner gives them to its model."""
    weight = np.broadcast_to(case.importance, len(case.y)).astype(float)
    weight[labels.rows] = 0.0
    rows = np.random.default_rng([seed, INPUTS]).choice(len(weight), TEST_INPUTS, p=weight / weight.sum())
    return np.asarray(case.X[rows], dtype=np.float64)


def campaign(task: Campaign, *, data: Path, largest: int) -> dict[str, Any]:
    """The labels of a campaign at every size up to the largest."""
    torch.set_num_threads(1)
    case, sizes = case_of(*task, data), [size for size in SIZES if size <= largest]
    with threadpool_limits(1):
        found = list(stages(Task(task.problem, "lobal", "", task.seed), case, sizes))
    return {"task": task, "labels": {len(stage.rows): Labels(stage.rows, stage.weight) for stage in found}}


def figures(found: Prediction, case: Problem) -> dict[str, float | None]:
    """How well the prediction fits the test labels."""
    unit = case.y_test.std()
    residual, sd = (case.y_test - found.mean) / unit, np.maximum(found.sd / unit, SMALLEST_SD)
    nll = 0.5 * np.log(2.0 * np.pi) + np.log(sd) + 0.5 * np.square(residual / sd)
    is_covered = (found.lower <= case.y_test) & (case.y_test <= found.upper)
    values = is_covered, (found.upper - found.lower) / unit, nll, np.square(residual)
    coverage, width, mean_nll, mse = (float(np.average(value, weights=case.weight)) for value in values)
    rmse, own = float(np.sqrt(mse)), found.validation_error
    ratio = None if own is None else own / (unit * rmse)
    return {"coverage": coverage, "width": width, "nll": mean_nll, "rmse": rmse, "validation_ratio": ratio}


def run(task: Fit, *, data: Path, labelled: Labelled) -> dict[str, Any]:
    """One fit: its figures and its CPU seconds."""
    torch.set_num_threads(1)
    case, model = case_of(task.problem, task.seed, data), MODELS[task.model]
    if task.design == "active":
        labels = labelled[Campaign(task.problem, task.seed)][task.n]
        if model is mixture:
            model = partial(mixture, test_inputs=unlabelled(case, labels, task.seed))
    else:
        labels = random_labels(case, task.n, task.seed)
    with threadpool_limits(1):
        begun = time.process_time()
        predict = model(case.X[labels.rows], case.y[labels.rows], labels.weight, task.seed)
        seconds = time.process_time() - begun
        found = predict(np.asarray(case.X_test, dtype=np.float64))
    return {**task._asdict(), **figures(found, case), "seconds": round(seconds, 2)}


def fits(
    names: Mapping[str, int], designs: Sequence[str], sizes: Sequence[int], models: Sequence[str], gp_largest: int
) -> list[Fit]:
    """The fits of seed 0, those that take longest first; `names` are problems with the rows of their pools."""
    wanted = [
        Fit(name, design, n, 0, model)
        for design in designs
        for n in sizes
        for model in models
        for name, rows in names.items()
        if n <= LARGEST_SHARE * rows and not (design == "active" and model in PROCESSES and n > gp_largest)
    ]
    return sorted(wanted, key=lambda fit: (-fit.n, fit.model not in PROCESSES))


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """Names from a list separated by commas.

    Raises:
        ValueError: one of them is not known.
    """
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{what} must be among {', '.join(known)}, got {', '.join(unknown)}")
    return names


def run_seed(wanted: Sequence[Fit], output: Path, data: Path, jobs: int, end: float) -> None:
    """Run the fits of a seed that the record lacks, campaigns first; none is begun after the end."""

    def left() -> float:
        return (end - time.monotonic()) / 60.0

    done = read_record(output)
    active = [fit for fit in wanted if fit.design == "active" and fit not in done]
    needed = list(dict.fromkeys(Campaign(fit.problem, fit.seed) for fit in active))
    labelled: dict[Campaign, Mapping[int, Labels]] = {}
    begin = partial(campaign, data=data, largest=max((fit.n for fit in active), default=0))
    for number, result in enumerate(results_as_they_come(begin, needed, jobs, left()), start=1):
        labelled[result["task"]] = result["labels"]
        print(f"campaign {number} of {len(needed)}: {result['task'].problem}", flush=True)
    ready = [fit for fit in wanted if fit.design != "active" or Campaign(fit.problem, fit.seed) in labelled]
    append_missing(output, Fit._fields, ready, partial(run, data=data, labelled=labelled), jobs, left())


def main(
    output: Annotated[Path, typer.Argument(help="The record: fits it holds are not run again.")],
    data: Annotated[Path, typer.Option(help="Folder of the data files.")],
    problems: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(PROBLEMS),
    designs: Annotated[str, typer.Option(help="random, active, or both.")] = ",".join(DESIGNS),
    sizes: Annotated[str, typer.Option(help="Numbers of labels.")] = ",".join(map(str, SIZES)),
    models: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(MODELS),
    seeds: Seeds = 3,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    minutes: Annotated[float, typer.Option(help="Begin no fit after so many.")] = 1e6,
    gp_largest: Annotated[
        int, typer.Option(help="Most active labels that scikit-learn's processes are fitted to.")
    ] = LARGEST_OF_PROCESSES,
) -> None:
    """Run the fits that the record lacks, seed by seed, and print its tables."""
    end = time.monotonic() + 60.0 * minutes
    with plain_errors():
        numbers = [int(n) for n in chosen(sizes, [*map(str, SIZES)], "sizes")]
        kinds, methods = chosen(designs, DESIGNS, "designs"), chosen(models, [*MODELS], "models")
        pools = {name: len(case_of(name, 0, data).y) for name in chosen(problems, PROBLEMS, "problems")}
    wanted = fits(pools, kinds, numbers, methods, gp_largest)
    for seed in range(first_seed, first_seed + seeds):
        run_seed([fit._replace(seed=seed) for fit in wanted], output, data, jobs, end)
    print_tables(read_record(output))


if __name__ == "__main__":
    typer.run(main)
