import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments import inducing_points
from experiments.inducing_points import ARMS, CHOICES, TARGETS, Reference, with_points
from experiments.repetitions import Result
from lobal.cli.demo import DOPPLER, Errors, errors_on_grid
from lobal.mixture.estimator import MixtureRegressor
from tests.experiments.setting import invoke

SIZES = (8, 16, 32)


@pytest.fixture(scope="module")
def reference() -> Reference:
    """Labels that are denser where the function is complex, p = 1 / (2 sqrt(x))."""
    rng = np.random.default_rng(0)
    x = np.square(rng.random(300))
    y = DOPPLER.labels(x, rng)
    model = MixtureRegressor(n_inducing=64, n_gate_inducing=16, random_state=0).fit(x[:, None], y)
    return Reference(x[:, None], y, 0.5 / np.sqrt(x), model, model.local_complexity(x[:, None]))


def invented(n: int, seed: int, *, sizes: tuple[int, ...], **_: Any) -> Result:
    """A result in which the LFC needs half as many points as all else."""
    result: Result = {"n": n, "seed": seed}
    for arm in ARMS:
        result[f"reference_{arm}_rmse"] = 1.0
        for how, names in {"fitted": TARGETS, "given": CHOICES}.items():
            for name, m in [(name, m) for name in names for m in sizes]:
                result[f"{how}_{arm}_{name}_rmse_{m}"] = max(1.0, (16.0 if name == "lfc" else 32.0) / m)
    return result


def test_points_follow_their_target_density(reference: Reference) -> None:
    """Points near the complex end: the fewest under p, the most under the LFC, the geometric mean between them."""
    chosen = {name: CHOICES[name](reference, [64], torch.Generator())[64] for name in TARGETS}
    near = {name: (points < 0.1).double().mean().item() for name, points in chosen.items()}
    assert near["p"] == pytest.approx(np.mean(reference.X < 0.1), abs=0.05)
    assert near["p"] < near["geometric"] < near["lfc"]


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_gives_points_among_the_inputs(name: str, reference: Reference) -> None:
    chosen = CHOICES[name](reference, SIZES, torch.Generator().manual_seed(0))
    assert {m: len(points) for m, points in chosen.items()} == {m: m for m in SIZES}
    assert all(reference.X.min() <= points.min() <= points.max() <= reference.X.max() for points in chosen.values())


@pytest.mark.parametrize("name", ["fast_forward", "fast_forward_smallest", "variance"])
def test_greedy_choices_of_fewer_points_begin_those_of_more(name: str, reference: Reference) -> None:
    together = CHOICES[name](reference, SIZES, torch.Generator())
    alone = CHOICES[name](reference, [16], torch.Generator())
    torch.testing.assert_close(together[32][:16], alone[16])


def test_given_its_own_points_the_reference_stays_as_it_is(reference: Reference) -> None:
    again = with_points(reference, reference.experts.features.points)
    assert errors_on_grid(again).rmse == pytest.approx(errors_on_grid(reference.model).rmse, rel=0.03)


def test_given_points_leave_the_reference_untouched(reference: Reference) -> None:
    before = errors_on_grid(reference.model)
    other = with_points(reference, reference.tensor(np.linspace(0.0, 1.0, 8)[:, None]))
    assert errors_on_grid(reference.model) == before
    assert errors_on_grid(other).rmse > 1.2 * before.rmse


def test_a_fit_takes_its_number_of_points_and_their_weights(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(MixtureRegressor, "fit", lambda self, *_, **options: seen.update(options, m=self.n_inducing))
    monkeypatch.setattr(inducing_points, "errors_on_grid", lambda _: Errors(1.0, 2.0))
    inducing_points.fitted_errors(reference, 8, TARGETS["lfc"](reference), 0)
    assert seen["m"] == 8
    np.testing.assert_allclose(seen["inducing_weight"], reference.complexity / reference.density)


def test_a_run_has_errors_of_every_choice_number_and_training_set(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inducing_points, "REFERENCES", dict.fromkeys(ARMS, lambda *_, **__: reference))
    monkeypatch.setattr(inducing_points, "fitted_errors", lambda *_: Errors(1.0, 2.0))
    monkeypatch.setattr(inducing_points, "with_points", lambda reference, _: reference.model)
    monkeypatch.setattr(inducing_points, "errors_on_grid", lambda _: Errors(1.0, 2.0))
    monkeypatch.setattr(inducing_points, "MOST_CHOSEN", 16)
    result = inducing_points.run(300, 0, sizes=SIZES, n_inducing=64, device="cpu")
    missing = set(invented(300, 0, sizes=SIZES)) - set(result)
    assert missing == {f"given_{arm}_{name}_rmse_32" for arm in ARMS for name in CHOICES}
    assert all(result[name.replace("rmse", "max_error")] > result[name] for name in result if "rmse" in name)


def test_the_active_training_set_is_denser_where_its_density_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inducing_points, "sizes_up_to", lambda n: [n // 4, n])
    active = inducing_points.active_reference(128, 0, n_inducing=32, device="cpu")
    assert active.density.shape == active.complexity.shape == active.y.shape == (128,)
    assert np.mean(1.0 / active.density) == pytest.approx(1.0, abs=0.3)  # the integral of one over the unit interval
    assert np.ptp(active.density) > 0.0


def test_the_command_keeps_its_results_draws_them_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inducing_points, "run", invented)
    monkeypatch.setenv("COLUMNS", "200")
    command = ("inducing_points", "--n", 512, "--sizes", "8,16,32", "--output", tmp_path / "record.json")
    first = invoke(*command, "--seeds", 1)
    assert first.exit_code == 0, first.output
    second = invoke(*command, "--seeds", 2, "--figure", tmp_path / "curves.png")
    assert "seed 0" not in second.output
    assert "seed 1" in second.output
    assert [row["seed"] for row in json.loads((tmp_path / "record.json").read_text())["results"]] == [0, 1]
    assert (tmp_path / "curves.png").exists()
