import numpy as np
import pytest

from experiments.figures.heteroscedastic import PLACES, noise_figure
from experiments.heteroscedastic import ARMS, VARYING, learner_for, run
from experiments.repetitions import Result
from tests.experiments.setting import invoke

SMALL = {"start": 64, "n_inducing": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {arm: run(64, 0, arm=arm, **SMALL) for arm in ARMS}


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_has_errors_a_bandwidth_and_a_density(arm: str, results: dict[str, Result]) -> None:
    result = results[arm]
    assert 0.0 < result["rmse_64"] < result["max_error_64"]
    assert len(result["local_bandwidth"]) == len(result["density"]) == len(PLACES)
    assert np.mean(result["density"]) == pytest.approx(1.0, abs=0.01)


def test_arms_of_one_problem_start_from_the_same_labels(results: dict[str, Result]) -> None:
    assert len({results[arm]["rmse_64"] for arm in ("aware", "blind", "random")}) == 1
    assert results["homoscedastic"]["rmse_64"] != results["aware"]["rmse_64"]


def test_only_the_aware_arm_follows_the_noise() -> None:
    """Its density over that of the blind one is the root of the noise, Eq. (eq:GeneralizedOptimalSamplingInfAlpha)."""
    densities = {}
    for arm in ("aware", "blind"):
        learner = learner_for(arm, 0, n_inducing=16, device="cpu")
        X = learner.ask(64)
        learner.tell(X, VARYING(X[:, 0]))
        densities[arm] = learner.superior_density()
    ratio = densities["aware"] / densities["blind"]
    noise = np.sqrt(VARYING.noise_variance(learner.candidates.X[:, 0]))
    np.testing.assert_allclose(ratio / ratio.mean(), noise / noise.mean(), rtol=1e-6)


def test_the_figure_has_data_bandwidths_densities_and_errors(results: dict[str, Result]) -> None:
    figure = noise_figure({arm: [result] for arm, result in results.items()}, VARYING)
    data, bandwidths, densities, errors = figure.axes
    assert [len(axes.get_lines()) for axes in (data, bandwidths, densities)] == [3, 2, 3]
    assert len(errors.containers) == 3
    np.testing.assert_allclose(bandwidths.get_lines()[0].get_ydata(), results["aware"]["local_bandwidth"])


def test_an_unknown_arm_is_refused() -> None:
    result = invoke("heteroscedastic", "deaf", "--output", "nowhere.json")
    assert result.exit_code == 2
    assert "'deaf'" in result.output
