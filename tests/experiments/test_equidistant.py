import json
from pathlib import Path

import numpy as np
import pytest

from experiments import equidistant
from experiments.equidistant import equidistant_data, run
from tests.experiments.setting import invoke


def test_equidistant_inputs_are_nested_and_halve_their_distances() -> None:
    few, many = equidistant_data(8, 0), equidistant_data(16, 0)
    np.testing.assert_array_equal(many.X[:8], few.X)
    np.testing.assert_array_equal(many.y[:8], few.y)
    for sample, distance in ((few, 1 / 8), (many, 1 / 16)):
        np.testing.assert_allclose(np.diff(np.sort(sample.X[:, 0])), distance)


def test_seeds_have_other_noise_at_the_same_inputs() -> None:
    first, second = equidistant_data(8, 0), equidistant_data(8, 1)
    np.testing.assert_array_equal(first.X, second.X)
    assert np.all(first.y != second.y)


@pytest.mark.parametrize("engine", ["analytic", "adam"])
def test_both_kinds_of_inputs_are_measured(engine: str) -> None:
    result = run(32, 0, engine=engine, n_inducing=8, device="cpu")
    assert all(0.0 < result[f"{arm}_rmse"] < result[f"{arm}_max_error"] for arm in equidistant.ARMS)


def test_the_command_draws_its_record_without_fitting_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def invented(n: int, seed: int, **_: object) -> dict[str, float]:
        errors = {"random_rmse": 2.0 / n, "equidistant_rmse": 1.0 / n}
        return {"n": n, "seed": seed, **errors, "random_max_error": 3.0, "equidistant_max_error": 2.0}

    monkeypatch.setattr(equidistant, "run", invented)
    words = ("equidistant", "--sizes", "8,16", "--output", tmp_path / "record.json", "--figure", tmp_path / "a.png")
    assert invoke(*words, "--seeds", 2).exit_code == 0
    monkeypatch.undo()
    monkeypatch.setattr(equidistant, "fitted", None)
    assert invoke(*words, "--seeds", 2).exit_code == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["relative_sample_sizes"]["16"]["rho"] == pytest.approx(0.25)
    assert (tmp_path / "a.png").exists()
    assert "powers of two" in invoke("equidistant", "--sizes", "12", "--output", tmp_path / "b.json").output
