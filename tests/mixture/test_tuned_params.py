"""What Algorithm 2 found, as options."""

from typing import Any

import numpy as np
import pytest

from lobal import Adam, MixtureRegressor
from lobal.mixture.tuned_params import TRAINING, check_tuned_params
from tests.estimator_setting import quick, wave

SHORT = {"engine": Adam(max_epochs=4, batch_size=32), "n_inducing": 30, "n_gate_inducing": 10, "random_state": 0}


@pytest.fixture(scope="module")
def tuned() -> MixtureRegressor:
    return MixtureRegressor(tuning="full", **SHORT).fit(*wave(80))


def test_a_model_with_the_options_found_needs_no_tuning(tuned: MixtureRegressor) -> None:
    model = MixtureRegressor(tuning="off", **SHORT).set_params(**tuned.tuned_params_).fit(*wave(80))
    found, again = tuned.mixture_, model.mixture_
    assert again.bandwidths.tolist() == found.bandwidths.tolist()
    assert again.shared_bandwidth.tolist() == found.shared_bandwidth.tolist()
    assert again.gate.features.shared_bandwidth.tolist() == found.gate.features.shared_bandwidth.tolist()
    assert (again.gate.kappa, again.gate.scale) == (found.gate.kappa, found.gate.scale)
    assert {f"engine__{name}" for name in TRAINING} < set(tuned.tuned_params_)
    assert model.tuned_params_ == {}


@pytest.mark.parametrize("d", [1, 2])
def test_widths_are_in_units_of_the_inputs(d: int) -> None:
    X, y = wave(60, d=d)
    unit = 1e-30  # such inputs are counted in units of their own
    plain, small = (quick("adam", tuning="full", gate_bandwidth=None).fit(factor * X, y) for factor in (1.0, unit))
    for name in ("shared_bandwidth", "gate_bandwidth"):
        assert np.allclose(small.tuned_params_[name], unit * np.array(plain.tuned_params_[name]), rtol=1e-6, atol=0)


def test_a_matrix_of_widths_is_one_again() -> None:
    matrix = [[0.3, 0.1], [0.1, 0.4]]
    model = quick("adam", tuning="full", shared_bandwidth=matrix, gate_bandwidth=0.7).fit(*wave(60, d=2))
    assert model.tuned_params_["shared_bandwidth"] == matrix
    assert model.tuned_params_["gate_bandwidth"] == 0.7


@pytest.mark.parametrize("options", [{"tuning": "off"}, {"tuning": "fast"}, {"engine": "analytic", "tuning": "full"}])
def test_nothing_is_found_without_algorithm_2(options: dict[str, Any]) -> None:
    assert quick(**{"engine": "adam", **options}).fit(*wave(60)).tuned_params_ == {}


def test_once_needs_adam() -> None:
    with pytest.raises(ValueError, match=r"tuning='once' needs the Adam engine, got Analytic\(\); use tuning='full'"):
        quick("analytic", tuning="once").fit(*wave(60))


def test_what_cannot_have_been_found_is_refused(tuned: MixtureRegressor) -> None:
    check_tuned_params({}, "found")
    check_tuned_params(tuned.tuned_params_, "found")
    for changed, message in (
        ({"engine__penalty": -1.0}, "found.engine__penalty must be a number from 0 "),
        ({"shared_bandwidth": [float("nan")]}, r"found.shared_bandwidth\[0\] must be a number"),
        ({"color": "red"}, r"got \['color'\] too"),
    ):
        with pytest.raises(ValueError, match=message):
            check_tuned_params(tuned.tuned_params_ | changed, "found")
    with pytest.raises(ValueError, match="must have the entry 'shared_bandwidth'"):
        check_tuned_params({"bandwidths": [1.0]}, "found")
