"""The body of `lobal demo`: active learning compared with random sampling on the Doppler function.

`experiments.doppler_active` runs the same campaigns with more options and keeps their numbers.
"""

import math
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
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
N_INDUCING = 512  # in both arms
# The test density's share in the learner's target density: its default, or all of it, which is random sampling.
EXPLORATION = {"active": 0.1, "random": 1.0}


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
    """Errors of both arms, the two of `Errors` per seed and size, and the first active learner."""

    sizes: Sequence[int]
    arms: dict[str, Float[ndarray, "seeds sizes 2"]]
    learner: ActiveLearner

    def savings(self) -> Savings:
        """Relative sample sizes at all sizes after the common start."""
        rmse = (self.arms[arm][:, 1:, 0] for arm in ("active", "random"))
        return relative_sample_sizes(*rmse, smoothness=math.inf, dimension=1.0)


def errors_on_grid(model: Any) -> Errors:  # noqa: ANN401 - a fitted regression model
    """Errors against the noise-free function at (i + 1/2) / 10000."""
    x = (np.arange(N_TEST) + 0.5) / N_TEST
    prediction, truth = model.predict(x[:, None]), DOPPLER(x)
    return Errors(root_mean_squared_error(prediction, truth), max_error(prediction, truth))


def demonstrate(n: int, seeds: int, output: Path, *, quiet: bool = False) -> None:
    """Run both arms, print their errors and the savings, and write figures and a report to the folder."""
    console = Console()
    output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet) as progress:
        tasks = {arm: progress.add_task(f"{arm} sampling", total=4 * seeds) for arm in EXPLORATION}
        comparison = compare(n, seeds, lambda arm, steps: progress.advance(tasks[arm], steps))
    savings = comparison.savings()
    console.print(comparison_table(comparison, savings))
    console.print(savings.verdict())
    for path in _save(comparison, savings, output):
        console.print(f"  {path}")


def compare(n: int, seeds: int, advance: Callable[[str, int], None]) -> Comparison:
    """Both arms at n/8, n/4, n/2 and n labels; random sampling runs in a second process."""
    sizes = [n // 8, n // 4, n // 2, n]
    torch.set_num_threads(1)  # one core for each arm
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = [pool.submit(_random_errors, seed, sizes) for seed in range(seeds)]
        for future in futures:
            future.add_done_callback(lambda _: advance("random", len(sizes)))
        active = [_campaign("active", seed, sizes, lambda: advance("active", 1)) for seed in range(seeds)]
        arms = {"active": [errors for _, errors in active], "random": [future.result() for future in futures]}
    return Comparison(sizes, {arm: np.array(errors) for arm, errors in arms.items()}, active[0][0])


def comparison_table(comparison: Comparison, savings: Savings) -> Table:
    """Errors of both arms and the relative sample size, for the terminal."""
    table = Table("n", title="Doppler function: active learning and random sampling", title_justify="left")
    for column in ("RMSE active", "RMSE random", "maxAE active", "maxAE random", "rho"):
        table.add_column(column, justify="right")
    means = [arm.mean(axis=0) for arm in comparison.arms.values()]  # (sizes, 2)
    for row, size in enumerate(comparison.sizes):
        cells = [f"{mean[row, measure]:.3f}" for measure in (0, 1) for mean in means]
        table.add_row(str(size), *cells, "" if row == 0 else savings.rho_at(row - 1))
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
    learner = ActiveLearner(Box(0.0, 1.0), seed=seed, model=model, exploration=EXPLORATION[arm])
    learner.run(DopplerOracle(seed), sizes=sizes, callbacks=[measure])
    return learner, errors


def _random_errors(seed: int, sizes: Sequence[int]) -> list[Errors]:
    return _campaign("random", seed, sizes)[1]


def _save(comparison: Comparison, savings: Savings, folder: Path) -> list[Path]:
    learner = comparison.learner
    assert learner.model is not None
    curves = {name: Curve(comparison.sizes, arm[:, :, 0]) for name, arm in comparison.arms.items()}
    paths = [folder / name for name in ("learning_curves.png", "overview.png", "report.html")]
    save_figure(learning_curve_figure(curves), paths[0])
    save_figure(overview_figure(learner.model, learner.labelled.X, learner.labelled.y, DOPPLER), paths[1])
    campaign_report(learner, paths[2], title="Active learning of the Doppler function", names=["x"], savings=savings)
    return paths
