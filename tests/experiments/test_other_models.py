import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import other_models
from experiments.doppler import doppler_data
from experiments.other_models import ARMS, FAMILIES, TrainingSet, best_validated, savings
from experiments.repetitions import Result
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.cli.demo import DOPPLER, errors_on_grid
from tests.experiments.setting import invoke

QUICK = {"n_inducing": 32, "n_gate_inducing": 8}


class Constant:
    """A model that knows one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.value)


def dense_at_zero(n: int) -> TrainingSet:
    x = np.random.default_rng(0).random(n) ** 2
    return TrainingSet(x[:, None], DOPPLER(x), 2.0 * np.sqrt(x))


def campaign_without_model(
    arm: str, seed: int, *, sizes: Sequence[int], callbacks: Sequence[Callable[[ActiveLearner], None]], **_: Any
) -> None:
    """In the place of a campaign: a learner that is told points it did not ask for, and so never fits."""
    learner = ActiveLearner(Box(0.0, 1.0, n_candidates=256), seed=seed)
    X, y, _ = dense_at_zero(sizes[-1])
    for start, end in zip([0, *sizes], sizes, strict=False):
        learner.tell(X[start:end], y[start:end])
        for callback in callbacks:
            callback(learner)


def invented(n: int, seed: int, gain: float = 0.5) -> Result:
    """A result whose active errors are `gain` times the random ones."""
    factors = {"random": 1.0, "active": gain, "weighted": 1.0}
    return {"n": n, "seed": seed} | {
        f"{name}_{arm}_rmse_{size}": factors[arm] * (1.0 + 0.1 * seed) / size**0.5
        for name in FAMILIES
        for arm in ARMS
        for size in other_models.sizes_up_to(n)
    }


def test_the_sets_of_a_campaign_grow_and_carry_its_weights() -> None:
    sets = other_models.training_sets(128, 3, **QUICK)
    assert {arm: [len(labels.y) for labels in by_size.values()] for arm, by_size in sets.items()} == {
        arm: [16, 32, 64, 128] for arm in ARMS
    }
    np.testing.assert_array_equal(sets["weighted"][128].X[:64], sets["active"][64].X)
    np.testing.assert_allclose(sets["weighted"][16].weight, 1.0)  # the start follows q
    assert np.ptp(sets["weighted"][128].weight) > 0.0 == np.ptp(sets["active"][128].weight)


def test_the_random_arm_is_uniform_labels_of_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_models, "campaign", campaign_without_model)
    labels = other_models.training_sets(128, 3)["random"][64]
    X, y = doppler_data(64, 3)
    np.testing.assert_array_equal(labels.X, X)
    np.testing.assert_array_equal(labels.y, y)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_model_learns(name: str) -> None:
    x = np.linspace(0.3, 0.9, 40)
    labels, validation = dense_at_zero(200), doppler_data(100, 0, stream=1)
    model = best_validated(FAMILIES[name].fitted(labels, 0), validation)
    assert np.std(model.predict(x[:, None]) - DOPPLER(x)) < 0.5 * np.std(DOPPLER(x))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_model_heeds_the_weights(name: str) -> None:
    x, labels = np.linspace(0.0, 1.0, 20)[:, None], dense_at_zero(64)
    weighted, even = (FAMILIES[name].fitted(part, 0) for part in (labels, labels._replace(weight=np.ones(64))))
    # Not all candidates: leaves of one label have no mean for weights to change.
    assert any(not np.allclose(one.predict(x), other.predict(x)) for one, other in zip(weighted, even, strict=True))


def test_errors_are_those_against_the_noise_free_function() -> None:
    errors = errors_on_grid(Constant(0.0))
    assert errors.rmse == pytest.approx(7.0, rel=1e-4)  # the norm of the function, Sec. 5.1
    assert errors.max_error > errors.rmse


def test_a_run_has_errors_of_every_model_arm_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_models, "campaign", campaign_without_model)
    for grid in ("LEAF_SIZES", "UNITS_PER_LABEL", "OVERLAPS", "RIDGES", "BANDWIDTHS"):
        monkeypatch.setattr(other_models, grid, getattr(other_models, grid)[1:2])
    result = other_models.run(128, 0)
    assert set(invented(128, 0)) <= set(result)
    assert all(result[name.replace("rmse", "max_error")] > result[name] > 0.0 for name in result if "rmse" in name)


def test_half_the_error_is_a_quarter_of_the_labels() -> None:
    results = [invented(128, seed) for seed in range(3)]
    saved = savings(results, "forest", "active")
    np.testing.assert_allclose(saved.rho, [0.25] * 3)
    assert saved.overall.value == pytest.approx(0.25)
    assert savings(results, "forest", "weighted").overall.value == pytest.approx(1.0)


def test_the_command_keeps_its_results_draws_them_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_models, "run", invented)
    command = ("other_models", "--n", 128, "--output", tmp_path / "record.json", "--figure", tmp_path / "curves.png")
    first = invoke(*command, "--seeds", 1)
    assert first.exit_code == 0, first.output
    assert "from a single repetition" in first.output
    second = invoke(*command, "--seeds", 2)
    assert "seed 0" not in second.output
    assert "saved 75" in second.output
    assert [row["seed"] for row in json.loads((tmp_path / "record.json").read_text())["results"]] == [0, 1]
    assert (tmp_path / "curves.png").exists()
