from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student_t

from lobal import MixtureRegressor
from lobal.mixture.heavy_tails import (
    FREEDOM,
    Residuals,
    best_scale,
    first_heavy_tails,
    gaussian_likelihood,
    heavy_tails,
    label_variances,
    student_likelihood,
    student_weights,
)
from tests.estimator_setting import quick, rmse, truth, wave

SMALLEST = 1e-6


def residuals(r: np.ndarray, u: float = 0.0) -> Residuals:
    return Residuals(torch.as_tensor(r), torch.full((len(r),), u).double())


def scale_of(value: float) -> torch.Tensor:
    return torch.tensor(value).double()


def test_a_label_counts_with_the_variance_of_expectation_maximisation(rng: np.random.Generator) -> None:
    r, v = 10.0 * rng.standard_normal(50), 0.7
    found = label_variances(residuals(r), scale_of(v))
    np.testing.assert_allclose(found.numpy(), v * (FREEDOM + r**2 / v) / (FREEDOM + 1.0), rtol=1e-5)


def test_what_the_model_does_not_know_is_no_noise() -> None:
    r = np.full(3, 3.0)
    certain, uncertain = (label_variances(residuals(r, u), scale_of(1.0))[0].item() for u in (0.0, 9.0))
    assert 0.8 < uncertain < 0.6 * certain


def test_the_likelihoods_are_those_of_their_distributions(rng: np.random.Generator) -> None:
    r = np.linspace(-30.0, 30.0, 41)
    noise, constant = heavy_tails(residuals(r), smallest=SMALLEST), 0.5 * np.log(2.0 * np.pi)
    expected = student_t.logpdf(r, FREEDOM, scale=noise.scale.sqrt().item())
    np.testing.assert_allclose(student_likelihood(residuals(r), noise).numpy() - constant, expected, rtol=1e-4)
    gaussian = gaussian_likelihood(residuals(r, 2.0), scale_of(7.0)).numpy() - constant
    np.testing.assert_allclose(gaussian, norm.logpdf(r, scale=3.0), rtol=1e-10)


@pytest.mark.parametrize("u", [0.0, 0.3, 3.0])
def test_scale_and_variance_of_students_noise_are_found(rng: np.random.Generator, u: float) -> None:
    noise = 2.0 * rng.standard_t(FREEDOM, size=4000)
    found = heavy_tails(residuals(noise + np.sqrt(u) * rng.standard_normal(4000), u), smallest=SMALLEST)
    assert found.scale.item() == pytest.approx(4.0, rel=0.1)
    assert found.variance.item() == pytest.approx(student_t.var(FREEDOM, scale=2.0), rel=0.1)


def test_no_scale_is_below_the_smallest() -> None:
    assert best_scale(residuals(np.zeros(20)), student_weights(torch.zeros(1).double()), smallest=0.1).item() >= 0.1


def test_normal_residuals_have_no_heavy_tails(rng: np.random.Generator) -> None:
    found = [first_heavy_tails(residuals(r, 0.5), scale_of(0.5)) for r in rng.standard_normal((50, 100))]
    assert sum(noise is not None for noise in found) <= 3


def test_residuals_of_nothing_but_zeros_have_none() -> None:
    assert first_heavy_tails(residuals(np.zeros(20), 0.5), scale_of(0.5)) is None


@pytest.mark.parametrize(("u", "v"), [(0.0, 5.0), (5.0, 1e-6)], ids=["taken for noise", "taken for a function"])
def test_an_outlier_counts_little_from_the_first_round_on(rng: np.random.Generator, u: float, v: float) -> None:
    r = 0.1 * rng.standard_normal(100)
    r[7] = 20.0
    found = first_heavy_tails(residuals(r, u), scale_of(v))
    assert found is not None
    assert found.variances[7] > 20.0
    assert found.variances.median().item() == pytest.approx(0.01, rel=0.5)


def contaminated(d: int, share: float, seed: int = 0, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """A wave with a share of gross outliers."""
    X, y = wave(n, seed, d)
    rows = np.random.default_rng(seed).permutation(n)[: round(share * n)]
    y[rows] *= 20.0
    return X, y


def errors(d: int, share: float, seed: int = 0, **options: Any) -> tuple[float, float]:
    """Of the default and of heavy tails at clean test points."""
    X, y = contaminated(d, share, seed, n=120)
    T = np.random.default_rng(9).random((500, d))
    models = (quick(noise=noise, kernel="gaussian", **options).fit(X, y) for noise in (None, "heavy_tails"))
    default, robust = (rmse(model.predict(T), truth(T)) for model in models)
    return default, robust


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_five_percent_of_gross_outliers_hardly_matter(d: int, seed: int) -> None:
    default, robust = errors(d, 0.05, seed)
    assert robust < 0.5 * default
    assert robust < 0.1


@pytest.mark.parametrize("d", [1, 4])
def test_clean_labels_are_predicted_as_well_as_by_default(d: int) -> None:
    default, robust = errors(d, 0.0)
    assert robust < 1.05 * default


def ten_deviations_off(n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A wave, the same with 5% of the labels ten standard deviations off, and their rows."""
    X, y = wave(n)
    rows = np.random.default_rng(4).permutation(n)[: n // 20]
    off = y.copy()
    off[rows] += np.where(np.arange(len(rows)) % 2, 1.0, -1.0)
    return X, off, rows


def test_intervals_and_errors_are_about_those_without_the_outliers() -> None:
    X, y, rows = ten_deviations_off()
    T, noise = np.random.default_rng(9).random((2000, 1)), np.random.default_rng(8).standard_normal(2000)
    without = quick(kernel="gaussian").fit(np.delete(X, rows, axis=0), np.delete(y, rows))
    robust = quick(kernel="gaussian", noise="heavy_tails").fit(X, y)
    assert rmse(robust.predict(T), truth(T)) < 1.3 * rmse(without.predict(T), truth(T)) + 0.005
    _, lower, upper = robust.predict(T, return_interval=0.95)
    labels = truth(T) + 0.1 * noise
    assert np.mean((lower < labels) & (labels < upper)) > 0.95
    assert np.mean(upper - lower) < 3.2 * 0.2  # 10 deviations wide otherwise
    assert robust.calibration_.factor < 1.1


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
@pytest.mark.parametrize("options", [{"experts": "exact"}, {"exchange": True}], ids=str)
def test_all_experts_have_them(options: dict[str, Any]) -> None:
    default, robust = errors(1, 0.05, **options)
    assert robust < 0.5 * default


@pytest.fixture(scope="module", params=["sparse", "exact"])
def model(request: pytest.FixtureRequest) -> MixtureRegressor:
    return quick(noise="heavy_tails", kernel="gaussian", experts=request.param).fit(*contaminated(1, 0.05))


def test_labels_that_may_be_far_off_are_named_without_a_warning(model: MixtureRegressor) -> None:
    _, y = contaminated(1, 0.05)
    assert model.heavy_tails_
    assert set(np.flatnonzero(np.abs(y) > 3.0)) <= set(model.outliers_)


def test_the_noise_of_a_new_label_is_constant_and_that_of_most_labels(model: MixtureRegressor) -> None:
    T = np.random.default_rng(1).random((2000, 1))
    y = truth(T) + 0.1 * np.random.default_rng(2).standard_normal(2000)
    mean, std = model.predict(T, return_std=True)
    assert model.has_constant_noise
    np.testing.assert_allclose(model.noise_variance(T), model.noise_)
    assert 0.01 < model.noise_ < 0.04  # Student's variance is twice its scale
    assert np.mean(np.abs(y - mean) < std) > 0.68
    assert np.mean(np.abs(y - mean) < std) < 0.95


def test_labels_left_out_are_predicted_as_if_there_were_no_outliers(model: MixtureRegressor) -> None:
    X, y = contaminated(1, 0.05)
    mean, std = model.leave_one_out(X, y)
    assert rmse(mean, truth(X)) < 0.05
    assert (std >= np.sqrt(model.noise_)).all()


def test_a_saved_model_has_heavy_tails_too(model: MixtureRegressor, tmp_path: Path) -> None:
    X, y = contaminated(1, 0.05)
    model.save(tmp_path / "model.lobal")
    loaded = MixtureRegressor.load(tmp_path / "model.lobal")
    assert loaded.heavy_tails_
    np.testing.assert_allclose(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    np.testing.assert_allclose(loaded.leave_one_out(X, y), model.leave_one_out(X, y))


def test_normal_noise_is_learned_as_by_default() -> None:
    X, y = wave()
    learned, robust = (quick(noise=noise).fit(X, y) for noise in (None, "heavy_tails"))
    assert not robust.heavy_tails_
    assert robust.noise_ == learned.noise_
    assert robust.history_ == learned.history_
    np.testing.assert_array_equal(robust.predict(X, return_std=True), learned.predict(X, return_std=True))


def test_variances_given_label_by_label_leave_nothing_to_estimate() -> None:
    X, y = contaminated(1, 0.05, n=120)
    variance = np.where(np.abs(y) > 2.0, 100.0, 0.01)
    model = quick(noise="heavy_tails").fit(X, y, noise_variance=variance)
    assert not model.heavy_tails_
    assert model.noise_ == pytest.approx(variance.mean())


def test_adam_refuses_heavy_tails() -> None:
    with pytest.raises(ValueError, match="noise='heavy_tails' needs the analytic engine"):
        quick(engine="adam", noise="heavy_tails").fit(*wave(40))
