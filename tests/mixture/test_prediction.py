"""What predictions promise, whatever fitted the model: standard deviation, covariance, paths."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from lobal import MixtureRegressor
from lobal.core.linalg import Correlation, correlation
from lobal.mixture.model import MixturePrediction
from lobal.mixture.prediction import LabelPrediction, in_label_units
from tests.estimator_setting import quick, wave

GRID = np.linspace(-0.2, 1.2, 31)[:, None]
# Engines and kinds of experts; without the refit, Adam's experts have the inducing covariance zero.
MODELS: dict[str, dict[str, Any]] = {
    "analytic, sparse": {},
    "analytic, exact": {"experts": "exact"},
    "adam, sparse": {"engine": "adam"},
    "adam, without refit": {"engine": "adam", "refit": False},
    "adam, exact": {"engine": "adam", "experts": "exact"},
}
every_model = pytest.mark.parametrize("kind", MODELS)


@cache
def fitted(kind: str, scale: float = 1.0) -> MixtureRegressor:
    X, y = wave(80)
    return quick(bandwidths=[0.25, 0.5, 1.0, 2.0], **MODELS[kind]).fit(X, scale * y)


@cache
def noisy() -> MixtureRegressor:
    """Its noise grows from left to right."""
    return quick(noise=lambda X: 0.01 + X[:, 0] ** 2).fit(*wave(80))


@every_model
@pytest.mark.parametrize("include_noise", [False, True])
def test_the_diagonal_of_the_covariance_is_the_variance(kind: str, include_noise: bool) -> None:
    model = fitted(kind, scale=30.0)
    mean, std = model.predict(GRID, return_std=True, include_noise=include_noise)
    again, C = model.predict(GRID, return_cov=True, include_noise=include_noise)
    assert C.shape == (31, 31)
    np.testing.assert_array_equal(again, mean)
    np.testing.assert_allclose(C.diagonal(), std**2, rtol=1e-12)
    np.testing.assert_allclose(model.predict(GRID), mean, rtol=1e-6)


@every_model
def test_noise_is_on_the_diagonal_of_the_covariance_only(kind: str) -> None:
    model = fitted(kind)
    (_, with_noise), (_, without) = (model.predict(GRID, return_cov=True, include_noise=flag) for flag in (True, False))
    np.testing.assert_allclose(with_noise - without, np.diag(model.noise_variance(GRID)), rtol=1e-9, atol=1e-15)


def test_the_noise_of_every_input_is_its_own() -> None:
    X = np.abs(GRID)
    (_, std), (_, latent) = (noisy().predict(X, return_std=True, include_noise=flag) for flag in (True, False))
    np.testing.assert_allclose(std**2 - latent**2, 0.01 + X[:, 0] ** 2)
    C = noisy().predict(X, return_cov=True)[1]
    np.testing.assert_allclose(C.diagonal() - latent**2, 0.01 + X[:, 0] ** 2)


@pytest.mark.parametrize("experts", ["exact", "sparse"])
def test_a_single_expert_has_the_covariance_of_scikit_learn(experts: str) -> None:
    """Sparse experts too, if every label is an inducing point."""
    X, y = wave(40)
    given = {"bandwidths": [1.0], "shared_bandwidth": 0.15, "scale": 4.0, "noise": 0.02, "n_inducing": 40}
    model = quick(experts=experts, tuning="off", inducing="random", **given).fit(X, y)
    prior = model.label_mean_ + model.label_scale_ * model.mixture_.experts.hyperparameters.mean.item()
    kernel = ConstantKernel(model.scale_, "fixed") * RBF(0.15, "fixed")
    oracle = GaussianProcessRegressor(kernel, alpha=0.02, optimizer=None).fit(X, y - prior)
    mean, C = oracle.predict(GRID, return_cov=True)
    ours, ours_cov = model.predict(GRID, return_cov=True, include_noise=False)
    np.testing.assert_allclose(ours, prior + mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours_cov, C, rtol=1e-5, atol=1e-6)


@given(
    kind=st.sampled_from(sorted(MODELS)),
    x=st.lists(st.floats(-2.0, 3.0) | st.sampled_from(wave(80)[0][:, 0].tolist()), min_size=1, max_size=12),
    copies=st.integers(1, 3),
)
@settings(max_examples=60)
def test_a_covariance_is_positive_semi_definite(kind: str, x: list[float], copies: int) -> None:
    X = np.tile(np.array(x)[:, None], (copies, 1))
    C = fitted(kind).predict(X, return_cov=True, include_noise=False)[1]
    assert np.array_equal(C, C.T)
    assert np.linalg.eigvalsh(C).min() >= -1e-12 * C.diagonal().max()


def test_the_function_at_one_input_is_one_number() -> None:
    """Repeated inputs have correlation one, their labels have noise of their own."""
    model, X = fitted("analytic, sparse"), np.full((2, 1), 0.4)
    C = model.predict(X, return_cov=True, include_noise=False)[1]
    np.testing.assert_allclose(C, C[0, 0], rtol=1e-6)
    first, second = model.sample_y(X, random_state=0)
    np.testing.assert_allclose(first, second, atol=1e-4)
    first, second = model.sample_y(X, random_state=0, include_noise=True)
    assert abs(first[0] - second[0]) > 1e-3


@every_model
@pytest.mark.parametrize("include_noise", [False, True])
def test_paths_have_the_mean_and_the_covariance_of_the_prediction(kind: str, include_noise: bool) -> None:
    model, X, n = fitted(kind, scale=30.0), GRID[::5], 20_000
    mean, C = model.predict(X, return_cov=True, include_noise=include_noise)
    paths = model.sample_y(X, n, random_state=1, include_noise=include_noise)
    assert paths.shape == (len(X), n)
    deviation = np.sqrt(C.diagonal())
    assert np.abs((paths.mean(axis=1) - mean) / deviation).max() < 5.0 / np.sqrt(n)
    # The variance of the product of two normal variables of correlation r is 1 + r^2.
    assert np.abs((np.cov(paths) - C) / np.outer(deviation, deviation)).max() < 5.0 * np.sqrt(2.0 / n)


def test_paths_are_those_of_their_random_state() -> None:
    model = fitted("analytic, exact")
    first, again, other = (model.sample_y(GRID, 3, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    state = np.random.RandomState(1)
    np.testing.assert_array_equal(model.sample_y(GRID, 3, random_state=state), first)
    assert not np.allclose(model.sample_y(GRID, 3, random_state=state), first)
    assert not np.allclose(model.sample_y(GRID), model.sample_y(GRID))


def test_noise_is_added_to_the_same_path() -> None:
    X = np.abs(GRID)
    function, labels = (noisy().sample_y(X, 2000, random_state=0, include_noise=flag) for flag in (False, True))
    np.testing.assert_allclose((labels - function).std(axis=1), np.sqrt(noisy().noise_variance(X)), rtol=0.1)


def test_without_a_number_there_is_one_path() -> None:
    assert fitted("analytic, sparse").sample_y(GRID).shape == (31, 1)


@pytest.mark.parametrize("n_samples", [0, -1, 1.5, "many"])
def test_the_number_of_paths_is_checked(n_samples: Any) -> None:
    with pytest.raises(ValueError, match="n_samples must be a whole number, at least 1"):
        fitted("analytic, sparse").sample_y(GRID, n_samples)


def test_standard_deviation_and_covariance_are_not_returned_together() -> None:
    expected = r"at most one of return_std, return_cov, return_interval .* got return_std and return_cov"
    with pytest.raises(ValueError, match=expected):
        fitted("analytic, sparse").predict(GRID, return_std=True, return_cov=True)


def test_a_model_that_is_not_fitted_has_no_paths() -> None:
    with pytest.raises(NotFittedError):
        quick().sample_y(GRID)


def test_frames_are_accepted_wherever_arrays_are() -> None:
    X, y = wave(80, d=2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = quick().fit(frame, y)
    at = frame.iloc[:5]
    assert model.predict(at, return_cov=True)[1].shape == (5, 5)
    assert model.sample_y(at, 2, random_state=0).shape == (5, 2)
    assert len(model.leave_one_out(frame, y)[1]) == len(model.uncertainty(frame)) == 80


def test_units_of_the_labels_scale_mean_variance_and_not_the_given_noise() -> None:
    prediction = MixturePrediction(torch.tensor([0.5, -1.0]).double(), torch.tensor([4.0, 9.0]).double())
    labels = in_label_units(prediction, (10.0, 3.0), np.array([1.0, 2.0]))
    np.testing.assert_allclose(labels.mean, [11.5, 7.0])
    np.testing.assert_allclose(labels.latent, [36.0, 81.0])
    np.testing.assert_allclose(labels.std, np.sqrt([37.0, 83.0]))
    np.testing.assert_allclose(in_label_units(prediction, (10.0, 3.0), 0.0).std, [6.0, 9.0])


@pytest.fixture
def related() -> Correlation:
    return correlation(torch.tensor([[1.0, 0.8], [0.8, 1.0]]).double(), prior=torch.tensor(1.0).double())


def test_the_covariance_is_the_correlation_in_standard_deviations(related: Correlation) -> None:
    labels = LabelPrediction(np.zeros(2), np.array([4.0, 9.0]), np.array([1.0, 2.0]))
    np.testing.assert_allclose(labels.covariance(related), [[5.0, 4.8], [4.8, 11.0]])


def test_a_path_without_variance_is_the_mean(related: Correlation) -> None:
    labels = LabelPrediction(np.array([3.0, 5.0]), np.zeros(2), np.zeros(2))
    paths = labels.paths(related, 4, np.random.RandomState(0))
    np.testing.assert_array_equal(paths, np.repeat([[3.0], [5.0]], 4, axis=1))
