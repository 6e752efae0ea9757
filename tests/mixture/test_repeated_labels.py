"""Many labels of one input, rounded inputs, equal labels: the noise is right and no matrix singular."""

from typing import Any

import numpy as np
import pytest

import lobal
from lobal import MixtureRegressor
from lobal.core.doppler import Doppler
from tests.estimator_setting import rmse, truth

Labels = tuple[np.ndarray, np.ndarray]
every_expert = pytest.mark.parametrize("experts", ["sparse", "exact"])


def repeated(places: int, times: int, d: int, seed: int = 0) -> np.ndarray:
    return np.repeat(np.random.default_rng(seed).random((places, d)), times, axis=0)


def noisy(f: np.ndarray, deviation: float = 0.1) -> np.ndarray:
    return np.asarray(f + deviation * np.random.default_rng(5).standard_normal(len(f)))


def pure_error(X: np.ndarray, y: np.ndarray) -> float:
    """The variance of labels around the mean of their input, which is noise whatever the function."""
    _, place, count = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    mean = np.bincount(place.ravel(), y) / count
    return float(np.sum((y - mean[place.ravel()]) ** 2) / np.sum(count - 1))


def test_pure_error_is_the_variance_around_the_means_of_inputs() -> None:
    X = np.array([[0.0], [1.0], [0.0], [1.0], [2.0], [1.0]])
    assert pure_error(X, np.array([1.0, 4.0, 3.0, 6.0, 9.0, 5.0])) == pytest.approx((2.0 + 2.0) / 3.0)


def unresolved(X: np.ndarray) -> np.ndarray:
    """A value of its own for every input."""
    _, place = np.unique(X, axis=0, return_inverse=True)
    return np.random.default_rng(3).standard_normal(len(X))[place.ravel()]


def doppler(X: np.ndarray) -> np.ndarray:
    return np.asarray(Doppler()(X[:, 0]))


@every_expert
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("function", [truth, doppler, unresolved])
def test_repeated_labels_determine_the_noise(function: Any, d: int, experts: Any) -> None:
    X = repeated(40, 4, d)
    y = noisy(function(X))
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, y)
    assert model.noise_ == pytest.approx(0.01, rel=0.3)
    assert model.noise_ == pytest.approx(pure_error(X, y), rel=0.25)


@every_expert
def test_thirty_inputs_with_five_labels_each_are_learned(experts: Any) -> None:
    X = repeated(30, 5, 1)
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, noisy(truth(X)))
    assert model.noise_ == pytest.approx(0.01, rel=0.3)
    assert rmse(model.predict(X), truth(X)) < 0.06


@every_expert
@pytest.mark.parametrize("frequency", [9.0, 100.0], ids=["resolved", "unresolved"])
def test_rounded_inputs_leave_the_noise_as_it_is(frequency: float, experts: Any) -> None:
    X = np.round(np.random.default_rng(1).random((200, 2)), 1)
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, noisy(np.sin(frequency * X.sum(axis=1))))
    assert model.noise_ == pytest.approx(0.01, rel=0.3)


@every_expert
@pytest.mark.parametrize("d", [1, 2])
def test_many_copies_of_one_point_do_not_outweigh_the_others(d: int, experts: Any) -> None:
    rng = np.random.default_rng(2)
    X = np.concatenate([np.repeat(rng.random((1, d)), 12, axis=0), rng.random((20, d))])
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, noisy(truth(X)))
    assert 0.004 < model.noise_ < 0.02
    assert rmse(model.predict(X), truth(X)) < 0.15


@every_expert
@pytest.mark.parametrize("d", [1, 2])
def test_simulations_without_noise_may_be_labelled_twice(d: int, experts: Any) -> None:
    X = repeated(40, 2, d)
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, truth(X))
    assert model.noise_ < 1e-5
    assert rmse(model.predict(X), truth(X)) < 1e-3


@every_expert
def test_labels_that_conflict_at_every_input_are_noise(experts: Any) -> None:
    X = repeated(40, 2, 1)
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, truth(X) + np.tile([1.0, -1.0], 40))
    assert 0.7 < model.noise_ < 2.0
    assert rmse(model.predict(X), truth(X)) < 0.5


@every_expert
@pytest.mark.parametrize("d", [1, 2])
def test_labels_that_are_equal_except_one_are_fitted(d: int, experts: Any) -> None:
    X = np.random.default_rng(4).random((60, d))
    y = np.where(np.arange(60) == 7, 2.0, 1.0)
    with pytest.warns(lobal.OutlierWarning, match="row 7: 2, predicted 1"):
        model = MixtureRegressor(experts=experts, random_state=0).fit(X, y)
    mean, std = model.predict(np.random.default_rng(6).random((50, d)), return_std=True)
    assert np.isfinite(std).all()
    assert np.median(np.abs(mean - 1.0)) < 0.1


@every_expert
@pytest.mark.parametrize("places", [1, 2, 6])
def test_few_distinct_inputs_are_enough(places: int, experts: Any) -> None:
    X = repeated(places, 120 // places, 2)
    y = noisy(truth(X))
    model = MixtureRegressor(experts=experts, random_state=0).fit(X, y)
    assert model.noise_ == pytest.approx(pure_error(X, y), rel=0.1)
    assert rmse(model.predict(X), truth(X)) < 0.06


@pytest.mark.parametrize("inducing", ["kmeans", "cells", "random", "distributional", "svgd"])
def test_more_inducing_points_than_inputs_are_asked_for(inducing: str) -> None:
    X = repeated(30, 5, 2)
    model = MixtureRegressor(n_inducing=100, inducing=inducing, random_state=0).fit(X, noisy(truth(X)))
    assert model.noise_ == pytest.approx(0.01, rel=0.3)
