"""Waves to learn and a quick model, for the tests of the estimator."""

from typing import Any

import numpy as np
import pytest

from lobal import MixtureRegressor
from lobal.mixture.engines import ENGINES

every_engine = pytest.mark.parametrize("engine", ["analytic", "adam"])
PATCH_NOISE = 0.05  # standard deviation
# One candidate a decision for the constants of `mixture.adam.tuning`.
FEW_CANDIDATES: dict[str, tuple[float, ...]] = {
    "LEARNING_RATES": (0.1,),
    **dict.fromkeys(("HYPERPARAMETER_RATES", "BATCHES", "GATE_RATES", "PENALTIES", "GATE_NOISES", "SPARSITIES"), ()),
    "GATE_SCALES": (),
}

QUICK_ENGINE: dict[str, dict[str, Any]] = {"adam": {"max_epochs": 15, "patience": 3}, "analytic": {}}


def quick(engine: str = "analytic", **changes: Any) -> MixtureRegressor:
    """A small model with a given gate bandwidth, which the analytic engine would otherwise choose.

    `changes` are options of the model or of the engine.
    """
    small = {"n_inducing": 60, "n_gate_inducing": 20, "gate_bandwidth": 0.5, "random_state": 0}
    kind = ENGINES[engine]
    own = {name: value for name, value in changes.items() if name in kind().get_params()}
    rest = {name: value for name, value in changes.items() if name not in own}
    return MixtureRegressor(engine=kind(**{**QUICK_ENGINE[engine], **own}), **{**small, **rest})


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(9 * X[:, 0])


def wave(n: int = 120, seed: int = 0, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, truth(X) + 0.1 * rng.standard_normal(n)


def patch(X: np.ndarray) -> np.ndarray:
    """A smooth function of two columns, and rapid waves in a small region."""
    near = np.exp(-np.square(X - [0.7, 0.3]).sum(axis=1) / (2.0 * 0.08**2))
    return np.asarray(np.sin(3.0 * X[:, 0]) + X[:, 1] + 1.5 * np.sin(60.0 * X[:, 0]) * near)


def waves_in_a_patch(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of `patch` with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, patch(X) + PATCH_NOISE * rng.standard_normal(n)


def rmse(values: np.ndarray, others: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - others) ** 2)))
