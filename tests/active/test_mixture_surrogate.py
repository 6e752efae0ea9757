"""Mixtures as surrogates: the contract, and options that are functions."""

from typing import Any

import numpy as np
import pytest

from lobal import MixtureRegressor, Pool
from lobal.active.mixture_surrogate import MixtureSurrogate
from lobal.active.surrogate import FitTask, Validation
from tests.active.contracts import SurrogateContract

X = np.random.default_rng(0).random((60, 2))
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


def variance(X: np.ndarray) -> np.ndarray:
    return 0.1 + X[:, 0]


def settings_of(**options: Any) -> dict[str, Any]:
    return MixtureSurrogate(MixtureRegressor(**options)).to_settings()


def test_functions_among_the_options_are_named_and_not_saved() -> None:
    settings = settings_of(noise=variance, random_state=7)
    assert (settings["functions"], settings["options"]["noise"]) == (["noise"], None)
    assert settings["options"]["random_state"] is None  # the learner's seed takes its place
    settings = settings_of(noise="estimate")
    assert (settings["functions"], settings["options"]["noise"]) == ([], "estimate")


def test_a_function_has_to_be_passed_again() -> None:
    settings = settings_of(noise=variance)
    again = MixtureSurrogate.from_settings(settings, noise=variance)
    assert (again.model.noise, again.changed_options) == (variance, {"noise": "a function"})
    with pytest.raises(ValueError, match=r"was given a function as its noise.*load\(path, noise=function\)"):
        MixtureSurrogate.from_settings(settings)


def test_a_noise_that_was_no_function_cannot_become_one() -> None:
    with pytest.raises(ValueError, match=r"begun with, 0\.1 .*leave noise out"):
        MixtureSurrogate.from_settings(settings_of(noise=0.1), noise=variance)


def test_a_model_that_would_estimate_the_smoothness_is_refused() -> None:
    expected = r"a learner takes smoothness itself, got 'estimate' as its model's; math\.inf"
    with pytest.raises(ValueError, match=expected):
        MixtureSurrogate(MixtureRegressor(smoothness="estimate"))
