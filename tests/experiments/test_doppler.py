import json
from pathlib import Path

import numpy as np
import pytest

from experiments import doppler
from experiments.doppler import DopplerFit
from lobal.cli.demo import errors_on_grid
from lobal.mixture.adam.engine import Adam
from lobal.mixture.estimator import MixtureRegressor
from tests.experiments.setting import invoke

TINY = {"max_epochs": 3}


@pytest.fixture(scope="module")
def fitted() -> DopplerFit:
    return doppler.fit(64, 0, single_scale=True, **TINY)


def test_the_settings_are_the_papers() -> None:
    model = doppler.paper_model(3)
    np.testing.assert_allclose(model.bandwidths, np.logspace(-3.0, -1.0, 7))
    assert (model.scale, model.gate_bandwidth, model.random_state) == (20.0, 0.05, 3)
    assert model.engine == Adam(sparsity=2, batch_size=512, gate_scale=10.0, penalty=0.5)


def test_more_data_continue_the_same_sequence_and_seeds_and_streams_give_other_data() -> None:
    few, many = doppler.doppler_data(10, 1), doppler.doppler_data(20, 1)
    np.testing.assert_array_equal(many.X[:10], few.X)
    np.testing.assert_array_equal(many.y[:10], few.y)
    data = [doppler.doppler_data(10, *key, stream=stream).X for key, stream in (((0,), 0), ((1,), 0), ((0,), 1))]
    assert len(np.unique(np.concatenate(data))) == 30


def test_the_labels_have_unit_noise_around_the_function() -> None:
    X, y = doppler.doppler_data(20_000, 0)
    assert np.std(y - doppler.DOPPLER(X[:, 0])) == pytest.approx(1.0, abs=0.02)


def test_the_result_holds_the_errors_of_both_models(fitted: DopplerFit) -> None:
    result = fitted.result
    assert (result["n"], result["seed"], result["epochs"]) == (64, 0, 3)
    assert errors_on_grid(fitted.mixture) == (result["rmse"], result["max_error"])
    assert fitted.single_scale is not None
    assert errors_on_grid(fitted.single_scale) == (result["single_scale_rmse"], result["single_scale_max_error"])
    assert 0.0 < result["rmse"] <= result["max_error"]


def test_errors_repeat_with_the_seed(fitted: DopplerFit) -> None:
    same, other = (doppler.run(64, seed, **TINY) for seed in (0, 1))
    assert (same["rmse"], same["max_error"]) == (fitted.result["rmse"], fitted.result["max_error"])
    assert other["rmse"] != same["rmse"]
    assert "single_scale_rmse" not in same


def test_no_neighbouring_bandwidth_validates_better_than_the_single_scale_models(fitted: DopplerFit) -> None:
    assert fitted.single_scale is not None
    smaller = fitted.single_scale.bandwidths[0] / np.sqrt(2.0)
    model = MixtureRegressor(bandwidths=[smaller], experts="exact", random_state=0)
    model.fit(*fitted.sample, validation=fitted.validation)
    X, y = fitted.validation
    assert np.square(model.predict(X) - y).mean() >= np.square(fitted.single_scale.predict(X) - y).mean()


def test_the_fit_command_writes_numbers_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fitted: DopplerFit
) -> None:
    monkeypatch.setattr(doppler, "fit", lambda *_, **__: fitted)
    result = invoke("doppler_fit", "--n", 64, "--single-scale", "--quiet", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert '"single_scale_rmse"' in result.output
    assert json.loads((tmp_path / "result.json").read_text()) == fitted.result
    assert {"overview.png", "bandwidth.png", "comparison.png"} <= {path.name for path in tmp_path.iterdir()}


def test_statistics_resume_and_have_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fitted: DopplerFit
) -> None:
    monkeypatch.setattr(doppler, "run", lambda n, seed, **_: fitted.result | {"n": n, "seed": seed})
    for seeds in (1, 2):
        result = invoke("doppler_statistics", "--sizes", "64", "--seeds", seeds, "--output", tmp_path / "record.json")
        assert result.exit_code == 0, result.output
    assert "seed 0" not in result.output
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["seed"] for row in record["results"]] == [0, 1]
    assert record["settings"]["penalty"] == 0.5
    assert record["summary"][0]["rmse"]["mean"] == pytest.approx(fitted.result["rmse"])
