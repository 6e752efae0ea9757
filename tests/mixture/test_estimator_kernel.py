"""Which kernel a model has: the one that is given, or the one that predicts labels best from the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal import MixtureRegressor
from lobal.core.kernels import KERNELS, gaussian, matern32, matern52
from tests.estimator_setting import quick, rmse

x = np.random.default_rng(0).random((80, 1))
GRID = np.linspace(0.02, 0.98, 400)[:, None]


def smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(6.0 * X[:, 0])


def kinks(X: np.ndarray) -> np.ndarray:
    return np.abs(X[:, 0] - 0.37) + np.abs(X[:, 0] - 0.71)


@pytest.fixture(scope="module")
def rough() -> MixtureRegressor:
    return quick().fit(x, kinks(x))


def test_the_kernel_follows_the_function(rough: MixtureRegressor) -> None:
    assert quick().fit(x, smooth(x)).mixture_.kernel is gaussian
    assert rough.mixture_.kernel in (matern32, matern52)
    assert rough.kernel == "auto"


def test_a_rough_function_is_predicted_better_with_its_kernel(rough: MixtureRegressor) -> None:
    given = quick(kernel="gaussian").fit(x, kinks(x))
    assert rmse(rough.predict(GRID), kinks(GRID)) < rmse(given.predict(GRID), kinks(GRID))


@pytest.mark.parametrize("experts", ["sparse", "exact"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_a_kernel_that_is_given_is_kept(kernel: str, experts: str) -> None:
    assert quick(kernel=kernel, experts=experts).fit(x, kinks(x)).mixture_.kernel is KERNELS[kernel]


@pytest.mark.parametrize("options", [{"engine": "adam", "max_epochs": 2}, {"tuning": "off"}], ids=["adam", "off"])
def test_adam_and_fits_without_tuning_have_the_gaussian(options: dict[str, Any]) -> None:
    assert quick(**options).fit(x, kinks(x)).mixture_.kernel is gaussian


def test_full_tuning_keeps_the_kernel_it_compares_gates_with() -> None:
    assert quick(tuning="full").fit(x, kinks(x)).mixture_.kernel in (matern32, matern52)


def test_a_saved_model_has_the_kernel_that_was_chosen(rough: MixtureRegressor, tmp_path: Path) -> None:
    rough.save(tmp_path / "model.lobal")
    again = MixtureRegressor.load(tmp_path / "model.lobal")
    assert again.mixture_.kernel is rough.mixture_.kernel
    np.testing.assert_allclose(again.predict(GRID), rough.predict(GRID))


def test_local_bandwidths_are_measured_by_gaussian_experts(rough: MixtureRegressor, tmp_path: Path) -> None:
    gaussian_only = quick(kernel="gaussian").fit(x, kinks(x))
    np.testing.assert_allclose(rough.local_bandwidth(GRID), gaussian_only.local_bandwidth(GRID))
    rough.save(tmp_path / "model.lobal")
    again = MixtureRegressor.load(tmp_path / "model.lobal")
    np.testing.assert_array_equal(again.local_bandwidth(GRID), rough.local_bandwidth(GRID))


def test_local_bandwidths_of_a_kernel_that_is_given_are_its_own() -> None:
    assert quick(kernel="matern52", neighbours=None).fit(x, kinks(x)).mixture_.other_ruler is None
