"""The body of `lobal demo`: active learning, evenly spread and random labels on the Doppler function.

`experiments.doppler_active` runs the same campaigns with more options and keeps their numbers.
"""

import math
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.metrics import max_error, root_mean_squared_error

from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.core.doppler import Doppler
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import Curve, learning_curve_figure
from lobal.report.figures import overview_figure, save_figure
from lobal.report.html import campaign_report
from lobal.report.savings import Savings, relative_sample_sizes

DOPPLER = Doppler()
N_TEST = 10_000  # midpoints of equal cells, at which predictions are compared with the noise-free function
N_INDUCING = 512  # in all arms
# Options of the learner: its defaults, labels spread as if the function were equally complex everywhere, random labels.
LEARNERS: dict[str, dict[str, Any]] = {
    "active": {},
    "spread": {"complexity": "constant"},
    "random": {"draw": "random", "exploration": 1.0},
}


OTHERS = ("spread", "random")


class Errors(NamedTuple):
    """Root mean squared and maximum absolute error."""

    rmse: float
    max_error: float


class DopplerOracle:
    """Noisy labels; the noise depends on the seed and on the number of labels returned before."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))

    def __call__(self, X: Float[ndarray, "m 1"]) -> Float[ndarray, " m"]:
        """Labels of the inputs."""
        return DOPPLER.labels(X[:, 0], self._rng)


class Comparison(NamedTuple):
    """Errors of all arms, the two of `Errors` per seed and size, and the first active learner."""

    sizes: Sequence[int]
    arms: dict[str, Float[ndarray, "seeds sizes 2"]]
    learner: ActiveLearner

    def savings(self, arm: str, against: str) -> Savings:
        """Relative sample sizes at all sizes after the first."""
        rmse = (self.arms[each][:, 1:, 0] for each in (arm, against))
        return relative_sample_sizes(*rmse, smoothness=math.inf, dimension=1.0)


def errors_on_grid(model: Any) -> Errors:  # noqa: ANN401 - a fitted regression model
    """Errors against the noise-free function at (i + 1/2) / 10000."""
    x = (np.arange(N_TEST) + 0.5) / N_TEST
    prediction, truth = model.predict(x[:, None]), DOPPLER(x)
    return Errors(root_mean_squared_error(prediction, truth), max_error(prediction, truth))


def demonstrate(n: int, seeds: int, output: Path, *, quiet: bool = False) -> None:
    """Run all arms, print their errors and the savings, and write figures and a report to the folder."""
    console = Console()
    output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet) as progress:
        tasks = {arm: progress.add_task(f"{arm} sampling", total=4 * seeds) for arm in LEARNERS}
        comparison = compare(n, seeds, lambda arm, steps: progress.advance(tasks[arm], steps))
    console.print(comparison_table(comparison))
    console.print(f"Spread evenly instead of at random: {comparison.savings('spread', 'random').verdict()}.")
    console.print(f"Spread by local complexity instead of evenly: {comparison.savings('active', 'spread').verdict()}.")
    console.print(f"Both together: {comparison.savings('active', 'random').verdict()}.")
    for path in _save(comparison, output):
        console.print(f"  {path}")


def compare(n: int, seeds: int, advance: Callable[[str, int], None]) -> Comparison:
    """All arms at n/8, n/4, n/2 and n labels, in two processes: the active arm here, others where there is time."""
    sizes = [n // 8, n // 4, n // 2, n]
    torch.set_num_threads(1)  # one core for each process
    context = multiprocessing.get_context("spawn")
    waiting = deque((arm, seed) for arm in OTHERS for seed in range(seeds))
    found: dict[tuple[str, int], list[Errors]] = {}

    def work(take: Callable[[], tuple[str, int]], errors: Callable[[str, int, Sequence[int]], list[Errors]]) -> None:
        while True:
            try:
                arm, seed = take()
            except IndexError:  # nothing is left
                return
            with emptied(waiting):
                found[arm, seed] = errors(arm, seed, sizes)
            advance(arm, len(sizes))

    with (
        ProcessPoolExecutor(1, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ThreadPoolExecutor(1) as thread,
    ):
        other = thread.submit(work, waiting.popleft, lambda *task: pool.submit(_errors, *task).result())
        with emptied(waiting):
            active = [_campaign("active", seed, sizes, lambda: advance("active", 1)) for seed in range(seeds)]
        work(waiting.pop, _errors)
        other.result()
    arms = {arm: [found[arm, seed] for seed in range(seeds)] for arm in OTHERS}
    arms["active"] = [errors for _, errors in active]
    return Comparison(sizes, {arm: np.array(arms[arm]) for arm in LEARNERS}, active[0][0])


@contextmanager
def emptied(waiting: deque[Any]) -> Iterator[None]:
    """After an error nothing more is begun, neither here nor in the other thread."""
    try:
        yield
    except BaseException:
        waiting.clear()
        raise


def comparison_table(comparison: Comparison) -> Table:
    """Errors of all arms and relative sample sizes against random labels, for the terminal."""
    table = Table("n", title="Doppler function: active, spread and random labels", title_justify="left")
    columns = [*(f"RMSE {arm}" for arm in LEARNERS), *(f"maxAE {arm}" for arm in LEARNERS), "rho spread", "rho active"]
    for column in columns:
        table.add_column(column, justify="right")
    means = [arm.mean(axis=0) for arm in comparison.arms.values()]  # (sizes, 2)
    savings = [comparison.savings(arm, "random") for arm in ("spread", "active")]
    for row, size in enumerate(comparison.sizes):
        cells = [f"{mean[row, measure]:.3f}" for measure in (0, 1) for mean in means]
        table.add_row(str(size), *cells, *("" if row == 0 else each.rho_at(row - 1) for each in savings))
    return table


def _campaign(
    arm: str, seed: int, sizes: Sequence[int], advance: Callable[[], None] = lambda: None
) -> tuple[ActiveLearner, list[Errors]]:
    errors: list[Errors] = []

    def measure(learner: ActiveLearner) -> None:
        assert learner.model is not None  # sizes exceed the smallest training set
        errors.append(errors_on_grid(learner.model))
        advance()

    model = MixtureRegressor(n_inducing=N_INDUCING)
    learner = ActiveLearner(Box(0.0, 1.0), seed=seed, model=model, **LEARNERS[arm])
    learner.run(DopplerOracle(seed), sizes=sizes, callbacks=[measure])
    return learner, errors


def _errors(arm: str, seed: int, sizes: Sequence[int]) -> list[Errors]:
    return _campaign(arm, seed, sizes)[1]


def _save(comparison: Comparison, folder: Path) -> list[Path]:
    learner, savings = comparison.learner, comparison.savings("active", "random")
    assert learner.model is not None
    curves = {name: Curve(comparison.sizes, arm[:, :, 0]) for name, arm in comparison.arms.items()}
    paths = [folder / name for name in ("learning_curves.png", "overview.png", "report.html")]
    save_figure(learning_curve_figure(curves), paths[0])
    save_figure(overview_figure(learner.model, learner.labelled.X, learner.labelled.y, DOPPLER), paths[1])
    campaign_report(learner, paths[2], title="Active learning of the Doppler function", names=["x"], savings=savings)
    return paths
