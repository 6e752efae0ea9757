"""Scores of labels that are left out: their quantiles, and intervals and standard deviations that rest on them."""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch

from lobal import MixtureRegressor
from lobal.experts import global_expert
from lobal.mixture.calibration import Calibration
from lobal.mixture.prediction import LabelPrediction
from tests.estimator_setting import every_engine, quick, truth, wave
from tests.mixture.test_old_files import FOLDER, every_file

GRID = np.linspace(0.0, 1.0, 31)[:, None]
ABOVE_NORMAL = 3.0  # scores above this are larger than the normal quantiles of the levels here
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


def scores(n: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return ABOVE_NORMAL + torch.rand(n, dtype=torch.float64, generator=generator)


def calibration(z: torch.Tensor, weight: torch.Tensor | None = None) -> Calibration:
    return Calibration.of(z, torch.ones_like(z) if weight is None else weight)


# Tails.


def test_the_tail_is_the_kurtosis_in_standard_errors_of_that_of_normal_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    tails = torch.tensor(
        [calibration(torch.randn(400, dtype=torch.float64, generator=generator)).tail for _ in range(500)]
    )
    assert abs(tails.mean()) < 0.15
    assert tails.std() == pytest.approx(1.0, abs=0.15)


def test_a_few_large_errors_are_the_more_conspicuous_the_more_labels_there_are() -> None:
    generator = torch.Generator().manual_seed(0)
    tails = []
    for n in (50, 200, 800):
        z = torch.randn(n, dtype=torch.float64, generator=generator)
        z[:: n // 10] = 4.0  # a tenth of a percent of normal scores is that large
        tails.append(calibration(z).tail)
    assert tails == sorted(tails)
    assert calibration(0.01 * z).tail == pytest.approx(tails[-1])


def test_without_any_error_there_is_no_tail() -> None:
    assert Calibration.none().tail == 0.0


# Quantiles.


@pytest.mark.parametrize("n", [1, 2, 19, 20, 99, 100, 137])
@pytest.mark.parametrize("level", LEVELS)
def test_half_the_width_is_the_conformal_quantile(n: int, level: float) -> None:
    """The k-th smallest of n scores, k = ceil(level (n + 1)), or the largest if there are fewer."""
    z = scores(n)
    k = math.ceil(round(level * (n + 1), 9))
    assert calibration(-z).half_width(level) == sorted(z.tolist())[min(k, n) - 1]


def test_a_new_score_is_within_half_the_width_as_often_as_the_level_says() -> None:
    drawn = scores(20 * 3000).reshape(3000, 20)
    within = [each[0].item() <= calibration(each[1:]).half_width(0.8) for each in drawn]
    assert np.mean(within) == pytest.approx(0.8, abs=0.02)


def test_half_the_width_grows_with_the_level() -> None:
    z = 3.0 * torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    widths = [calibration(z).half_width(level) for level in np.linspace(0.01, 0.999, 60)]
    assert np.all(np.diff(widths) >= 0.0)


def test_intervals_are_at_least_those_of_a_normal_distribution() -> None:
    for each in (calibration(0.01 * scores(40)), Calibration.none()):
        assert each.factor == 1.0
        for level in LEVELS:
            assert each.half_width(level) == pytest.approx(NormalDist().inv_cdf(0.5 + 0.5 * level))


def test_a_weight_of_two_is_two_scores() -> None:
    """Up to the new label, whose average weight is half as much in units of the doubled ones."""
    z = scores(400)
    doubled = calibration(torch.cat([z, z[:200]]))
    weighted = calibration(z, torch.where(torch.arange(400) < 200, 2.0, 1.0).double())
    assert weighted.factor == pytest.approx(doubled.factor)
    ranks = [sorted(z.tolist()).index(each.half_width(0.9)) for each in (weighted, doubled)]
    assert abs(ranks[0] - ranks[1]) <= 1


def test_only_ratios_of_weights_count() -> None:
    z, weight = scores(60), 0.1 + scores(60, seed=1)
    for factor in (1e-3, 0.3, 7.0):
        one, other = calibration(z, weight), calibration(z, factor * weight)
        assert one.factor == pytest.approx(other.factor)
        assert [one.half_width(level) for level in LEVELS] == [other.half_width(level) for level in LEVELS]


def test_a_score_without_weight_does_not_count() -> None:
    z, weight = scores(40), 0.1 + scores(40, seed=1)
    more = calibration(torch.cat([z, 100.0 + z]), torch.cat([weight, torch.zeros_like(weight)]))
    alone = calibration(z, weight)
    assert torch.equal(more.scores, alone.scores)
    assert torch.equal(more.weights, alone.weights)


def test_the_factor_is_the_root_of_the_weighted_mean_square() -> None:
    z, weight = scores(30), 0.1 + scores(30, seed=1)
    expected = np.sqrt(np.average(np.square(z.numpy()), weights=weight.numpy()))
    assert calibration(-z, weight).factor == pytest.approx(expected)


def test_what_is_widened_beyond_the_noise_is_the_functions() -> None:
    plain = LabelPrediction(np.zeros(2), np.array([1.0, 4.0]), np.array([2.0, 0.5]))
    wide = plain.widened(1.5)
    np.testing.assert_allclose(wide.std, 1.5 * plain.std)
    np.testing.assert_array_equal(wide.noise, plain.noise)


# Intervals of a model.


def uniform(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-0.5, 0.5, n)


def heavy_tailed(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.1 * rng.standard_t(3, n)


Noise = Callable[[np.random.Generator, int], np.ndarray]


def covered(noise: Noise, level: float, seed: int = 0) -> float:
    """The share of new labels in the intervals of a model of 300."""
    rng = np.random.default_rng(seed)
    X, new = rng.random((300, 1)), rng.random((4000, 1))
    model = quick(kernel="gaussian").fit(X, truth(X) + noise(rng, 300))
    _, lower, upper = model.predict(new, return_interval=level)
    y = truth(new) + noise(rng, 4000)
    return float(np.mean((lower <= y) & (y <= upper)))


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
def test_intervals_contain_the_labels_of_heavy_tailed_noise_as_often_as_they_say() -> None:
    """Those of a normal distribution would contain 98% instead of 99%."""
    assert covered(heavy_tailed, 0.95) == pytest.approx(0.95, abs=0.03)
    assert np.mean([covered(heavy_tailed, 0.99, seed) for seed in range(3)]) > 0.985


def test_intervals_are_not_too_narrow_for_uniform_noise() -> None:
    """All labels are within 1.73 standard deviations, and intervals are no narrower than 1.96."""
    assert covered(uniform, 0.95) > 0.95


def test_a_model_that_is_too_sure_of_itself_has_wider_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a prior, widths of 20 columns are tuned to 60 labels, which are nothing but noise."""
    monkeypatch.setattr(global_expert, "WIDTH_SCALE", 1e6)
    monkeypatch.setattr(global_expert, "NOISE_SPREAD", 1e6)
    shares = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y, new = rng.random((60, 20)), rng.standard_normal(60), rng.random((2000, 20))
        model = MixtureRegressor(random_state=0).fit(X, y)
        labels = rng.standard_normal(2000)
        for one in (model.calibration_, Calibration.none()):
            model.calibration_ = one
            _, lower, upper = model.predict(new, return_interval=0.95)
            shares.append(np.mean((lower <= labels) & (labels <= upper)))
    assert np.mean(shares[1::2]) < 0.85
    assert np.mean(shares[::2]) == pytest.approx(0.95, abs=0.04)


@every_engine
def test_ends_of_intervals_are_half_a_width_of_standard_deviations_away(engine: str) -> None:
    model = quick(engine).fit(*wave())
    model.calibration_ = calibration(scores(50))
    mean, lower, upper = model.predict(GRID, return_interval=0.9)
    _, std = model.predict(GRID, return_std=True)
    k = model.calibration_.half_width(0.9)
    np.testing.assert_allclose(upper - mean, k * std / model.calibration_.factor)
    np.testing.assert_allclose(mean - lower, upper - mean)
    np.testing.assert_allclose(mean, model.predict(GRID))


def test_standard_deviations_grow_by_the_factor_and_the_noise_stays() -> None:
    model = quick().fit(*wave())
    model.calibration_ = Calibration.none()
    (_, before), v = model.predict(GRID, return_std=True), model.noise_variance(GRID)
    model.calibration_ = calibration(scores(50))
    _, after = model.predict(GRID, return_std=True)
    np.testing.assert_allclose(after, model.calibration_.factor * before)
    np.testing.assert_array_equal(model.noise_variance(GRID), v)


@every_engine
def test_a_model_has_a_score_for_every_label_of_positive_weight(engine: str) -> None:
    X, y = wave()
    model = quick(engine).fit(X, y, sample_weight=np.arange(120) % 4)
    assert len(model.calibration_.scores) == 90
    assert model.calibration_.weights.mean().item() == pytest.approx(1.0)


@every_engine
def test_a_saved_model_has_the_same_intervals(engine: str, tmp_path: Path) -> None:
    model = quick(engine).fit(*wave())
    model.calibration_ = calibration(scores(120), 0.1 + scores(120, seed=1))
    model.save(tmp_path / "model.lobal")
    again = MixtureRegressor.load(tmp_path / "model.lobal")
    assert torch.equal(again.calibration_.scores, model.calibration_.scores)
    assert torch.equal(again.calibration_.weights, model.calibration_.weights)
    assert again.validation_standard_error_ == model.validation_standard_error_
    for found, expected in zip(*(m.predict(GRID, return_interval=0.9) for m in (again, model)), strict=True):
        np.testing.assert_array_equal(found, expected)


@every_file
def test_a_model_of_an_earlier_version_has_the_intervals_of_a_normal_distribution(name: str) -> None:
    model = MixtureRegressor.load(FOLDER / f"{name}.lobal")
    X = np.random.default_rng(0).random((9, model.n_features_in_))
    (mean, std), (_, lower, upper) = model.predict(X, return_std=True), model.predict(X, return_interval=0.95)
    np.testing.assert_allclose(upper, mean + 1.959964 * std, rtol=1e-6)
    np.testing.assert_allclose(lower, mean - 1.959964 * std, rtol=1e-6)
    assert model.validation_standard_error_ is None


@pytest.fixture(scope="module")
def model() -> MixtureRegressor:
    return quick().fit(*wave(60))


@pytest.mark.parametrize("level", [0, 0.0, 1, 1.0, 95, -0.5, True, False, math.nan])
def test_levels_that_are_no_probabilities_are_refused(model: MixtureRegressor, level: Any) -> None:
    with pytest.raises(ValueError, match=r"return_interval must lie between 0 and 1, such as 0\.95, got "):
        model.predict(GRID, return_interval=level)


@pytest.mark.parametrize("other", ["return_std", "return_cov"])
def test_intervals_come_alone(model: MixtureRegressor, other: str) -> None:
    with pytest.raises(ValueError, match=rf"at most one of .* got {other} and return_interval; call once for each"):
        model.predict(GRID, return_interval=0.9, **{other: True})


# The error to expect.


def test_expected_errors_are_to_deviations_as_the_scores_say() -> None:
    error, uncertain = calibration(torch.full((20,), 2.0)).expected_error(np.array([1.0, 7.0]))
    assert error == pytest.approx(2.0 * 5.0)
    assert uncertain == 0.0


def test_labels_without_errors_lead_to_none() -> None:
    assert calibration(torch.zeros(5)).expected_error(np.ones(3)) == (0.0, 0.0)


def test_errors_of_labels_on_a_grid_are_those_of_new_inputs_if_these_are_known() -> None:
    """Labels at equal distances are further from each other than new inputs are from them."""
    X = (np.arange(40)[:, None] + 0.5) / 40
    inputs = np.random.default_rng(0).random((300, 1))
    y, y_new = np.sin(40.0 * X[:, 0] ** 2), np.sin(40.0 * inputs[:, 0] ** 2)
    left_out, informed = quick().fit(X, y), quick().fit(X, y, test_inputs=inputs)
    error = np.sqrt(np.mean(np.square(informed.predict(inputs) - y_new)))
    assert abs(math.log(informed.validation_error_ / error)) < 0.5 * abs(math.log(left_out.validation_error_ / error))
    assert 0.0 < informed.validation_standard_error_ < informed.validation_error_
    np.testing.assert_array_equal(informed.predict(inputs), left_out.predict(inputs))


def test_validation_labels_come_before_test_inputs() -> None:
    X, y = wave(60)
    models = [quick().fit(X, y, validation=(GRID, truth(GRID)), test_inputs=inputs) for inputs in (None, GRID)]
    assert models[0].validation_error_ == models[1].validation_error_
