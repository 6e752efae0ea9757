"""The demonstration: active learning beside random sampling on the Doppler function, in a few minutes."""

import math
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments.doppler import DOPPLER
from experiments.doppler_active import CampaignErrors, campaign
from lobal.active.learner import ActiveLearner
from lobal.report import figures
from lobal.report.campaign_figures import Curve, learning_curve_figure
from lobal.report.html import campaign_report
from lobal.report.savings import Savings, relative_sample_sizes

N_INDUCING = 512  # in both arms


class Comparison(NamedTuple):
    """Both arms' errors, seed by seed, and one active campaign to look at."""

    sizes: Sequence[int]
    active: list[CampaignErrors]
    random: list[CampaignErrors]
    learner: ActiveLearner

    def savings(self) -> Savings:
        """Relative sample sizes at all sizes after the common start."""
        arms = (np.array([list(errors.rmse.values())[1:] for errors in arm]) for arm in (self.active, self.random))
        return relative_sample_sizes(*arms, smoothness=math.inf, dimension=1.0)


def demonstrate(n: int, seeds: int, output: Path, *, quiet: bool = False) -> None:
    """Run both arms, print their errors and what was saved, and leave figures and a page in the folder."""
    console = Console()
    output.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet) as progress:
        steps = 4 * seeds
        tasks = {arm: progress.add_task(f"{arm} sampling", total=steps) for arm in ("active", "random")}
        compared = compare(n, seeds, lambda arm, done: progress.advance(tasks[arm], done))
    savings = compared.savings()
    console.print(comparison_table(compared, savings))
    console.print(savings.verdict())
    for path in _save(compared, savings, output):
        console.print(f"  {path}")


def compare(n: int, seeds: int, advance: Callable[[str, int], None]) -> Comparison:
    """Both arms at n/8, n/4, n/2 and n labels; random sampling runs in a process of its own."""
    sizes = [n // 8, n // 4, n // 2, n]
    torch.set_num_threads(1)  # one core for each arm
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        futures = [pool.submit(_errors, "random", seed, sizes) for seed in range(seeds)]
        for future in futures:
            future.add_done_callback(lambda done: advance("random", len(sizes) if _succeeded(done) else 0))
        active = [
            campaign("active", seed, sizes=sizes, n_inducing=N_INDUCING, callbacks=[lambda _: advance("active", 1)])
            for seed in range(seeds)
        ]
        random = [future.result() for future in futures]
    return Comparison(sizes, [errors for _, errors in active], random, active[0][0])


def _errors(arm: str, seed: int, sizes: Sequence[int]) -> CampaignErrors:
    return campaign(arm, seed, sizes=sizes, n_inducing=N_INDUCING)[1]


def _succeeded(future: "Future[CampaignErrors]") -> bool:
    return not future.cancelled() and future.exception() is None


def comparison_table(compared: Comparison, savings: Savings) -> Table:
    """Errors of both arms and the relative sample size, for the terminal."""
    table = Table("n", title="Doppler function: active against random sampling", title_justify="left")
    for column in ("RMSE active", "RMSE random", "maxAE active", "maxAE random", "rho"):
        table.add_column(column, justify="right")
    for row, size in enumerate(compared.sizes):
        cells = [
            f"{np.mean([getattr(errors, field)[size] for errors in arm]):.3f}"
            for field in ("rmse", "max_error")
            for arm in (compared.active, compared.random)
        ]
        table.add_row(str(size), *cells, "" if row == 0 else _rho(savings, row - 1))
    return table


def _rho(savings: Savings, row: int) -> str:
    error = "" if savings.standard_error is None else f" ± {savings.standard_error[row]:.2f}"
    return f"{savings.rho[row]:.2f}{error}"


def _save(compared: Comparison, savings: Savings, folder: Path) -> list[Path]:
    learner = compared.learner
    assert learner.model is not None  # the campaign has come to its end
    curves = {
        name: Curve(compared.sizes, np.array([list(errors.rmse.values()) for errors in arm]))
        for name, arm in {"active": compared.active, "random": compared.random}.items()
    }
    paths = [folder / name for name in ("learning_curves.png", "overview.png", "report.html")]
    figures.save_figure(learning_curve_figure(curves), paths[0])
    figures.save_figure(
        figures.overview_figure(learner.model, learner.labelled.X, learner.labelled.y, DOPPLER), paths[1]
    )
    campaign_report(learner, paths[2], title="Active learning of the Doppler function", names=["x"], savings=savings)
    return paths
