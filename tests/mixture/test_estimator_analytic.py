"""What the default engine promises: noise, local bandwidths and errors on problems whose answer is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lobal import MixtureRegressor
from tests.estimator_setting import PATCH_NOISE, patch, quick, rmse, wave, waves_in_a_patch
from tests.experts.test_global_expert import gp_draw

GRID = np.linspace(0.01, 0.99, 300)[:, None]
LEFT, RIGHT = GRID[:, 0] < 0.4, GRID[:, 0] > 0.6


def falling(X: np.ndarray) -> np.ndarray:
    """Scales that grow from left to right, like those of the Doppler function."""
    return np.sin(2.0 / (X[:, 0] + 0.05))


def abrupt(X: np.ndarray) -> np.ndarray:
    """Waves on the left that end in the middle."""
    x = X[:, 0]
    return np.where(x < 0.5, np.sin(40 * x), np.sin(20.0) + np.sin(3 * (x - 0.5)))


def labels_of(function: Callable[[np.ndarray], np.ndarray], n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 1))
    return X, function(X) + 0.1 * rng.standard_normal(n)


def bandwidth_ratio(model: MixtureRegressor) -> float:
    """How many times wider the local bandwidth is on the right."""
    logarithm = np.log(model.local_bandwidth(GRID))
    return float(np.exp(logarithm[RIGHT].mean() - logarithm[LEFT].mean()))


@pytest.mark.parametrize("noise", [0.04, 0.4])
@pytest.mark.parametrize("bandwidth", [0.03, 0.1])
def test_the_noise_of_a_stationary_process_is_recovered(bandwidth: float, noise: float) -> None:
    points = gp_draw(400, bandwidth=bandwidth, noise=noise)
    model = quick(n_inducing=120, gate_bandwidth=None).fit(points.X.numpy(), points.y.numpy())
    assert model.noise_ == pytest.approx(noise, rel=0.2)


def test_a_stationary_process_has_the_same_bandwidth_everywhere() -> None:
    points = gp_draw(400, bandwidth=0.05, noise=0.1)
    bandwidth = quick(n_inducing=120, gate_bandwidth=None).fit(points.X.numpy(), points.y.numpy()).local_bandwidth(GRID)
    assert bandwidth.max() < 1.5 * bandwidth.min()
    assert np.median(bandwidth) == pytest.approx(0.05, rel=0.5)


def test_rapid_waves_in_a_small_region_are_predicted() -> None:
    """Taken for noise, they leave an error of 0.14, and fourteen times the noise."""
    model = MixtureRegressor(kernel="gaussian", random_state=0).fit(*waves_in_a_patch(500))
    new = np.random.default_rng(1).random((2000, 2))
    assert rmse(model.predict(new), patch(new)) < 0.04
    assert model.noise_ == pytest.approx(PATCH_NOISE**2, rel=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_the_local_bandwidth_is_smaller_where_the_function_is_finer(seed: int) -> None:
    assert bandwidth_ratio(quick(n_inducing=120, gate_bandwidth=None).fit(*labels_of(falling, 300, seed))) > 2.0


@pytest.mark.xfail(reason="every expert learns from all labels, so the wide ones ring far beyond the waves")
def test_waves_that_end_abruptly_leave_the_rest_its_wide_bandwidth() -> None:
    assert bandwidth_ratio(quick(n_inducing=120, gate_bandwidth=None).fit(*labels_of(abrupt, 500))) > 2.0


def test_the_error_is_no_worse_than_adams() -> None:
    """On average over two samples, as a single one decides little."""
    errors = {}
    for engine in ("analytic", "adam"):
        models = [
            MixtureRegressor(engine=engine, n_inducing=120, random_state=0).fit(*labels_of(abrupt, 400, seed))
            for seed in range(2)
        ]
        errors[engine] = np.mean([rmse(model.predict(GRID), abrupt(GRID)) for model in models])
    assert errors["analytic"] < 1.1 * errors["adam"]


@pytest.mark.parametrize("options", [{}, {"experts": "exact"}, {"exchange": True}], ids=str)
def test_validation_labels_change_the_validation_error_alone(options: dict[str, Any]) -> None:
    X, y = wave()
    X_val, y_val = wave(40, seed=5)
    model = quick(gate_bandwidth=None, **options)
    without, given = clone(model).fit(X, y), clone(model).fit(X, y, validation=(X_val, y_val))
    assert np.array_equal(without.predict(X, return_std=True), given.predict(X, return_std=True))
    assert np.array_equal(without.gate(X), given.gate(X))
    assert (without.noise_, without.history_) == (given.noise_, given.history_)
    assert given.validation_error_ == pytest.approx(rmse(given.predict(X_val), y_val))
    assert without.validation_error_ != given.validation_error_


def test_without_validation_labels_the_validation_error_is_that_of_leaving_out() -> None:
    X, y = wave(200)
    model = quick().fit(X, y)
    assert rmse(model.predict(X), y) < model.validation_error_
    assert model.validation_error_ == pytest.approx(
        rmse(model.predict(wave(2000, seed=9)[0]), wave(2000, seed=9)[1]), rel=0.15
    )


def test_weights_count_in_the_validation_error_and_not_in_the_model() -> None:
    X, y = wave()
    weight = np.where(X[:, 0] < 0.5, 10.0, 1.0)
    plain, weighed = quick().fit(X, y), quick().fit(X, y, sample_weight=weight)
    assert np.array_equal(plain.predict(X), weighed.predict(X))
    assert plain.validation_error_ != weighed.validation_error_


def test_weights_count_in_the_model_on_request() -> None:
    X, y = wave()
    weight = np.where(X[:, 0] < 0.5, 10.0, 1.0)
    plain, weighed = quick(weighted=True).fit(X, y), quick(weighted=True).fit(X, y, sample_weight=weight)
    left, right = X[:, 0] < 0.4, X[:, 0] > 0.6
    ratio = (weighed.uncertainty(X) - weighed.noise_) / (plain.uncertainty(X) - plain.noise_)
    assert ratio[left].mean() < ratio[right].mean()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"experts": "exact"}], ids=str)
def test_points_of_weight_zero_are_left_out(weighted: bool, options: dict[str, Any]) -> None:
    X, y = wave()
    weight = np.where(np.arange(120) % 3 == 0, 0.0, 1.0)
    spoiled = np.where(weight > 0, y, -y)
    fixed = {"weighted": weighted, "intrinsic_dimension": 1.0, "gate_bandwidth": None, **options}
    zero = quick(**fixed).fit(X, spoiled, sample_weight=weight)
    fewer = quick(**fixed).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(zero.predict(GRID), fewer.predict(GRID), atol=1e-3)
    np.testing.assert_allclose(zero.gate(GRID), fewer.gate(GRID), atol=1e-2)


def test_a_default_ladder_is_trimmed_and_extended_to_what_is_used() -> None:
    """From one gate's ends to the other's, experts are in use or beside one that is."""
    model = MixtureRegressor(n_inducing=150, random_state=0).fit(*labels_of(falling, 1200))
    shares = model.gate(GRID).mean(0)
    assert len(shares) == len(model.mixture_.bandwidths) >= 3
    steps = np.diff(np.log(model.mixture_.bandwidths.numpy()))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)
    assert shares[0] < 0.1
    assert shares[-1] < 0.1
