"""Test errors of the default model on data files, compared with a stock SVGP and scikit-learn's Gaussian process.

python -m benchmarks.regression A.npz B.npz --n 4000 --seeds 3 --output docs/results/regression

Each file has inputs `X` and labels `y`. n of its rows are drawn for training, at most 5000 of the others for the test.
The SVGP has as many inducing points and all training rows, of which a tenth steers its training; it starts from lobal's
global expert and trains until its learning rate is spent or for `--max-epochs`. The exact process is fitted to a subset
of the training rows. Errors are in units of the standard deviation of the test labels.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
import typer
from numpy import ndarray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.gpytorch_svgp import fit_gpytorch_svgp
from experiments.data_files import load_npz
from experiments.repetitions import Repetitions, Result, print_summary
from lobal.mixture.estimator import MixtureRegressor

MOST_TESTED = 5000
STEERING_SHARE = 10  # one of ten training rows steers the SVGP

Predict: TypeAlias = Callable[[ndarray], Any]


def mixture(X: ndarray, y: ndarray, seed: int, options: Mapping[str, Any]) -> Predict:
    """The default model."""
    return MixtureRegressor(n_inducing=options["m"], random_state=seed, device=options["device"]).fit(X, y).predict


def svgp(X: ndarray, y: ndarray, seed: int, options: Mapping[str, Any]) -> Predict:
    """A stock GPyTorch SVGP; the rows come in random order."""
    k, chosen = len(y) // STEERING_SHARE, {name: options[name] for name in ("m", "max_epochs", "device")}
    return fit_gpytorch_svgp(X[k:], y[k:], X[:k], y[:k], **chosen, seed=seed).predict


def exact(X: ndarray, y: ndarray, seed: int, options: Mapping[str, Any]) -> Predict:
    """scikit-learn's Gaussian process on a subset, one width per column."""
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.ones(X.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-8, 1e1))
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    rows = slice(options["subset"])
    predict: Predict = make_pipeline(StandardScaler(), process).fit(X[rows], y[rows]).predict
    return predict


METHODS: dict[str, Callable[..., Predict]] = {"mixture": mixture, "svgp": svgp, "exact": exact}


def errors(n: int, seed: int, *, data: str, **options: Any) -> Result:  # noqa: ANN401 - numbers and the device
    """Test errors and seconds of all methods on one draw of the training rows."""
    X, y, _ = load_npz(data)
    rows = np.random.default_rng(seed).permutation(len(y))
    train, test = rows[:n], rows[n : n + MOST_TESTED]
    inputs, labels = np.asarray(X[train], dtype=np.float64), y[train]
    result: Result = {"n": n, "seed": seed}
    for name, method in METHODS.items():
        begun = time.process_time()
        predict = method(inputs, labels, seed, options)
        result[f"{name}_seconds"] = time.process_time() - begun
        missed = y[test] - predict(np.asarray(X[test], dtype=np.float64))
        result[f"{name}_error"] = float(np.sqrt(np.mean(missed**2)) / y[test].std())
    return result


def main(
    data: Annotated[list[Path], typer.Argument(help="npz files with X and y.", exists=True, dir_okay=False)],
    output: Annotated[Path, typer.Option(help="Folder for one JSON file per data set; an interrupted run resumes.")],
    n: Annotated[int, typer.Option(min=20, help="Training rows, or nine tenths of a smaller data set.")] = 4000,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of the training rows.")] = 3,
    m: Annotated[int, typer.Option(min=1, help="Inducing points.")] = 512,
    subset: Annotated[int, typer.Option(min=10, help="Training rows of the exact process.")] = 2000,
    max_epochs: Annotated[int, typer.Option(min=1, help="Of the SVGP.")] = 150,
    threads: Annotated[int, typer.Option(min=1, help="Of torch.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda, for the mixture and the SVGP.")] = "cpu",
) -> None:
    """Compare test errors on several data sets."""
    torch.set_num_threads(threads)
    options: dict[str, Any] = {"m": m, "subset": subset, "max_epochs": max_epochs, "device": device}
    for path in data:
        rows = min(n, 9 * len(load_npz(path).y) // 10)
        repetitions = Repetitions(
            experiment=f"{path.stem}: test errors of mixture, SVGP and exact process",
            settings={"data": path.stem, **options},
            run=partial(errors, data=str(path), **options),
        )
        pairs = [(rows, seed) for seed in range(seeds)]
        print_summary(repetitions.complete(pairs, output / f"{path.stem}.json"), rows)


if __name__ == "__main__":
    typer.run(main)
