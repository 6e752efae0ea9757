"""The protocol of bmdal-reg (Holzmueller et al., 2023): 256 random labels, then 16 batches of 256 from a large pool.

Its own network, with its own defaults, judges the labels; the error is the mean over all 17 sizes of the logarithm of
the RMSE, in units of the labels' standard deviation. The mixture judges them too.

python -m experiments peers_protocol docs/results/peers_protocol.jsonl --data $LOBAL_DATA --jobs 9 --device cuda
"""

import io
import time
import warnings
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from experiments.peers.campaigns import RANDOM, Task, complete, mixture, stages
from experiments.peers.problems import real
from experiments.repetitions import Jobs, Seeds, mean_and_error
from lobal.baselines.lcmd import bmdal_module

NAME, BATCH, STEPS = "protocol", 256, 16
SIZES = tuple(BATCH * (step + 1) for step in range(STEPS + 1))
PROBLEMS = ("uci_kin40k", "uci_protein", "diamonds")
LARGEST_POOL = 50_000


def network(
    X: Float[ndarray, "n d"], y: Float[ndarray, " n"], X_test: Float[ndarray, "m d"], seed: int, *, device: str = "cpu"
) -> ndarray:
    """bmdal-reg's network with its own defaults."""
    regressor = bmdal_module("nn_interface").NNRegressor(device=device, seed=seed)
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():  # it prints a dot for every epoch
        warnings.filterwarnings("ignore", message="Full backward hook is firing")  # for the first layer, rightly
        regressor.fit(X.astype(np.float32), y.astype(np.float32))
        return np.asarray(regressor.predict(X_test.astype(np.float32))).reshape(-1)


JUDGES = ("network", "mixture")


def run(task: Task, *, data: Path, sizes: tuple[int, ...] = SIZES, device: str = "cpu") -> dict[str, Any]:
    """The campaign's errors at every size, in units of the standard deviation of the test labels."""
    torch.set_num_threads(1)
    case = real(data / f"{task.problem}.npz", task.seed, largest_pool=LARGEST_POOL)
    begun, unit = time.process_time(), case.truth.std()
    rmse: dict[str, list[float]] = {judge: [] for judge in JUDGES}
    for rows, *_ in stages(task, case, sizes):
        given = case.X[rows], case.y[rows], case.X_test, task.seed
        for judge, predicted in zip(JUDGES, (network(*given, device=device), mixture(*given)), strict=True):
            rmse[judge].append(float(np.sqrt(np.mean(np.square(predicted - case.truth))) / unit))
    return {**task._asdict(), "n": list(sizes), "seconds": round(time.process_time() - begun, 1), "rmse": rmse}


def mean_log_rmse(record: dict[Task, dict[str, Any]], problem: str, strategy: str, judge: str) -> str:
    """With its standard error over seeds; empty if there is none."""
    found = [run["rmse"][judge] for task, run in record.items() if task[:2] == (problem, strategy)]
    if not found:
        return ""
    number = mean_and_error([float(np.mean(np.log(errors))) for errors in found])
    return f"{number['mean']:.3f}" + ("" if number["standard_error"] is None else f" ± {number['standard_error']:.3f}")


def main(
    output: Annotated[Path, typer.Argument(help="The record: campaigns it holds are not run again.")],
    data: Annotated[Path, typer.Option(help="Folder of the data files.")],
    strategies: Annotated[str, typer.Option(help="Names, separated by semicolons.")] = f"{RANDOM};lobal;lcmd",
    seeds: Seeds = 3,
    jobs: Jobs = 1,
    minutes: Annotated[float, typer.Option(help="Begin no campaign after so many.")] = 1e6,
    device: Annotated[str, typer.Option(help="cpu or cuda, for the network.")] = "cpu",
) -> None:
    """Run the campaigns that the record lacks, and print mean log RMSEs."""
    names = strategies.split(";")
    wanted = [Task(problem, name, NAME, seed) for seed in range(seeds) for problem in PROBLEMS for name in names]
    whole = complete(output, wanted, partial(run, data=data, device=device), jobs, minutes)
    for judge in JUDGES:
        shown = Table("strategy", *PROBLEMS, title=f"Mean log RMSE, judged by the {judge}", title_justify="left")
        for name in names:
            shown.add_row(name, *(mean_log_rmse(whole, problem, name, judge) for problem in PROBLEMS))
        Console().print(shown)
