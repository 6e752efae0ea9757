"""The contracts of `Space` and `Surrogate`, fulfilled by pools, boxes and mixtures."""

from typing import Any

import numpy as np
import pytest

from lobal import Box, MixtureRegressor, Pool
from lobal.active.mixture_surrogate import MixtureSurrogate
from lobal.active.spaces import Space
from lobal.active.surrogate import FitTask, Validation
from tests.active.contracts import SpaceContract, SurrogateContract

X = np.random.default_rng(0).random((60, 2))
SPACES = {
    "pool": Pool(X),
    "uniform": Pool(X.astype(np.float32), test_density="uniform"),
    "box": Box([0.0, -1.0], [1.0, 1.0], n_candidates=64),
}


class TestArraySpaces(SpaceContract):
    @pytest.fixture(params=SPACES.values(), ids=SPACES)
    def space(self, request: pytest.FixtureRequest) -> Space:
        return request.param

    @pytest.fixture
    def labels(self) -> Any:
        return np.ones


MODELS = {
    "default": {},
    "estimated": {"noise": "estimate"},
    "sparse": {"experts": "sparse", "n_inducing": 20, "n_gate_inducing": 8},
}


class TestMixtures(SurrogateContract):
    @pytest.fixture(params=MODELS.values(), ids=MODELS)
    def surrogate(self, request: pytest.FixtureRequest) -> MixtureSurrogate:
        return MixtureSurrogate(MixtureRegressor(**request.param))

    @pytest.fixture
    def task(self) -> FitTask:
        y = np.sin(6.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(60)
        return FitTask(
            X=X,
            y=y,
            weight=1.0 + X[:, 0],
            inducing_weight=1.0 + X[:, 1],
            validation=Validation(X[:10], y[:10]),
            seed=1,
            step=2,
            smoothness=np.inf,
            dimension=2.0,
            candidates=Pool(X).candidates(0),
        )
