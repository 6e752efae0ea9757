"""Local bandwidths by predictions from neighbours: large where the function is smooth, also around what is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from lobal import Analytic, MixtureRegressor

X = np.random.default_rng(0).random((300, 2))


def peak(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * np.square((X - 0.3) / 0.05).sum(1)) + 0.5 * X[:, 0])


def fitted(y: np.ndarray, neighbours: int | None = 32, **options: Any) -> MixtureRegressor:
    return MixtureRegressor(engine=Analytic(neighbours=neighbours), random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module")
def known() -> MixtureRegressor:
    return fitted(peak(X) + 0.002 * np.random.default_rng(1).standard_normal(300))


def test_the_surroundings_of_a_peak_have_larger_bandwidths_than_the_peak(known: MixtureRegressor) -> None:
    near, around = np.array([[0.3, 0.3]]), np.random.default_rng(2).uniform(0.5, 1.0, (100, 2))
    by_neighbours = known.local_bandwidth(around) / known.local_bandwidth(near)
    by_gate = fitted(known.predict(X), neighbours=None)
    assert np.median(by_neighbours) > 1.5
    assert np.median(by_neighbours) > np.median(by_gate.local_bandwidth(around) / by_gate.local_bandwidth(near))


def test_predictions_do_not_depend_on_the_neighbours() -> None:
    y = peak(X)
    np.testing.assert_array_equal(fitted(y, 8).predict(X), fitted(y, None).predict(X))


def test_a_function_that_is_the_same_everywhere_has_one_bandwidth() -> None:
    bandwidth = fitted(np.sin(6.0 * X[:, 0]) + np.cos(6.0 * X[:, 1])).local_bandwidth(X)
    assert np.ptp(bandwidth) < 1e-9 * bandwidth.max()


def front(X: np.ndarray) -> np.ndarray:
    """The distance from an oblique, curved front across which a function is steep."""
    return np.asarray(X[:, 0] - 0.5 + 0.2 * np.sin(5.0 * X[:, 1]) + 0.2 * X[:, 2])


def test_few_labels_of_a_front_show_where_it_is() -> None:
    """Gates that are no narrower than those of predictions blur it, or have one bandwidth everywhere."""
    correlations = []
    for seed in range(4):
        generator = np.random.default_rng([seed, 0])
        inputs = generator.random((100, 3))
        y = np.tanh(25.0 * front(inputs)) + inputs[:, 1] + 0.01 * generator.standard_normal(100)
        model = MixtureRegressor(random_state=seed).fit(inputs, y)
        others = np.random.default_rng([seed, 1]).random((2000, 3))
        correlations.append(spearmanr(model.local_bandwidth(others), np.abs(front(others))).statistic)
    assert np.nan_to_num(correlations).mean() > 0.5


def test_strong_noise_leaves_the_measure_to_the_gate() -> None:
    noise = np.random.default_rng(3).standard_normal(300)
    assert fitted(2.0 * np.sin(3.0 * X[:, 0]) + noise).mixture_.other_ruler is None


@pytest.mark.parametrize("options", [{"bandwidths": [0.5, 1.0, 2.0]}, {"tuning": "off"}], ids=["ladder", "off"])
def test_what_is_given_is_measured_by_the_gate(options: dict[str, Any]) -> None:
    assert fitted(peak(X), **options).mixture_.other_ruler is None


def test_a_saved_model_measures_alike(known: MixtureRegressor, tmp_path: Path) -> None:
    assert known.mixture_.other_ruler is not None
    known.save(tmp_path / "model.lobal")
    again = MixtureRegressor.load(tmp_path / "model.lobal")
    np.testing.assert_allclose(again.local_bandwidth(X), known.local_bandwidth(X))
    assert again.engine == Analytic()


def test_fewer_than_two_neighbours_are_refused() -> None:
    with pytest.raises(ValueError, match=r"neighbours must be a whole number, at least 2, got 1"):
        fitted(peak(X), neighbours=1)
