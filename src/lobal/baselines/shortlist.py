"""What all designs of this room share: the candidates to choose from, seeds, packages that are missing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.draws import DrawTask, draw_random
from lobal.core.arrays import rows_at
from lobal.core.units import Units

# Candidates that a design looks at: scikit-activeml, whose time grows with their square, takes seconds for so many.
LARGEST = 2**11
# At least so many for every point that is wanted: a design that has to take all has nothing to choose.
SPARE = 2


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Shortlist:
    """What is chosen from, as arrays; inputs are those of the space."""

    X: Float[ndarray, "k d"]  # candidates
    labelled: Float[ndarray, "n d"]
    y: Float[ndarray, " n"]
    unlabelled: Float[ndarray, "m d"]  # points drawn before that have no label: pending or failed
    b: int
    seed: int

    @property
    def known(self) -> Float[ndarray, "_ d"]:
        """All points drawn before; those labelled come first."""
        return np.concatenate([self.labelled, self.unlabelled])

    def standardised(self) -> "Shortlist":
        """The same with inputs and labels of mean zero and variance one; what is constant becomes zero."""
        units = Units.of(np.concatenate([self.X, self.known]))
        X, labelled, unlabelled = (units(points) for points in (self.X, self.labelled, self.unlabelled))
        inputs = np.concatenate([X, labelled, unlabelled])
        centre, scale = inputs.mean(axis=0), _scale(inputs)
        X, labelled, unlabelled = ((points - centre) / scale for points in (X, labelled, unlabelled))
        y = Units.of(self.y[:, None])(self.y[:, None])[:, 0]
        y = (y - y.mean()) / _scale(y)
        return replace(self, X=X, labelled=labelled, unlabelled=unlabelled, y=y)


def _scale(values: Float[ndarray, "n *columns"]) -> Float[ndarray, "*columns"]:
    """Standard deviations, one where they are zero up to rounding."""
    spread = values.std(axis=0)
    return np.where(spread > 1e-12 * np.abs(values).max(axis=0), spread, 1.0)


Choice: TypeAlias = Callable[[Shortlist], Int[ndarray, " b"]]  # rows of the shortlist's X, all different


def chosen(task: DrawTask, choice: Choice, *, most: int) -> Int[Tensor, " b"]:
    """The candidates that are chosen among those of positive weight that were not drawn before.

    Before there is a model they are drawn at random by the weights. A choice among more than `most` is restricted to so
    many that are drawn from the test density, which is neutral: the weights are lobal's own.

    Raises:
        ValueError: labels are not single numbers.
    """
    weights = task.weights.clone()
    weights[task.drawn[0]] = 0.0
    left = torch.nonzero(weights > 0)[:, 0]
    if len(left) < task.b:  # cells of a box have room for more points
        repeated = task.candidates.is_box and int((task.weights > 0).sum()) < task.b
        return draw_random(task.weights, task.candidates.X, task.b, generator=task.generator, repeated=repeated)
    if task.fitted is None or not len(task.labelled.y):
        return draw_random(weights, task.candidates.X, task.b, generator=task.generator)
    if task.labelled.y.ndim != 1:
        raise ValueError(
            f"this draw needs labels that are single numbers, got labels of shape {task.labelled.y.shape[1:]}; use "
            "draw='random' or 'low_dispersion'"
        )
    if len(left) == task.b:
        return left
    most = max(most, SPARE * task.b)
    if len(left) > most:
        share = torch.where(weights > 0.0, task.candidates.test_density / task.candidates.pool_density, 0.0)
        left = draw_random(share, task.candidates.X, most, generator=task.generator).sort().values
    shortlist = _shortlist(task, left)
    with _seeded(shortlist.seed):
        rows = choice(shortlist)
    return left[torch.from_numpy(np.asarray(rows, dtype=np.int64))]


def _shortlist(task: DrawTask, left: Int[Tensor, " k"]) -> Shortlist:
    have_labels = set(map(tuple, task.labelled.X.tolist()))
    drawn = task.drawn[1]
    missing = np.array([tuple(x) not in have_labels for x in drawn.tolist()], dtype=bool)
    return Shortlist(
        X=rows_at(task.candidates.X, left.numpy()),
        labelled=np.asarray(task.labelled.X, dtype=np.float64),
        y=task.labelled.y,
        unlabelled=drawn[missing],
        b=task.b,
        seed=int(torch.randint(2**31, (1,), generator=task.generator)),
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The global generators of NumPy and torch with that seed, and afterwards as they were: packages use them."""
    before = np.random.get_state()  # noqa: NPY002 - the generator that packages use
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


def required(module: str, package: str) -> ModuleType:
    """The module of an optional package.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"this draw needs the package {package}, got: {error}; run pip install 'lobal[baselines]'", name=error.name
        ) from error
