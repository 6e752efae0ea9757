"""Campaigns of many strategies on many problems, judged by three models: errors at every size, one line each.

python -m experiments peers docs/results/peers.jsonl --data $LOBAL_DATA --half report --strategies random,spread \
    --sizes few --seeds 5 --jobs 16 --minutes 9

Every strategy begins with the same random labels and doubles them. A record is a file with one JSON object a line;
campaigns it already holds are not run again, so that calls of a few minutes add up.
"""

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import torch
import typer
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.ensemble import RandomForestRegressor

from experiments.peers.problems import DECISION, REPORT, SIMULATORS, Problem, problem
from experiments.repetitions import Jobs, Seeds
from lobal.active.expected_savings import ExpectedSavings
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Pool
from lobal.core.dataset import LabelledSet
from lobal.core.density import column_spread
from lobal.core.files import write_atomically
from lobal.core.kernels import gaussian
from lobal.experts.exact import exact_experts
from lobal.experts.global_expert import fit_global_expert
from lobal.mixture.estimator import MixtureRegressor

SIZES = {"few": (30, 60, 120, 240), "many": (128, 256, 512, 1024)}
HALVES = {"decision": DECISION, "report": REPORT}
SETS = {**HALVES, "simulators": SIMULATORS}
# Options of the learner, by the strategy's name; names that are not here are designs of `lobal.active.draws`.
STRATEGIES: dict[str, dict[str, Any]] = {
    "lobal": {},
    "lobal, constant complexity": {"complexity": "constant"},
    "lobal, spread": {"draw": "spread"},
    "lobal, random draws": {"draw": "random"},
}
RANDOM = "random"
START = 2  # random stream of the first labels
LARGEST_SHARE = 0.9  # of a pool that may be labelled: beyond that nothing is left to choose

AnyTask = TypeVar("AnyTask", bound=tuple[Any, ...])  # a named tuple whose fields are written to the record


class Task(NamedTuple):
    """One campaign."""

    problem: str
    strategy: str
    sizes: str
    seed: int


class Stage(NamedTuple):
    """What a campaign has come to."""

    rows: Int[ndarray, " n"]  # that are labelled
    weight: Float[ndarray, " n"]  # of each, q / p, by which lobal's own fits are weighted
    expected: ExpectedSavings | None = None  # of lobal, before it asks for more


def stages(task: Task, case: Problem, sizes: Sequence[int] | None = None) -> Iterator[Stage]:
    """The campaign at every size; by default those that the task names."""
    sizes = [size for size in sizes or SIZES[task.sizes] if size <= LARGEST_SHARE * len(case.y)]
    generator = np.random.default_rng([task.seed, START])
    share = case.importance / case.importance.sum()
    if task.strategy == RANDOM:
        rows = generator.choice(len(share), sizes[-1], replace=False, p=share)
        yield from (Stage(rows[:size], np.ones(size)) for size in sizes)
        return
    is_even = np.ptp(case.importance) == 0.0
    pool = Pool(case.X) if is_even else Pool(case.X, density=1.0 / case.importance, test_density="uniform")
    options = STRATEGIES.get(task.strategy, {"draw": task.strategy})
    learner = ActiveLearner(pool, seed=task.seed, **options)
    rows = generator.choice(len(share), sizes[-1], replace=False, p=share)[: sizes[0]]
    learner.tell(rows, case.y[rows])
    for size in sizes[1:]:
        savings = learner.expected_savings() if task.strategy in STRATEGIES else None
        yield Stage(learner.labelled.candidate, learner.importance_weights(), savings)
        batch = learner.ask(size - len(learner.labelled.y))
        learner.tell(batch, case.y[batch])
    yield Stage(learner.labelled.candidate, learner.importance_weights())


def mixture(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], X_test: Float[ndarray, "m d"], seed: int) -> ndarray:
    """lobal's own model, without weights."""
    return np.asarray(MixtureRegressor(random_state=seed).fit(X, y).predict(X_test))


def single_scale_gp(
    X: Float[ndarray, "n d"], y: Float[ndarray, " n"], X_test: Float[ndarray, "m d"], seed: int
) -> ndarray:
    """One anisotropic Gaussian process of greatest marginal likelihood, Gaussian kernel."""
    points = LabelledSet(X=torch.from_numpy(X), y=torch.from_numpy(y), weight=torch.ones(len(y), dtype=torch.float64))
    expert = fit_global_expert(
        points,
        unit=column_spread(points.X),
        kernel=gaussian,
        anisotropic=True,
        generator=torch.Generator().manual_seed(seed),
    )
    one = torch.ones(1, dtype=torch.float64)
    fitted = exact_experts(
        points.X, points.y, expert.hyperparameters, bandwidths=one, shared_bandwidth=expert.bandwidth, kernel=gaussian
    )
    return fitted.mean(torch.from_numpy(X_test))[0].numpy()


def forest(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], X_test: Float[ndarray, "m d"], seed: int) -> ndarray:
    """scikit-learn's random forest."""
    return np.asarray(RandomForestRegressor(200, random_state=seed).fit(X, y).predict(X_test))


JUDGES = {"mixture": mixture, "gp": single_scale_gp, "forest": forest}


def run(task: Task, *, data: Path) -> dict[str, Any]:
    """The campaign's errors: root mean squared and largest, by judge and size."""
    torch.set_num_threads(1)
    case = problem(task.problem, task.seed, data)
    begun = time.process_time()
    errors: dict[str, dict[str, list[float]]] = {judge: {"rmse": [], "max_error": []} for judge in JUDGES}
    sizes, expected = [], []
    for rows, _, savings in stages(task, case):
        sizes.append(len(rows))
        expected.append(savings)
        for judge, predictions in JUDGES.items():
            residual = predictions(case.X[rows], case.y[rows], case.X_test, task.seed) - case.truth
            errors[judge]["rmse"].append(float(np.sqrt(np.average(np.square(residual), weights=case.weight))))
            errors[judge]["max_error"].append(float(np.abs(residual).max()))
    seconds = round(time.process_time() - begun, 1)
    return {**task._asdict(), "n": sizes, "seconds": seconds, "errors": errors, "expected": expected}


def finished(path: Path) -> dict[Task, dict[str, Any]]:
    """The campaigns that a record holds."""
    return {Task(*task): result for task, result in lines_by_task(path, Task._fields).items()}


def lines_by_task(path: Path, fields: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The lines of a record by the fields that name their task; a last line that was cut off is left out."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    results = [json.loads(line) for line in lines if line.endswith("\n")]
    return {tuple(result[name] for name in fields): result for result in results}


def main(
    output: Annotated[Path, typer.Argument(help="The record: campaigns it holds are not run again.")],
    data: Annotated[Path, typer.Option(help="Folder of the data files.")],
    strategies: Annotated[str, typer.Option(help="Names, separated by semicolons.")] = f"{RANDOM};lobal",
    half: Annotated[
        str, typer.Option(help="decision, report, simulators, or names of problems separated by commas.")
    ] = "report",
    sizes: Annotated[str, typer.Option(help="few, many, or both separated by a comma.")] = "few,many",
    seeds: Seeds = 5,
    jobs: Jobs = 1,
    minutes: Annotated[float, typer.Option(help="Begin no campaign after so many.")] = 1e6,
) -> None:
    """Run the campaigns that the record lacks."""
    problems = SETS.get(half) or tuple(half.split(","))
    wanted = [
        Task(name, strategy, size, seed)
        for seed in range(seeds)
        for size in sizes.split(",")
        for name in problems
        for strategy in strategies.split(";")
    ]
    complete(output, wanted, partial(run, data=data), jobs, minutes)


def complete(
    output: Path, wanted: Sequence[Task], run: Callable[[Task], dict[str, Any]], jobs: int, minutes: float
) -> dict[Task, dict[str, Any]]:
    """The record with the campaigns that it lacks, each written as it comes."""
    append_missing(output, Task._fields, wanted, run, jobs, minutes)
    return finished(output)


def append_missing(
    output: Path,
    fields: Sequence[str],
    wanted: Sequence[AnyTask],
    run: Callable[[AnyTask], dict[str, Any]],
    jobs: int,
    minutes: float,
) -> None:
    """Append to a record the results of tasks that it lacks, each as it comes."""
    done = lines_by_task(output, fields)
    missing = [task for task in wanted if task not in done]
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, "".join(json.dumps(result) + "\n" for result in done.values()).encode())
    with output.open("a") as file:
        for number, result in enumerate(results_as_they_come(run, missing, jobs, minutes), start=1):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"{number} of {len(missing)}: {', '.join(str(result[name]) for name in fields)}", flush=True)


def results_as_they_come(
    run: Callable[[AnyTask], dict[str, Any]], tasks: Sequence[AnyTask], jobs: int, minutes: float
) -> Iterator[dict[str, Any]]:
    """Results as they come; no task is begun after so many minutes."""
    end = time.monotonic() + 60.0 * minutes
    waiting: list[AnyTask] = list(reversed(tasks))
    running: set[Future[dict[str, Any]]] = set()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        while running or (waiting and time.monotonic() < end):
            while waiting and len(running) < jobs and time.monotonic() < end:
                running.add(pool.submit(run, waiting.pop()))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
