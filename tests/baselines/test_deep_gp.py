import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from lobal.baselines.deep_gp import DeepGaussianProcess, alc
from lobal.baselines.deep_gp_sampling import SHAPE, Chains, State

X = np.linspace(0.0, 1.0, 40)[:, None]
NEW = np.linspace(0.0, 1.0, 57)[:, None]


def fast_then_slow(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(2.0 / (x[:, 0] + 0.05)))


def quick(**options: Any) -> DeepGaussianProcess:
    short = {"chains": 2, "ascent": 30, "burn_in": 2, "sweeps": 6, "thinning": 2, "random_state": 0}
    return DeepGaussianProcess(**{**short, **options})


@pytest.fixture(scope="module")
def model() -> DeepGaussianProcess:
    return quick().fit(X, fast_then_slow(X))


def with_labels_at(model: DeepGaussianProcess, X: np.ndarray) -> DeepGaussianProcess:
    """The model with its samples of hidden layers and scales, and labels at other places."""
    other = copy.copy(model)
    labels = torch.as_tensor((fast_then_slow(X) - model.label_mean_) / model.label_scale_)
    other.chains_ = Chains(model._scaled(X[:, 0]), labels, model.layers)
    other.posterior_ = other.chains_.posterior(model.samples_)
    return other


def test_one_layer_is_the_exact_gaussian_process() -> None:
    y = np.sin(9.0 * X[:, 0]) + 0.1 * np.cos(90.0 * X[:, 0])
    model = quick(layers=1, chains=1, sweeps=1, thinning=1).fit(X, y)
    bandwidth, noise = (float(value) for value in model.samples_.scales[0].exp())
    kernel = RBF(bandwidth, "fixed") + WhiteKernel(noise, "fixed")
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y - y.mean())
    mean, std = exact.predict(NEW, return_std=True)
    found, spread = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, y.mean() + mean, atol=2e-3)
    scale = math.sqrt(float(model.posterior_.scale[0])) * model.label_scale_
    np.testing.assert_allclose(spread, scale * std, rtol=1e-2)
    assert model.noise_ == pytest.approx(noise * scale**2)


def test_mean_and_deviation_are_those_of_the_mixture_of_samples(model: DeepGaussianProcess) -> None:
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(NEW))
    places = model._places(model._scaled(NEW[:, 0]))
    means = model.label_mean_ + model.label_scale_ * model.posterior_.mean(places).numpy()
    np.testing.assert_allclose(mean, means.mean(axis=0))
    assert (std**2 >= means.var(axis=0)).all()
    assert std.min() ** 2 > 0.5 * model.noise_


def test_alc_chooses_what_lowers_the_variance_most_after_refitting(model: DeepGaussianProcess) -> None:
    def variance(points: list[float]) -> float:
        """Average variance of the output layer at the references, for the same layers and scales."""
        refitted = with_labels_at(model, np.r_[X, np.array(points)[:, None]])
        places = refitted._places(refitted._scaled(NEW[:, 0]))
        left = refitted.posterior_.roots(places).square().sum(1).mean(1)
        return float((model.posterior_.scale * left).mean())

    candidates = np.linspace(0.013, 0.987, 12)
    first = [variance([place]) for place in candidates]
    best = int(np.argmin(first))
    second = [variance([candidates[best], place]) for place in candidates]
    second[best] = math.inf
    chosen = alc(model, candidates[:, None], 2, references=NEW)
    assert chosen.tolist() == [best, int(np.argmin(second))]


def test_alc_places_points_where_the_function_is_fast(model: DeepGaussianProcess) -> None:
    rows = alc(model, NEW, 8)
    assert len(set(rows.tolist())) == 8
    assert (NEW[rows] < 0.4).mean() > 0.7
    assert (alc(model, NEW, 57) >= 0).all()


def test_hidden_layers_fit_a_function_of_changing_speed_better_than_one_layer() -> None:
    x, rng = (np.arange(80) + 0.5)[:, None] / 80, np.random.default_rng(0)
    y = np.tanh(60.0 * (x[:, 0] - 0.3)) + 0.3 * rng.standard_normal(80)
    errors = {}
    for layers in (1, 3):
        found = quick(layers=layers, ascent=60).fit(x, y).predict(NEW)
        errors[layers] = float(np.sqrt(np.mean((found - np.tanh(60.0 * (NEW[:, 0] - 0.3))) ** 2)))
    assert errors[3] < 0.75 * errors[1]


def test_a_seed_repeats_the_fit() -> None:
    first, second, other = (quick(random_state=seed).fit(X, fast_then_slow(X)).predict(NEW) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_predictions_follow_the_units_of_inputs_and_labels(model: DeepGaussianProcess) -> None:
    changed = quick().fit(1e3 * X - 7.0, 50.0 + 1e-3 * fast_then_slow(X)).predict(1e3 * NEW - 7.0)
    np.testing.assert_allclose(changed, 50.0 + 1e-3 * model.predict(NEW), atol=1e-6)


def test_a_warm_start_goes_on_with_the_chains() -> None:
    y = fast_then_slow(X)
    model = quick(warm_start=True, bounds=(0.0, 1.0)).fit(X[::2], y[::2])
    before = model.state_
    model.set_params(burn_in=0, sweeps=1, thinning=1).fit(X, y)
    assert isinstance(before, State)
    fresh = quick(bounds=(0.0, 1.0), ascent=0, burn_in=0, sweeps=1, thinning=1).fit(X, y)
    distances = [(each.scales - before.scales).abs().max() for each in (model.state_, fresh.state_)]
    assert distances[0] < distances[1]


@pytest.mark.parametrize("changed", [{"layers": 2}, {"chains": 3}])
def test_a_warm_start_refuses_the_chains_of_another_model(changed: dict[str, Any]) -> None:
    model = quick(warm_start=True).fit(X, fast_then_slow(X)).set_params(**changed)
    with pytest.raises(ValueError, match="warm_start goes on with layers=3 and chains=2, got layers="):
        model.fit(X, fast_then_slow(X))


def test_one_layer_knows_little_far_from_the_labels() -> None:
    model = quick(layers=1).fit(X, np.sin(2.5 * X[:, 0]))
    prior = float(model.posterior_.scale.mean().sqrt()) * model.label_scale_
    far = model.predict(np.array([[-1.0], [2.0], [-9.0], [9.0]]), return_std=True)[1]
    assert (far > 0.8 * prior).all()


def test_the_ascent_raises_the_density() -> None:
    y = torch.as_tensor((fast_then_slow(X) - fast_then_slow(X).mean()) / fast_then_slow(X).std())
    chains = Chains(torch.as_tensor(X[:, 0] - 0.5), y, 3)
    start = chains.start(3, torch.Generator().manual_seed(0))
    end = chains.ascend(start, 30)
    assert (chains.log_likelihood(end) > chains.log_likelihood(start) + 3.0).all()
    assert all(bound[0] <= math.exp(v) <= bound[1] for bound, v in zip(chains._bounds, end.scales[0], strict=True))
    assert not end.scales.requires_grad


def test_priors_are_gamma_densities_of_twice_the_squared_bandwidth() -> None:
    chains = Chains(torch.as_tensor(X[:, 0] - 0.5), torch.as_tensor(X[:, 0]), 3)
    log_bandwidth = torch.linspace(-1.0, -0.7, 5, dtype=torch.float64)
    theta, rate = 2.0 * np.exp(2.0 * log_bandwidth.numpy()), 3.9 / 6.0
    gamma = (SHAPE - 1.0) * np.log(theta) - rate * theta + SHAPE * math.log(rate) - gammaln(SHAPE)
    density = gamma + np.log(theta)  # of log theta
    found = chains.log_prior(2, log_bandwidth).numpy()
    np.testing.assert_allclose(found - found[0], density - density[0], atol=1e-12)
    assert chains.log_prior(2, torch.tensor([5.0], dtype=torch.float64)) == -math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 4}, "layers must be 1, 2 or 3, got 4"),
        ({"chains": 0}, "chains must be a whole number, at least 1"),
        ({"thinning": 7}, "thinning must be at most sweeps=6"),
        ({"bounds": (0.0, 0.5)}, r"X must be within bounds=\(0.0, 0.5\), got 0.0 to 1.0"),
        ({"bounds": (1.0, 0.0)}, "bounds ascend"),
        ({"device": "abacus"}, "device must be"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, fast_then_slow(X))


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (np.ones((40, 2)), X[:, 0], r"one input column here, got X of shape \(40, 2\)"),
        (X[:, 0], X[:, 0], r"X must have shape \(n, d\)"),
        (X[:5], X[:5, 0], r"at least 10, got shape \(5,\) for 5 rows"),
        (X, X[:30, 0], r"got shape \(30,\) for 40 rows"),
        (X, np.full(40, np.nan), "finite"),
        (np.ones((40, 1)), X[:, 0], "inputs must have different values"),
    ],
)
def test_data_that_cannot_be_are_refused(inputs: np.ndarray, labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(inputs, labels)


def test_alc_refuses_more_points_than_candidates(model: DeepGaussianProcess) -> None:
    with pytest.raises(ValueError, match="b must be between 1 and 57, the number of candidates, got 58"):
        alc(model, NEW, 58)


def test_constant_labels_are_predicted() -> None:
    np.testing.assert_allclose(quick(sweeps=2).fit(X, np.full(40, 3.0)).predict(NEW), 3.0)
