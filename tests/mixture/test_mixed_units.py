import numpy as np
import pytest

import lobal
from lobal.mixture.mixed_units import (
    apart_in_size,
    common_factor,
    in_other_units,
    is_gap,
    is_scattered,
    labels_in_other_units,
)
from lobal.mixture.robust_process import Predicted, robust_prediction
from tests.estimator_setting import patch, quick, truth

N = 150
ROWS = np.random.default_rng(1).permutation(N)[: N // 5]


def inputs(n: int = N, d: int = 2) -> np.ndarray:
    return np.random.default_rng(0).random((n, d))


def noisy(f: np.ndarray) -> np.ndarray:
    return np.asarray(f + 0.05 * np.random.default_rng(2).standard_normal(len(f)))


def found(X: np.ndarray, y: np.ndarray, noise: float = 0.0) -> np.ndarray:
    return in_other_units(robust_prediction(X, y, X), y, X, np.full(len(y), noise))


@pytest.mark.parametrize("factor", [0.01, 0.1, 10.0, 100.0])
def test_a_fifth_of_labels_in_other_units_are_found(factor: float) -> None:
    X = inputs()
    y = noisy(truth(X) + 3.0)
    y[ROWS] *= factor
    assert set(found(X, y)) == set(ROWS)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_they_are_found_without_a_model_in_any_units_of_the_inputs(unit: float) -> None:
    X = inputs() * [1.0, unit]
    y = noisy(truth(inputs()) + 3.0)
    assert len(labels_in_other_units(X, y).rows) == 0
    y[ROWS] /= 100.0
    rows, factor = labels_in_other_units(X, y)
    assert set(rows) == set(ROWS)
    assert factor == pytest.approx(0.01, rel=0.1)


def test_of_few_or_equal_labels_none_are_in_other_units() -> None:
    assert len(labels_in_other_units(inputs(14), np.r_[np.ones(11), 0.01 * np.ones(3)]).rows) == 0
    assert len(labels_in_other_units(inputs(30), np.ones(30)).rows) == 0


def test_labels_around_zero_are_found_where_they_are_not_zero() -> None:
    X = inputs(d=1)
    y = noisy(truth(X))
    y[ROWS] /= 100.0
    assert set(np.flatnonzero(np.abs(truth(X)) > 0.5)) & set(ROWS) <= set(found(X, y)) <= set(ROWS)


def test_known_noise_excuses_them() -> None:
    X = inputs()
    y = noisy(truth(X) + 3.0)
    y[ROWS] /= 100.0
    assert len(found(X, y, noise=4.0)) == 0


def test_a_fit_warns_of_them_and_says_the_factor() -> None:
    X = inputs(d=1)
    y = noisy(truth(X) + 3.0)
    y[ROWS] /= 100.0
    with pytest.warns(lobal.OutlierWarning, match="30 labels contradict .* Most are about 0.01 times"):
        assert set(quick(kernel="gaussian").fit(X, y).outliers_) == set(ROWS)


def named(rng: np.random.Generator, X: np.ndarray) -> dict[str, np.ndarray]:
    """Labels in one unit that look like others."""
    n, normal = len(X), rng.standard_normal(len(X))
    return {
        "normal noise": truth(X) + 0.2 * normal,
        "patch": patch(X) + 0.05 * normal,
        "heavy tails": truth(X) + 0.1 * rng.standard_t(2, n),
        "variance": X[:, 0] + np.exp(4.0 * X[:, 1]) / 50.0 * normal,
        "lognormal": np.exp(2.0 * truth(X) + normal),
        "counts": rng.poisson(np.exp(2.0 * X[:, 0])).astype(float),
        "two values": (rng.random(n) < 0.15 + 0.5 * X[:, 0]).astype(float),
        "jump": np.sign(X[:, 0] - 0.5) + 0.05 * normal,
        "bump": np.exp(-np.square(X - 0.5).sum(axis=1) / 0.02) + 0.01 * normal,
    }


@pytest.mark.parametrize("n", [40, 120])
def test_labels_in_one_unit_are_not_named(n: int) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((n, 2))
        assert [kind for kind, y in named(rng, X).items() if len(found(X, y))] == []


@pytest.mark.parametrize("factor", [0.001, 0.01, 100.0])
def test_a_few_of_labels_that_are_predicted_badly_are_found_by_their_size(factor: float) -> None:
    X = inputs(60, d=4)
    y = 300.0 + 80.0 * np.random.default_rng(3).uniform(-1.0, 1.0, 60)
    assert len(labels_in_other_units(X, y).rows) == 0
    y[[7, 30, 51]] *= factor
    assert len(found(X, y)) == 0
    assert set(labels_in_other_units(X, y).rows) == {7, 30, 51}


def test_sizes_are_apart_by_more_than_the_others_span() -> None:
    y = np.array([1.0, 2.0, 4.0, 17.0, 18.0])
    assert apart_in_size(y).tolist() == [False, False, False, True, True]
    assert apart_in_size(-y).tolist() == [False, False, False, True, True]
    assert not apart_in_size(np.array([1.0, 2.0, 4.0, 15.0, 16.0])).any()
    assert not apart_in_size(np.array([1.0, 1.1, 1.2, 3.0])).any()
    assert not apart_in_size(np.array([-1.0, 1.1, 1.2, 30.0])).any()


@pytest.mark.parametrize("n", [40, 120])
def test_labels_in_one_unit_are_not_found_by_their_size(n: int) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((n, 2))
        assert [kind for kind, y in named(rng, X).items() if len(labels_in_other_units(X, y).rows)] == []


def test_a_factor_is_common_if_most_labels_have_it() -> None:
    means = np.array([1.0, 2.0, -3.0, 4.0])
    assert common_factor(10.0 * means + [0.1, 0.1, 0.1, 30.0], means) == pytest.approx(10.0, rel=0.1)
    assert common_factor(np.array([10.0, -20.0, 9.0, 80.0]), means) is None
    assert common_factor(2.0 * means, means) is None
    assert common_factor(-means, means) is None
    assert common_factor(10.0 * means[:2], means[:2]) is None


def test_labels_between_two_units_leave_no_gap(rng: np.random.Generator) -> None:
    predicted = Predicted(np.full(100, 3.0), np.full(100, 0.1))
    gap = np.where(np.arange(100) < 20, 30.0, 3.0)
    assert is_gap(10.0, gap, predicted)
    assert not is_gap(10.0, np.where(np.arange(100) < 20, rng.uniform(3.0, 30.0, 100), 3.0), predicted)


def test_neighbours_are_not_scattered() -> None:
    places = np.linspace(0.0, 1.0, 100)[:, None]
    assert is_scattered(np.arange(100) % 5 == 0, places)
    assert not is_scattered(np.arange(100) < 20, places)
    assert not is_scattered(np.arange(100) % 2 == 0, places)
