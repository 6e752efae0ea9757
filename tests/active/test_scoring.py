import math

import numpy as np
import pytest
import torch

from lobal import MixtureRegressor, Pool
from lobal.active import scoring
from lobal.active.designs import candidates_of
from lobal.active.scoring import Scores
from lobal.core import arrays

X = np.random.default_rng(0).random((100, 2))
MODEL = MixtureRegressor(max_epochs=5, patience=3, n_inducing=20, n_gate_inducing=10, random_state=0)


def scores() -> Scores:
    return Scores(candidates=candidates_of(Pool(X), seed=0), smoothness=2.0, dimension=2.0)


def test_parts_of_the_candidates_are_scored_like_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODEL.set_params(smoothness=2.0).fit(X, np.sin(9.0 * X[:, 0]))
    density = torch.from_numpy(1.0 + X[:, 1])
    whole = model.local_complexity(X, density=density.numpy())
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 60)
    monkeypatch.setattr(scoring, "CHUNK", 7)
    np.testing.assert_allclose(scores().complexity(model, density), whole, rtol=1e-9)


@pytest.mark.parametrize("noise", [None, 0.25, lambda X: 0.1 + X[:, 0]], ids=["learned", "a number", "a function"])
def test_the_noise_is_that_of_the_model_at_all_candidates(noise: object, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MixtureRegressor(**MODEL.get_params() | {"noise": noise}).fit(X, np.sin(9.0 * X[:, 0]))
    monkeypatch.setattr(scoring, "CHUNK", 7)
    np.testing.assert_array_equal(scores().noise(model), model.noise_variance(X))


def test_noise_that_was_estimated_is_that_of_the_model_at_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    labels = np.sin(9.0 * X[:, 0]) + 0.02 * 50.0 ** X[:, 0] * rng.standard_normal(100)
    model = MixtureRegressor(**MODEL.get_params() | {"noise": "estimate", "smoothness": math.inf}).fit(X, labels)
    monkeypatch.setattr(scoring, "CHUNK", 7)
    noise = scores().noise(model)
    np.testing.assert_allclose(noise, model.noise_variance(X), rtol=1e-12)
    assert noise.max() > 5.0 * noise.min()
