"""Tasks for the designs: a small space, some points drawn, most of them labelled, and a model of the labels.

And labelled sets for local polynomials.
"""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone

from lobal import Box, Pool
from lobal.active.campaign.ledger import Observations
from lobal.active.candidates import ArrayCandidates
from lobal.active.draws import DrawTask
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.core.dataset import LabelledSet
from tests.active.setting import ones
from tests.core.setting import seeded
from tests.learner_setting import MODEL, bumpy

PACKAGES = {
    "gsx": "skactiveml",
    "igs": "skactiveml",
    "qbc": "skactiveml",
    "kl": "skactiveml",
    "lcmd": "bmdal_reg",
    "qnipv": "botorch",
    "gp_variance": None,
    "mogpu": None,
}


def with_its_package(name: str) -> str:
    """The name of a design; the test is skipped where its package is not installed."""
    if package := PACKAGES[name]:
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'lobal[baselines]'")
    return name


@cache
def candidates(kind: str) -> ArrayCandidates:
    """120 of a pool in two columns, of a box, or of a pool with repeated rows and a constant column."""
    if kind == "box":
        return Box([0.0, -1.0], [1.0, 1.0], n_candidates=120).candidates(seed=0)
    X = np.random.default_rng(0).random((120, 2))
    if kind == "repeated":
        X = np.repeat(np.c_[X[:40, :1], np.full((40, 1), 3.0)], 3, axis=0)
    return Pool(X, density=np.ones(120)).candidates(seed=0)


def task(kind: str = "pool", *, b: int = 8, seed: int = 0) -> DrawTask:
    """The first 30 candidates are labelled, the next five pending, the last twenty have weight zero."""
    space = candidates(kind)
    return _task(space, bumpy(space.X[:30]), np.arange(30), np.arange(35), _fitted(kind), b=b, seed=seed)


def line(
    x: np.ndarray, y: np.ndarray, labelled: np.ndarray, *, pending: tuple[int, ...] = (), b: int, **options: object
) -> DrawTask:
    """Candidates on a line, the target y at all of them; the model, with these options, is one of the target."""
    space = Pool(x[:, None], density=np.ones(len(x))).candidates(seed=0)
    model = clone(MODEL).set_params(random_state=0, **options)
    fitted = FittedMixtureSurrogate(model.fit(x[:, None], y), {})
    return _task(space, y[labelled], labelled, np.array([*labelled, *pending]), fitted, b=b, seed=0)


def _task(
    space: ArrayCandidates,
    y: np.ndarray,
    labelled: np.ndarray,
    drawn: np.ndarray,
    fitted: FittedMixtureSurrogate,
    *,
    b: int,
    seed: int,
) -> DrawTask:
    X, weights = space.X, ones(len(space))
    weights[100:120] = 0.0
    if not space.is_box:
        weights[drawn] = 0.0
    return DrawTask(
        candidates=space,
        weights=weights,
        superior=ones(len(space)),
        check=0,
        drawn=(drawn.tolist(), X[drawn]),
        labelled=Observations(X[labelled], y, labelled),
        fitted=fitted,
        trust=1.0,
        dimension=float(X.shape[1]),
        b=b,
        generator=seeded(seed),
    )


@cache
def _fitted(kind: str) -> FittedMixtureSurrogate:
    X = candidates(kind).X[:30]
    return FittedMixtureSurrogate(clone(MODEL).set_params(random_state=0).fit(X, bumpy(X)), {})


def uniform(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=seeded(seed))


def labelled(X: torch.Tensor, y: torch.Tensor, noise: torch.Tensor | None = None) -> LabelledSet:
    return LabelledSet(X=X, y=y, weight=torch.ones_like(y), noise=torch.ones_like(y) if noise is None else noise)
