"""Noise and smoothness that a model estimates by itself."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lobal import MixtureRegressor
from lobal.core.doppler import Doppler
from lobal.core.files import load_record
from lobal.mixture.storage import ATTRIBUTES
from tests.estimator_setting import every_engine, quick, rmse, truth, wave

PROBLEM = Doppler(heteroscedastic=True)
GRID = np.linspace(0.0, 1.0, 201)[:, None]


def fanned(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A wave whose noise grows in variance a hundredfold from left to right."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 1))
    return X, truth(X) + 0.1 * 10.0 ** X[:, 0] * rng.standard_normal(n)


def fan(X: np.ndarray) -> np.ndarray:
    return 0.01 * 100.0 ** X[:, 0]


@pytest.fixture(scope="module")
def model() -> MixtureRegressor:
    return quick(noise="estimate").fit(*fanned())


@pytest.mark.parametrize("seed", [0, 1])
def test_the_noise_of_the_doppler_function_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.random(1024)
    y = PROBLEM.labels(x, rng)
    model = MixtureRegressor(noise="estimate", n_inducing=128, random_state=0).fit(x[:, None], y)
    found, v = model.noise_variance(GRID), PROBLEM.noise_variance(GRID[:, 0])
    assert np.corrcoef(found, v)[0, 1] > 0.95
    assert np.abs(found / v - 1.0).mean() < 0.25
    assert model.noise_ == pytest.approx(PROBLEM.noise_variance(x).mean(), rel=0.15)


def test_known_and_estimated_noise_serve_about_alike() -> None:
    errors: dict[str, list[float]] = {"constant": [], "estimate": [], "known": []}
    for seed in range(2):
        X, y = fanned(seed=seed)
        for name, noise in {"constant": None, "estimate": "estimate", "known": fan}.items():
            model = quick(noise=noise, kernel="gaussian").fit(X, y)  # otherwise kernels differ too
            errors[name].append(rmse(model.predict(GRID), truth(GRID)))
    constant, estimate, known = (np.mean(values) for values in errors.values())
    assert known < constant
    assert estimate < 0.5 * (known + constant)


def test_the_standard_deviation_is_that_of_labels_at_every_place(model: MixtureRegressor) -> None:
    X, y = fanned(2000, seed=5)
    mean, std = model.predict(X, return_std=True)
    for part in (X[:, 0] < 0.3, X[:, 0] > 0.7):
        assert np.mean((np.abs(y - mean) < std)[part]) == pytest.approx(0.683, abs=0.1)


def test_everything_downstream_follows_the_noise(model: MixtureRegressor) -> None:
    v = model.noise_variance(GRID)
    assert not model.has_constant_noise
    assert v[-1] > 20.0 * v[0]
    assert (model.uncertainty(GRID) >= v).all()
    (_, std), (_, latent) = (model.predict(GRID, return_std=True, include_noise=flag) for flag in (True, False))
    np.testing.assert_allclose(std**2 - latent**2, v)
    assert model.noise_ == pytest.approx(model.noise_variance(fanned()[0]).mean())


def test_noise_that_is_the_same_everywhere_is_a_constant_and_takes_one_fit() -> None:
    X, y = wave(300)
    estimated, learned = (quick(noise=noise).fit(X, y) for noise in ("estimate", None))
    assert estimated.has_constant_noise
    assert estimated.noise_model_ is None
    assert estimated.history_ == learned.history_
    np.testing.assert_array_equal(estimated.predict(GRID, return_std=True), learned.predict(GRID, return_std=True))


def test_labels_without_noise_leave_the_smallest_noise_there_is() -> None:
    X, _ = wave(200)
    model = quick(noise="estimate").fit(X, truth(X))
    assert (model.noise_variance(GRID) >= 1e-6 * model.label_scale_**2 * (1 - 1e-9)).all()
    assert rmse(model.predict(GRID), truth(GRID)) < 1e-2


@pytest.mark.parametrize("options", [{"experts": "exact"}, {"exchange": True}, {"objective": "mse"}], ids=str)
def test_other_experts_and_objectives_find_it_too(options: dict[str, Any]) -> None:
    v = quick(noise="estimate", **options).fit(*fanned(300)).noise_variance(GRID)
    assert np.corrcoef(np.log(v), np.log(fan(GRID)))[0, 1] > 0.9


def test_variances_given_label_by_label_leave_nothing_to_estimate() -> None:
    X, y = fanned(120)
    model = quick(noise="estimate").fit(X, y, noise_variance=fan(X))
    assert model.has_constant_noise
    assert model.noise_ == pytest.approx(fan(X).mean())


def test_the_estimate_of_an_earlier_fit_is_forgotten(model: MixtureRegressor) -> None:
    again = clone(model).fit(*fanned())
    again.set_params(noise=0.3).fit(*fanned())
    assert again.noise_model_ is None
    np.testing.assert_allclose(again.noise_variance(GRID), 0.3)


def test_a_saved_model_has_the_same_noise(model: MixtureRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "model.lobal")
    loaded = MixtureRegressor.load(tmp_path / "model.lobal")
    assert np.array_equal(loaded.noise_variance(GRID), model.noise_variance(GRID))
    assert np.array_equal(loaded.predict(GRID, return_std=True), model.predict(GRID, return_std=True))
    assert loaded.noise == "estimate"
    assert not loaded.has_constant_noise


@pytest.mark.parametrize("smoothness", [math.inf, 2.0])
def test_a_file_of_the_first_format_is_read(smoothness: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = wave()
    model = quick(smoothness=smoothness).fit(X, y)
    with monkeypatch.context() as older:
        older.setattr("lobal.core.files.FORMAT_VERSION", 1)
        kept = tuple(name for name in ATTRIBUTES if name != "smoothness_")
        older.setattr("lobal.mixture.storage.ATTRIBUTES", kept)
        model.save(tmp_path / "model.lobal")
    fields = load_record(tmp_path / "model.lobal")[1]
    assert fields["format"] == 1
    assert "smoothness_" not in fields
    loaded = MixtureRegressor.load(tmp_path / "model.lobal")
    assert np.array_equal(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    assert np.array_equal(loaded.local_complexity(X), model.local_complexity(X))


@every_engine
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"noise": "learn"},
            "noise must be a variance, a function of the inputs, None, 'estimate' or 'heavy_tails', got 'learn'",
        ),
        ({"smoothness": "rough"}, "smoothness must be a number above zero or 'estimate', got 'rough'"),
        ({"smoothness": -math.inf}, "smoothness must be positive"),
    ],
    ids=str,
)
def test_other_words_are_refused(engine: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(engine=engine, **options).fit(*wave(40))


def test_adam_refuses_to_estimate_the_noise() -> None:
    with pytest.raises(
        ValueError, match=r"noise='estimate' needs the analytic engine, got Adam\(max_epochs=15, patience=3\)"
    ):
        quick(engine="adam", noise="estimate").fit(*wave(40))


def random_walk(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.sort(rng.random((n, 1)), axis=0), np.cumsum(rng.standard_normal(n))


@every_engine
def test_the_smoothness_of_a_wave_is_infinite(engine: str) -> None:
    assert quick(engine=engine, smoothness="estimate").fit(*wave(200)).smoothness_ == math.inf


@every_engine
def test_the_smoothness_of_a_random_walk_without_noise_is_one_half(engine: str) -> None:
    model = quick(engine=engine, smoothness="estimate", noise=0.01, n_inducing=120)
    assert model.fit(*random_walk(0)).smoothness_ == 0.5


def test_an_estimated_smoothness_counts_like_a_given_one(tmp_path: Path) -> None:
    model = quick(smoothness="estimate", noise=0.01, n_inducing=120, intrinsic_dimension=1.0).fit(*random_walk(0))
    density = np.full(len(GRID), 3.0)
    expected = 3.0 ** (-1.0 / (2.0 * model.smoothness_ + 1.0)) / model.local_bandwidth(GRID)
    np.testing.assert_allclose(model.local_complexity(GRID, density=density), expected)
    model.save(tmp_path / "model.lobal")
    loaded = MixtureRegressor.load(tmp_path / "model.lobal")
    assert loaded.smoothness_ == model.smoothness_
    assert np.array_equal(loaded.local_complexity(GRID), model.local_complexity(GRID))
