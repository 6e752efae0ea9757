from pathlib import Path

import pytest

from experiments import tuning
from lobal import MixtureRegressor


def test_errors_and_seconds_of_every_model_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"n_inducing": 20, "n_gate_inducing": 10}
    small = tuning.Model("nothing set", lambda seed: MixtureRegressor(**options, random_state=seed))
    monkeypatch.setattr(tuning, "MODELS", {"default": small})
    tuning.main(tmp_path / "tuning.json", n=64, seeds=2)
    shown = capsys.readouterr().out
    assert "default_rmse" in shown
    assert (tmp_path / "tuning.json").read_text().count('"default_rmse"') == 3  # two results and their mean
