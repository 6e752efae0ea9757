import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import doppler
from experiments.doppler import DopplerFit
from lobal.mixture.estimator import MixtureRegressor

TINY = {"max_epochs": 3}


@pytest.fixture(scope="module")
def fitted() -> DopplerFit:
    return doppler.with_single_scale(doppler.fit(64, 0, **TINY))


def test_the_settings_are_the_papers() -> None:
    model = doppler.paper_model(3)
    np.testing.assert_allclose(model.bandwidths, np.logspace(-3.0, -1.0, 7))
    assert (model.scale, model.gate_bandwidth, model.gate_scale, model.penalty) == (20.0, 0.05, 10.0, 0.5)
    assert (model.sparsity, model.batch_size, model.random_state) == (2, 512, 3)


def test_changes_override_the_settings() -> None:
    assert doppler.paper_model(0, penalty=0.0).penalty == 0.0


def test_more_data_continue_the_same_sequence() -> None:
    few, many = doppler.doppler_data(10, 1), doppler.doppler_data(20, 1)
    np.testing.assert_array_equal(many.X[:10], few.X)
    np.testing.assert_array_equal(many.y[:10], few.y)


def test_seeds_and_streams_give_other_data() -> None:
    data = [doppler.doppler_data(10, *key, stream=stream).X for key, stream in (((0,), 0), ((1,), 0), ((0,), 1))]
    assert len(np.unique(np.concatenate(data))) == 30


def test_the_labels_have_unit_noise_around_the_function() -> None:
    X, y = doppler.doppler_data(20_000, 0)
    assert np.std(y - doppler.DOPPLER(X[:, 0])) == pytest.approx(1.0, abs=0.02)


def test_the_result_holds_the_errors_of_both_models(fitted: DopplerFit) -> None:
    result = fitted.result
    assert (result.n, result.seed, result.epochs) == (64, 0, 3)
    assert doppler.errors_on_grid(fitted.mixture) == (result.rmse, result.max_error)
    assert doppler.errors_on_grid(fitted.single_scale) == (result.single_scale_rmse, result.single_scale_max_error)
    assert 0.0 < result.rmse <= result.max_error


def test_the_same_seed_gives_the_same_errors(fitted: DopplerFit) -> None:
    result = doppler.run(64, 0, single_scale=False, **TINY)
    assert (result.rmse, result.max_error) == (fitted.result.rmse, fitted.result.max_error)
    assert result.single_scale_rmse is None


def test_another_seed_gives_other_errors(fitted: DopplerFit) -> None:
    assert doppler.run(64, 1, single_scale=False, **TINY).rmse != fitted.result.rmse


def test_no_neighbouring_bandwidth_validates_better_than_the_single_scale_models(fitted: DopplerFit) -> None:
    smaller = fitted.single_scale.bandwidths[0] / np.sqrt(2.0)
    model = MixtureRegressor(bandwidths=[smaller], experts="exact", max_epochs=1, random_state=0)
    model.fit(*fitted.sample, validation=fitted.validation)
    X, y = fitted.validation
    assert np.square(model.predict(X) - y).mean() >= np.square(fitted.single_scale.predict(X) - y).mean()


def test_all_figures_are_written(fitted: DopplerFit, tmp_path: Path) -> None:
    paths = doppler.save_figures(fitted, tmp_path)
    assert {path.name for path in paths} == {path.name for path in tmp_path.iterdir()}
    assert "comparison.png" in {path.name for path in paths}


def test_statistics_resume_and_say_how_they_came_about(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    doppler.statistics([32], 1, path, single_scale=False, **TINY)
    (first,) = json.loads(path.read_text())["results"]
    record = doppler.statistics([32], 2, path, single_scale=False, **TINY)
    assert record["results"][0] == first  # with its seconds: it was not run again
    assert [row["seed"] for row in record["results"]] == [0, 1]
    assert record["command"].endswith("statistics --sizes 32 --seeds 2 --no-single-scale --max_epochs 3")
    assert record["settings"]["penalty"] == 0.5
    assert record["summary"][0]["rmse"]["mean"] == pytest.approx(np.mean([row["rmse"] for row in record["results"]]))


def test_the_fit_command_writes_numbers_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fitted: DopplerFit
) -> None:
    monkeypatch.setattr(doppler, "fit", lambda *_, **__: fitted)
    command = ["fit", "--n", "64", "--no-single-scale", "--quiet", "--output", str(tmp_path)]
    result = CliRunner().invoke(doppler.app, command)
    assert result.exit_code == 0, result.output
    assert "mixture" in result.output
    assert json.loads((tmp_path / "result.json").read_text()) == asdict(fitted.result)
    assert (tmp_path / "overview.png").exists()


def test_the_statistics_command_writes_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fitted: DopplerFit
) -> None:
    monkeypatch.setattr(doppler, "run", lambda *_, **__: fitted.result)
    command = ["statistics", "--sizes", "64", "--seeds", "1", "--output", str(tmp_path / "record.json")]
    result = CliRunner().invoke(doppler.app, command)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "record.json").read_text())["results"] == [asdict(fitted.result)]


def test_options_alone_are_those_of_fit() -> None:
    assert doppler.full_command(["--n", "64"]) == ["fit", "--n", "64"]
    assert doppler.full_command(["statistics", "--seeds", "2"]) == ["statistics", "--seeds", "2"]
    assert doppler.full_command(["--help"]) == ["--help"]


def test_sizes_that_are_no_numbers_are_bad_input(tmp_path: Path) -> None:
    command = ["statistics", "--sizes", "64;128", "--output", str(tmp_path / "record.json")]
    result = CliRunner().invoke(doppler.app, command)
    assert result.exit_code == 2
    assert "64;128" in result.output
