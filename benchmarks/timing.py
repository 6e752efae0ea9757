"""Seconds and errors of one fit of the Doppler function, by lobal's engines and by stock GPyTorch."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy import ndarray
from sklearn.metrics import root_mean_squared_error

from benchmarks.measuring import measured
from benchmarks.stages import adam_epoch_seconds
from experiments.doppler import N_VALIDATION, PAPER, Sample, doppler_data, paper_model
from lobal.cli.demo import DOPPLER, N_TEST
from lobal.mixture.estimator import MixtureRegressor

ANALYTIC, ADAM, SVGP = "analytic", "adam", "svgp"
NAMES = {ANALYTIC: "lobal, analytic", ADAM: "lobal, Adam", SVGP: "GPyTorch SVGP"}
WITHOUT_GPYTORCH = "GPyTorch is not installed, so its rows are left out: pip install 'lobal[bench]'"


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """What is fitted, and how."""

    sample: Sample
    validation: Sample
    m: int  # inducing points of the experts
    device: torch.device
    seed: int
    max_epochs: int  # of the GPyTorch model

    @classmethod
    def of_size(cls, n: int, *, m: int, device: torch.device, seed: int, max_epochs: int) -> "Task":
        """The Doppler function with n labels, and as many for validation as in the experiment."""
        sample, validation = doppler_data(n, seed), doppler_data(N_VALIDATION, seed, stream=1)
        return cls(sample=sample, validation=validation, m=m, device=device, seed=seed, max_epochs=max_epochs)


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """One fit by one method. Epochs of the analytic engine are rounds, which have no seconds of their own."""

    n: int
    method: str
    seconds: float  # wall time, one run
    rmse: float  # against the function without noise
    validation_rmse: float  # against the validation labels, whose noise has variance one
    peak_mib: float
    epochs: int
    seconds_per_epoch: float | None = None
    is_finished: bool = True  # or cut off by max_epochs


def fit_row(method: str, task: Task) -> Row:
    """The method's fit, timed."""
    return FITS[method](task)


def available(methods: Sequence[str]) -> list[str]:
    """Those of the methods that can run here.

    Raises:
        ValueError: a name is unknown.
    """
    unknown = [method for method in methods if method not in NAMES]
    if unknown or not methods:
        raise ValueError(f"engines must be some of {', '.join(NAMES)}, got {', '.join(unknown) or 'none'}")
    has_gpytorch = importlib.util.find_spec("gpytorch") is not None
    return [method for method in methods if has_gpytorch or method != SVGP]


def growth(rows: Sequence[Row], method: str) -> float | None:
    """The power of n with which the method's seconds grow, by least squares over all sizes; none for a single one."""
    points = [(row.n, row.seconds) for row in rows if row.method == method and row.is_finished]
    if len({n for n, _ in points}) < 2:
        return None
    n, seconds = np.log(np.array(points)).T
    return float(np.polyfit(n, seconds, 1)[0])


def _analytic(task: Task) -> Row:
    model = MixtureRegressor(
        engine="analytic",
        n_inducing=task.m,
        bandwidths=PAPER.bandwidths,
        shared_bandwidth=PAPER.shared_bandwidth,
        intrinsic_dimension=PAPER.intrinsic_dimension,
        device=str(task.device),
        random_state=task.seed,
    )
    _, (seconds, peak) = measured(lambda: model.fit(*task.sample), task.device)
    return _row(ANALYTIC, task, model.predict, seconds, peak, len(model.history_))


def _adam(task: Task) -> Row:
    model = paper_model(task.seed, n_inducing=task.m, device=str(task.device))
    _, (seconds, peak) = measured(lambda: model.fit(*task.sample, validation=task.validation), task.device)
    epoch = adam_epoch_seconds(task.sample, task.validation, task.m, task.device, seed=task.seed)
    epochs = len(model.history_)
    more = {"seconds_per_epoch": epoch, "is_finished": epochs < model.get_params()["engine__max_epochs"]}
    return _row(ADAM, task, model.predict, seconds, peak, epochs, **more)


def _svgp(task: Task) -> Row:
    from benchmarks.gpytorch_svgp import fit_gpytorch_svgp

    options: dict[str, Any] = {
        "m": task.m,
        "max_epochs": task.max_epochs,
        "device": str(task.device),
        "seed": task.seed,
    }
    fitted, (_, peak) = measured(lambda: fit_gpytorch_svgp(*task.sample, *task.validation, **options), task.device)
    more = {"seconds_per_epoch": fitted.seconds_per_epoch, "is_finished": fitted.is_finished}
    return _row(SVGP, task, fitted.predict, fitted.seconds, peak, len(fitted.times), **more)


def _row(
    method: str,
    task: Task,
    predict: Callable[[ndarray], Any],
    seconds: float,
    peak_mib: float,
    epochs: int,
    **more: Any,  # noqa: ANN401 - further fields
) -> Row:
    x = (np.arange(N_TEST) + 0.5) / N_TEST
    return Row(
        n=len(task.sample.y),
        method=method,
        seconds=seconds,
        rmse=root_mean_squared_error(predict(x[:, None]), DOPPLER(x)),
        validation_rmse=root_mean_squared_error(predict(task.validation.X), task.validation.y),
        peak_mib=peak_mib,
        epochs=epochs,
        **more,
    )


FITS: dict[str, Callable[[Task], Row]] = {ANALYTIC: _analytic, ADAM: _adam, SVGP: _svgp}
