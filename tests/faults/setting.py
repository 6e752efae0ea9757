"""A campaign that takes milliseconds: a small pool and a model that is fitted at once."""

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy import ndarray

from lobal import ActiveLearner, Pool
from lobal.active.campaign.lock import _held
from lobal.active.campaign.steps import SURROGATES
from lobal.active.candidates import Candidates, Metric
from lobal.active.surrogate import FitTask, FittedSurrogate, NoiseFunction, Surrogate
from lobal.core.files import load_record, save_record
from lobal.core.kernels import squared_distances

X = np.random.default_rng(0).random((60, 1))
SIZES = [6, 12, 16, 20]
SURROGATES["nearest"] = "tests.faults.setting:NearestSurrogate"


@final
class FittedNearest(FittedSurrogate):
    """Predicts the label of the nearest point, and takes bandwidths to be small where labels are large."""

    def __init__(self, X: ndarray, y: ndarray) -> None:
        self.model = self
        self.X, self.y = X, y
        self.validation_error, self.noise = float(y.std()), 1.0

    def predict(self, X: ndarray) -> ndarray:
        return self.y[np.abs(X[:, :1] - self.X[:, 0]).argmin(1)]

    def local_bandwidth(self, X: ndarray) -> ndarray:
        return 0.1 + np.exp(-np.abs(self.predict(X)) - self.y.mean())

    def metric(self, candidates: Candidates) -> Metric:  # noqa: ARG002
        return Metric(lambda X: torch.as_tensor(X, dtype=torch.float64), squared_distances)

    def relative_error(self, labels: ndarray) -> float:  # noqa: ARG002
        return 0.5

    def noise_variance(self, X: ndarray) -> ndarray:
        return np.ones(len(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        save_record(path, {"X": torch.tensor(self.X), "y": torch.tensor(self.y)}, {})


@final
class NearestSurrogate(Surrogate):
    kind: ClassVar[str] = "nearest"

    def fit(self, task: FitTask) -> FittedNearest:
        return FittedNearest(task.X, task.y)

    def load(self, path: str | os.PathLike[str]) -> FittedNearest:
        tensors, _ = load_record(path)
        return FittedNearest(tensors["X"].numpy(), tensors["y"].numpy())

    def use_device(self, device: str) -> None:
        pass

    def to_settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "NearestSurrogate":
        del settings, noise
        return cls()


def begun(path: Path | None = None, **options: Any) -> ActiveLearner:
    space = Pool(X, density=np.ones(len(X)))
    given = {"model": NearestSurrogate(), "intrinsic_dimension": 1.0, "draw": "random", **options}
    return ActiveLearner(space, path=path, **given)


def opened(folder: Path) -> ActiveLearner:
    """The campaign in the folder, or a new one."""
    return ActiveLearner.load(folder) if (folder / "header.json").exists() else begun(folder)


def label(X: ndarray) -> ndarray:
    """Some labels are missing."""
    return np.where(np.sin(40 * X[:, 0]) > 0.7, np.nan, 3.0 * np.sin(9 * X[:, 0]))


def go_on(folder: Path, bought: list[float], label: Callable[[ndarray], ndarray] = label) -> None:
    """What a campaign's process does, from the start or from where the last one died."""

    def buy(X: ndarray) -> ndarray:
        bought.append(float(X[0, 0]))
        return label(X)

    with opened(folder) as learner:
        learner.run(buy, sizes=SIZES)


def state_of(learner: ActiveLearner) -> list[Any]:
    """Everything that later points depend on."""
    labels = [learner.labelled.X.tolist(), learner.labelled.y.tolist(), learner.labelled.candidate.tolist()]
    points = [learner.pending.tolist(), learner.failed.tolist()]
    return [*labels, *points, learner.history, learner.training_density().tolist()]


def answered(learner: ActiveLearner) -> set[float]:
    """Inputs of the points that have a label, or failed."""
    return {*learner.labelled.X[:, 0].tolist(), *X[learner.failed, 0].tolist()}


def let_go() -> None:
    """Release the locks of a process that was killed, as far as the test goes: the system does it at its end."""
    for lock in list(_held):
        if lock.is_held:
            fcntl.flock(lock._file, fcntl.LOCK_UN)
            lock.forget()
