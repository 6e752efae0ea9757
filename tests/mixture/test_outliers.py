import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lobal
from lobal import MixtureRegressor
from lobal.core.doppler import Doppler
from lobal.mixture.outliers import (
    Outliers,
    find_outliers,
    message,
    outliers_of_both,
    robust_scale,
    threshold,
)
from lobal.mixture.prediction import LabelPrediction
from lobal.mixture.robust_process import Predicted, RobustPrediction
from tests.estimator_setting import quick, truth, wave, waves_in_a_patch

ROW = 17


def spoiled(factor: float, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A wave with one wrong label, which is not zero."""
    X, y = wave(120, d=d)
    X[ROW, 0] = 0.5
    y[ROW] = factor * truth(X[ROW : ROW + 1])[0]
    return X, y


def predicted(mean: np.ndarray, deviation: float = 0.1) -> LabelPrediction:
    return LabelPrediction(mean, np.zeros_like(mean), np.full_like(mean, deviation**2))


def line(rng: np.random.Generator, n: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, predictions and labels with normal noise of standard deviation 0.1."""
    places = np.linspace(0.0, 10.0, n)[:, None]
    mean = np.sin(places[:, 0])
    return places, mean, mean + 0.1 * rng.standard_normal(n)


def test_the_largest_of_normal_numbers_seldom_exceeds_the_threshold(rng: np.random.Generator) -> None:
    for n in (20, 200):
        z = rng.standard_normal((2000, n))
        largest = np.abs(z).max(axis=1) / robust_scale(z)
        assert np.mean(largest > threshold(n)) < 0.02
        assert np.mean(largest > 0.6 * threshold(n)) > 0.02


def test_labels_with_normal_noise_are_no_outliers(rng: np.random.Generator) -> None:
    places, mean, y = line(rng)
    assert len(find_outliers(predicted(mean), y, places).rows) == 0


@pytest.mark.parametrize("inflated", [1.0, 30.0])
def test_an_outlier_that_inflates_all_deviations_does_not_hide(rng: np.random.Generator, inflated: float) -> None:
    places, mean, y = line(rng)
    y[ROW] = 100.0
    found = find_outliers(predicted(mean, 0.1 * inflated), y, places)
    assert found.rows.tolist() == [ROW]
    assert found.labels.tolist() == [100.0]
    assert found.deviations == pytest.approx([0.1], rel=0.3)


def test_a_label_among_the_others_is_none_if_the_model_is_that_uncertain(rng: np.random.Generator) -> None:
    places, mean, y = line(rng)
    y[ROW] = -mean[ROW]
    assert find_outliers(predicted(mean, 0.1), y, places).rows.tolist() == [ROW]
    assert len(find_outliers(predicted(mean, 3.0), y, places).rows) == 0


@pytest.mark.parametrize(("extent", "expected"), [(1, 1), (2, 2), (5, 0)])
def test_a_region_that_is_predicted_badly_has_no_outliers(rng: np.random.Generator, extent: int, expected: int) -> None:
    places, mean, y = line(rng)
    y[50 : 50 + extent] += 5.0
    assert len(find_outliers(predicted(mean), y, places).rows) == expected


def test_noise_that_varies_is_no_reason(rng: np.random.Generator) -> None:
    places = np.linspace(0.0, 1.0, 400)[:, None]
    deviation = 0.03 * 30.0 ** places[:, 0]
    found = [
        find_outliers(predicted(np.zeros(400)), deviation * noise, places).rows
        for noise in rng.standard_normal((100, 400))
    ]
    assert sum(len(rows) > 0 for rows in found) <= 2


def test_one_of_many_labels_at_one_place_may_be_an_outlier(rng: np.random.Generator) -> None:
    places, mean, y = np.zeros((40, 2)), np.zeros(40), 0.1 * rng.standard_normal(40)
    y[ROW] = 5.0
    assert find_outliers(predicted(mean), y, places).rows.tolist() == [ROW]


def test_predictions_without_any_error_are_no_problem() -> None:
    places, y = np.arange(20.0)[:, None], np.ones(20)
    assert len(find_outliers(predicted(y), y, places).rows) == 0
    off = np.where(np.arange(20) == ROW, 2.0, y)
    assert find_outliers(predicted(y), off, places).rows.tolist() == [ROW]


def found_by_both(y: np.ndarray, mean: np.ndarray, places: np.ndarray, inflated: float = 3.0) -> list[int]:
    """Outliers under a mixture that takes some for noise, and robust predictions."""
    robust = RobustPrediction(Predicted(mean, np.full_like(mean, 0.1)), np.arange(len(y)))
    mixture = predicted(mean, 0.1 * inflated)
    return outliers_of_both(mixture, robust, y, places, np.zeros_like(y)).tolist()


def test_several_outliers_do_not_hide_each_other(rng: np.random.Generator) -> None:
    places, mean, y = line(rng)
    assert found_by_both(y, mean, places) == []
    y[[17, 40, 41, 80]] += 1.1
    assert len(find_outliers(predicted(mean, 0.3), y, places).rows) == 0
    assert found_by_both(y, mean, places) == [17, 40, 41, 80]


def test_neighbours_that_are_far_off_too_are_a_function(rng: np.random.Generator) -> None:
    places, mean, y = line(rng)
    y[40:46] += [0.8, 1.0, 5.0, 1.0, 0.8, 0.7]
    assert found_by_both(y, mean, places) == []


def test_a_label_that_the_mixture_explains_is_none(rng: np.random.Generator) -> None:
    places, mean, y = line(rng)
    y[17] += 2.0
    assert found_by_both(y, mean, places, inflated=5.0) == [17]
    assert found_by_both(y, mean, places, inflated=20.0) == []


def test_a_process_that_knows_less_than_the_mixture_is_no_judge(rng: np.random.Generator) -> None:
    places, mean, y = line(rng)
    y[[10, 50, 90]] += 2.0
    robust = RobustPrediction(Predicted(mean, np.full_like(mean, 0.1)), np.arange(100))
    mixture = predicted(np.where(np.isin(np.arange(100), [50, 90]), y, mean), 0.2)
    assert len(outliers_of_both(mixture, robust, y, places, np.zeros(100))) == 0


def test_outliers_of_two_kinds_are_joined() -> None:
    first, second = (
        Outliers(np.array(rows), *np.full((3, len(rows)), value)) for rows, value in (([5, 1], 1.0), ([3, 5], 2.0))
    )
    joined = first.joined(second)
    assert joined.rows.tolist() == [1, 3, 5]
    assert joined.means.tolist() == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("d", [1, 3])
def test_five_percent_of_labels_off_by_ten_deviations_are_named(d: int) -> None:
    X, y = wave(140, d=d)
    rows = np.random.default_rng(3).permutation(140)[:7]
    y[rows] += np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    with pytest.warns(lobal.OutlierWarning):
        outliers = set(quick().fit(X, y).outliers_)
    assert outliers <= set(rows)
    assert len(outliers) >= 5


def test_rapid_waves_in_a_patch_are_no_outliers() -> None:
    assert len(quick(kernel="matern32", experts="sparse").fit(*waves_in_a_patch(400)).outliers_) == 0


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("factor", [1000.0, 27.2, 10.0, -1.0])
def test_wrong_units_signs_and_decimal_points_are_named(factor: float, d: int) -> None:
    X, y = spoiled(factor, d=d)
    with pytest.warns(lobal.OutlierWarning, match=rf"1 label contradicts .* row {ROW}: {y[ROW]:.5g}, predicted"):
        model = MixtureRegressor(random_state=0).fit(X, y)
    assert model.outliers_.tolist() == [ROW]


def test_several_labels_in_other_units_are_named() -> None:
    X, y = wave(200, d=2)
    rows = [3, 50, 51, 120, 160, 170]
    y += 3.0
    y[rows] *= 27.2
    with pytest.warns(lobal.OutlierWarning, match="6 labels contradict"):
        assert quick().fit(X, y).outliers_.tolist() == rows


@pytest.mark.parametrize("options", [{}, {"experts": "exact"}, {"noise": "estimate"}, {"noise": 0.01}], ids=str)
def test_all_experts_and_noises_find_them(options: dict[str, Any]) -> None:
    with pytest.warns(lobal.OutlierWarning):
        assert quick(**options).fit(*spoiled(1000.0)).outliers_.tolist() == [ROW]


def test_rows_are_counted_in_what_was_passed() -> None:
    X, y = spoiled(1000.0)
    weight = np.where(np.arange(len(y)) < 10, 0.0, 1.0)
    with pytest.warns(lobal.OutlierWarning, match=f"row {ROW}:"):
        assert quick().fit(X, y, sample_weight=weight).outliers_.tolist() == [ROW]


def test_known_noise_excuses_a_label() -> None:
    X, y = spoiled(-1.0)
    variance = np.where(np.arange(len(y)) == ROW, 10.0, 0.01)
    assert len(quick().fit(X, y, noise_variance=variance).outliers_) == 0


def doppler(X: np.ndarray) -> np.ndarray:
    return np.asarray(Doppler(noise=0.0)(X[:, 0]))


def step(X: np.ndarray) -> np.ndarray:
    return np.sign(X[:, 0] - 0.5)


def kink(X: np.ndarray) -> np.ndarray:
    return np.abs(X[:, 0] - 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("function", [truth, doppler, step, kink])
def test_clean_labels_are_hardly_ever_named(function: Any) -> None:
    named = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, d, noise = (50, 150)[seed % 2], (1, 2, 4)[seed % 3], (0.0, 0.1, 0.3)[seed // 2 % 3]
        X = rng.random((n, d))
        f = function(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lobal.OutlierWarning)
            model = MixtureRegressor(random_state=0).fit(X, f + noise * f.std() * rng.standard_normal(n))
        named.append(len(model.outliers_))
    assert np.count_nonzero(named) == 0


def test_a_message_names_ten_and_counts_the_others() -> None:
    rows = np.arange(13)
    text = message(Outliers(rows, 1000.0 + rows, np.full(13, 1.0), np.full(13, 0.123)), "X")
    assert "13 labels contradict the others (rows of X): row 0: 1000, predicted 1 +- 0.12; row 1: 1001" in text
    assert "row 9: 1009, predicted 1 +- 0.12; and 3 more. Most are about 1e+03 times their predictions. Check" in text
    assert "MixtureRegressor(noise='heavy_tails')" in text


def test_adam_has_no_leave_one_out_residuals_to_find_them_by() -> None:
    assert len(quick(engine="adam").fit(*spoiled(1000.0)).outliers_) == 0


def test_a_saved_model_remembers_its_outliers(tmp_path: Path) -> None:
    with pytest.warns(lobal.OutlierWarning):
        quick().fit(*spoiled(1000.0)).save(tmp_path / "model.lobal")
    rows = MixtureRegressor.load(tmp_path / "model.lobal").outliers_
    assert rows.dtype.kind == "i"
    assert rows.tolist() == [ROW]
