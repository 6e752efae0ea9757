"""Errors of the mixture on real data with inducing points that follow their target density, relative to k-means.

LOBAL_DATA=folder python -m experiments inducing_errors --seeds 6 --output docs/results/inducing_several_columns.json
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import root_mean_squared_error

from experiments.data_files import load_npz
from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.mixture.estimator import MixtureRegressor

DATA_SETS = ("thermal_cavity_064", "volcano", "uci_powerplant", "uci_kin40k", "diamonds", "uci_protein")
LOGARITHMIC = ("diamonds",)  # the logarithm of the label is learned
N_TEST = 4000


def run(n: int, seed: int, *, data: str, names: tuple[str, ...]) -> Result:
    """RMSE of both choices, in names such as "auto_volcano", and their ratio, "ratio_volcano"."""
    result: Result = {"n": n, "seed": seed}
    for name in names:
        X, y, _ = load_npz(Path(data) / f"{name}.npz")
        y = np.log(y) if name in LOGARITHMIC else y
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:n], order[n : n + N_TEST]
        for method in ("kmeans", "auto"):
            options: dict[str, Any] = {"experts": "sparse", "inducing": method, "random_state": seed}
            model = MixtureRegressor(**options).fit(X[train], y[train])
            result[f"{method}_{name}"] = root_mean_squared_error(y[test], model.predict(X[test]))
        result[f"ratio_{name}"] = result[f"auto_{name}"] / result[f"kmeans_{name}"]
    result["ratio"] = float(np.mean([result[f"ratio_{name}"] for name in names]))
    return result


def main(
    output: Output,
    data: Annotated[Path, typer.Option(envvar="LOBAL_DATA", help="Folder of the data sets.", exists=True)],
    n: Annotated[int, typer.Option(min=64, help="Number of labels.")] = 4000,
    seeds: Seeds = 3,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    names: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = ",".join(DATA_SETS),
) -> None:
    """Fit mixtures with inducing points by k-means and by the default method, and compare their errors."""
    chosen = tuple(names.split(","))
    repetitions = Repetitions(
        experiment="test RMSE with the default inducing points divided by that with k-means",
        settings={"names": chosen, "n_test": N_TEST},
        run=partial(run, data=str(data), names=chosen),
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n, "ratio")
