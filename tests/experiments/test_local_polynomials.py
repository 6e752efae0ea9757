import json
from pathlib import Path

import numpy as np
import pytest

from experiments import local_polynomials
from experiments.local_polynomials import EDGES, campaign, conclusions, estimates
from lobal.baselines.local_polynomial import LocalPolynomials
from tests.experiments.setting import invoke

SMALL = {"sizes": [16, 32], "candidates": 64}


def test_random_labels_are_the_same_for_all_models() -> None:
    learners = [campaign(model, "random", 0, **SMALL)[0] for model in ("mixture", "lps1")]
    assert np.array_equal(learners[0].labelled.X, learners[1].labelled.X)
    assert np.array_equal(learners[0].labelled.y, learners[1].labelled.y)
    assert isinstance(learners[1].surrogate, LocalPolynomials)


def test_errors_are_measured_at_every_size() -> None:
    learner, errors = campaign("lps3", "active", 0, **SMALL)
    assert {*errors} == {f"{name}_{n}" for name in ("rmse", "max_error", "expected") for n in (16, 32)}
    assert learner.settings.smoothness == 4.0


def test_complexity_and_density_are_densities() -> None:
    found = estimates(campaign("lps1", "random", 0, **SMALL)[0])
    for name in ("complexity", "density"):
        assert np.array(found[name]) @ np.diff(EDGES) == pytest.approx(1.0, rel=1e-3)
    assert 0.0 < min(found["bandwidth"]) <= max(found["bandwidth"]) < 2.0


def test_a_model_that_errs_twice_as_much_is_behind_by_two_and_saves_by_its_own_rate() -> None:
    active, random = {"mixture": 1.0, "lps1": 2.0, "lps3": 2.0}, {"mixture": 1.0, "lps1": 2.0 * 2.0**0.4, "lps3": 2.0}
    result = {f"{model}_{arm}_rmse_32": 1.0 for model in active for arm in ("active", "random")}
    for arm, errors in (("active", active), ("random", random)):
        result |= {f"{model}_{arm}_rmse_64": error for model, error in errors.items()}
    found = conclusions([result], sizes=[32, 64])
    assert found["rmse_over_mixture"]["lps3_active"]["64"]["mean"] == pytest.approx(2.0)
    # Eq. (eq:relSampleSizeLPSApprox): the ratio of squared errors to the power 5/4 for Q = 1.
    assert found["relative_sample_size"]["lps1"]["64"]["mean"] == pytest.approx(0.5)
    assert conclusions([], sizes=[32, 64]) == {}


def test_record_and_figures_are_written_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--start", 16, "--n", 32, "--candidates", 64, "--output", tmp_path / "record.json", "--figures", tmp_path]
    result = invoke("local_polynomials", *words, "--seeds", 1)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "local_polynomials_curves.png",
        "local_polynomials_estimates.png",
    }
    first = json.loads((tmp_path / "record.json").read_text())["results"][0]
    monkeypatch.setattr(local_polynomials, "run", lambda n, seed, **_: first | {"n": n, "seed": seed})
    assert invoke("local_polynomials", *words, "--seeds", 2).exit_code == 0
    assert len(json.loads((tmp_path / "record.json").read_text())["results"]) == 2


def test_sizes_that_are_no_doublings_are_refused(tmp_path: Path) -> None:
    result = invoke("local_polynomials", "--n", 300, "--output", tmp_path / "record.json")
    assert result.exit_code == 2
    assert "doubled at least once" in result.output
