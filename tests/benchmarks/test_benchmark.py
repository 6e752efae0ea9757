"""The benchmark: the GPyTorch models are the paper's mixture, the counts are right, and the command keeps its numbers.

No test asserts how long anything takes.
"""

import importlib.util
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from benchmarks import stages, timing
from benchmarks.__main__ import app
from benchmarks.command import Plan
from benchmarks.gpytorch_mixture import ADAM, fit_gpytorch_mixture, fit_gpytorch_svgp, pretraining_epochs
from benchmarks.gpytorch_models import (
    GPyTorchExperts,
    MixtureModel,
    Start,
    gate_channels,
)
from benchmarks.measuring import Rates, machine_rates, measured, typical_lap
from benchmarks.timing import Row, Task, growth, ratios
from experiments.doppler import doppler_data, paper_model
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import SparseExperts, expected_log_likelihood, kl_divergence
from lobal.mixture.adam.objective import expert_shares, gated_negative_elbo, small_bandwidth_penalty
from lobal.mixture.gate import SoftmaxGate

CPU = torch.device("cpu")
BANDWIDTHS = torch.tensor([0.05, 0.08, 0.15], dtype=torch.float64)
INDUCING = torch.linspace(0.0, 1.0, 8, dtype=torch.float64)[:, None]
SHARED = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.2, 1.0, 0.1)))
X = torch.linspace(0.03, 0.98, 12, dtype=torch.float64)[:, None]
TINY = {"m": 16, "max_epochs": 2, "device": "cpu", "seed": 0}


def experts(values: torch.Tensor) -> GPyTorchExperts:
    """Experts with given whitened inducing values."""
    made = GPyTorchExperts(Start(SHARED, INDUCING), BANDWIDTHS).double().eval()
    made.mean(X)  # which initialises them
    made.gp.values()[0].data.copy_(values)
    return made


def values(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(3, 8, dtype=torch.float64, generator=generator)


def test_gpytorch_experts_predict_like_lobals(generator: torch.Generator) -> None:
    b = values(generator)
    posterior = experts(b).posterior(X)
    features = WhitenedFeatures.at(
        INDUCING, bandwidths=BANDWIDTHS, shared_bandwidth=torch.ones(1).double(), kernel=gaussian
    )
    expected = SparseExperts(features=features, hyperparameters=SHARED, whitened_mean=b).posterior(X)
    assert torch.allclose(posterior.mean, expected.mean, atol=1e-4)  # GPyTorch has the larger jitter
    assert torch.allclose(posterior.variance, expected.variance, atol=1e-4)


def test_the_gpytorch_mixture_minimises_lobals_objective(generator: torch.Generator) -> None:
    b, g = values(generator), 0.1 * values(generator)
    channels = gate_channels(INDUCING, 3, bandwidth=0.5, scale=10.0)
    model = MixtureModel(experts(b), channels, SHARED.noise, ADAM, generator, pretraining=0).eval()
    model.mean(X)
    channels.values()[0].data.copy_(g)
    model._gate_noise = 0.0
    y = torch.sin(9 * X[:, 0])
    shared = torch.ones(1).double()
    features = WhitenedFeatures.at(INDUCING, bandwidths=BANDWIDTHS, shared_bandwidth=shared, kernel=gaussian)
    gate_features = WhitenedFeatures.at(INDUCING, bandwidths=shared, shared_bandwidth=0.5 * shared, kernel=gaussian)
    lobals = SparseExperts(features=features, hyperparameters=SHARED, whitened_mean=b)
    gate = SoftmaxGate(
        features=gate_features,
        scale=torch.tensor(10.0).double(),
        means=torch.zeros(3).double(),
        whitened_mean=g,
        kappa=3,
    )(X)
    mean, variance = lobals.posterior(X)
    log_likelihood = expected_log_likelihood(y - mean, variance + SHARED.noise, torch.zeros_like(mean))
    weight = torch.ones_like(y)
    expected = gated_negative_elbo(gate, log_likelihood, weight, kl_divergence(b, lobals.covariance), 12)
    expected = expected + ADAM.penalty * small_bandwidth_penalty(expert_shares(gate, weight))
    constant = 0.5 * math.log(2 * math.pi) * (1 + 8 / 12)  # which lobal leaves out
    assert model.loss(X, y, 12).item() == pytest.approx(expected.item() + constant, abs=1e-3)


def test_training_in_evaluation_mode_lowers_the_error() -> None:
    sample, validation = doppler_data(64, 0), doppler_data(32, 0, stream=1)
    fitted = fit_gpytorch_mixture(*sample, *validation, **{**TINY, "max_epochs": 12})
    assert fitted.validation_errors[-1] < fitted.validation_errors[0]


@pytest.mark.parametrize("fit", [fit_gpytorch_mixture, fit_gpytorch_svgp])
def test_a_training_cut_short_says_so(fit: object) -> None:
    sample, validation = doppler_data(64, 0), doppler_data(32, 0, stream=1)
    fitted = fit(*sample, *validation, **TINY)  # type: ignore[operator]
    assert (fitted.epochs, len(fitted.validation_errors), len(fitted.times)) == (2, 2, 2)
    assert not fitted.is_finished
    assert fitted.predict(validation.X).shape == (32,)
    assert 0.0 < fitted.seconds_per_epoch < fitted.seconds_to_best <= fitted.seconds


@pytest.mark.parametrize(("n", "max_epochs", "epochs"), [(4096, 1000, 50), (2**20, 1000, 25), (4096, 8, 2)])
def test_pretraining_takes_a_number_of_steps(n: int, max_epochs: int, epochs: int) -> None:
    assert pretraining_epochs(n, replace(ADAM, max_epochs=max_epochs)) == epochs


def test_floors_count_the_operations_of_each_stage() -> None:
    n, m, L = 1000, 10, 7
    floors = stages.stage_floors(n, m, L)
    assert floors[stages.FEATURES].flops == pytest.approx(L * n * m**2 + L * m**3 / 3)
    assert floors[stages.LEVERAGES].flops == L * n * m**2
    assert floors[stages.GRAM].flops == pytest.approx(L * n * m**2 + L * m**3 / 3)
    assert floors[stages.EPOCH].bytes == 8 * L * m * (n + 1024)


def test_features_too_many_to_keep_are_counted_again() -> None:
    kept, recomputed = (stages.stage_floors(n, 512, 7)[stages.LEVERAGES].flops / n for n in (2**17, 2**18))
    assert recomputed == 2 * kept


def test_a_floor_is_the_longer_of_computing_and_moving() -> None:
    work = stages.Work(flops=10.0, bytes=30.0)
    assert work.floor(Rates(flops=1.0, bytes=10.0)) == 10.0
    assert work.floor(Rates(flops=100.0, bytes=10.0)) == 3.0


def test_stages_are_timed_in_the_order_of_a_fit() -> None:
    measured_stages = stages.measured_stages(doppler_data(64, 0), 16, CPU, Rates(flops=1e9, bytes=1e9), seed=0)
    names = [stages.START, stages.FEATURES, stages.GRAM, stages.LEVERAGES, stages.GATE, stages.REFIT]
    assert [stage.name for stage in measured_stages] == names
    assert all(stage.seconds > 0.0 for stage in measured_stages)
    assert [stage.ratio is None for stage in measured_stages] == [True, *[False] * 5]


def test_the_peak_counts_what_is_allocated() -> None:
    before, after = (measured(lambda size=size: torch.ones(size), CPU)[1].peak_mib for size in (1, 2**26))
    assert after > before + 200.0


def test_rates_are_measured() -> None:
    rates = machine_rates(CPU, gemm_size=64, copy_entries=2**16)
    assert min(rates.flops, rates.bytes) > 0.0


def test_a_typical_lap_is_the_median() -> None:
    assert typical_lap([5.0, 6.0, 8.0]) == 2.0


def row(method: str, seconds: float, **changes: object) -> Row:
    numbers = {"n": 100, "rmse": 1.0, "validation_rmse": 1.4, "peak_mib": 500.0, "epochs": 10}
    return Row(method=method, seconds=seconds, **{**numbers, **changes})  # type: ignore[arg-type]


def test_ratios_compare_epochs_with_adam_and_trainings_with_the_analytic_fit() -> None:
    rows = [
        row(timing.ANALYTIC, 2.0),
        row(timing.ADAM, 20.0, seconds_per_epoch=0.5),
        row(timing.MIXTURE, 80.0, seconds_per_epoch=5.0, seconds_to_best=60.0),
    ]
    (found,) = ratios(rows)
    assert (found.equal_epochs, found.to_the_end, found.to_best) == (10.0, 40.0, 30.0)
    (alone,) = ratios(rows[2:])
    assert (alone.equal_epochs, alone.to_the_end) == (None, None)


def test_a_training_cut_short_has_no_end() -> None:
    cut = row(timing.MIXTURE, 12.0, seconds_per_epoch=1.0, seconds_to_best=9.0, is_finished=False)
    (found,) = ratios([row(timing.ANALYTIC, 2.0), cut])
    assert (found.to_the_end, found.to_best) == (None, None)


def test_growth_is_the_power_of_n() -> None:
    rows = [row(timing.ANALYTIC, 3.0 * n**1.5, n=n) for n in (10, 20, 40)]
    assert growth(rows, timing.ANALYTIC) == pytest.approx(1.5)
    assert growth(rows[:1], timing.ANALYTIC) is None


@pytest.mark.parametrize("method", [timing.ANALYTIC, timing.ADAM])
def test_a_row_holds_the_errors_of_a_fit(method: str) -> None:
    task = Task.of_size(64, m=16, device=CPU, seed=0, max_epochs=2)
    found = timing.fit_row(method, task)
    assert (found.n, found.method, found.is_finished) == (64, method, True)
    assert 0.0 < found.rmse < found.validation_rmse + 1.0
    assert (found.seconds_per_epoch is None) == (method == timing.ANALYTIC)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_tiny_benchmark_prints_tables_and_keeps_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "paper_model", partial(paper_model, max_epochs=3))
    result = invoke(
        *("--sizes", 64, "--m", 16, "--max-epochs", 2, "--output", tmp_path, "--quiet"),
        *("--engines", "analytic,adam,gpytorch,svgp"),
    )
    assert result.exit_code == 0, result.output
    assert all(word in result.output for word in ("gpytorch", "Gflop/s", "leverages", "cut off"))
    record = json.loads((tmp_path / "bench.json").read_text())
    assert [entry["method"] for entry in record["rows"]] == list(timing.NAMES)
    assert [entry["to_the_end"] for entry in record["ratios"]] == [None]
    assert record["stages"]["measured"][-1]["name"] == stages.EPOCH
    assert "gpytorch" in record["versions"]


def test_without_gpytorch_its_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gpytorch" else find(name))
    result = invoke("--sizes", "64,96", "--m", 16, "--engines", "analytic,gpytorch", "--output", tmp_path, "--quiet")
    assert result.exit_code == 0, result.output
    assert "GPyTorch is not installed" in result.output
    assert "seconds grow as n^" in result.output
    record = json.loads((tmp_path / "bench.json").read_text())
    assert [(entry["n"], entry["method"]) for entry in record["rows"]] == [(64, timing.ANALYTIC), (96, timing.ANALYTIC)]


@pytest.mark.parametrize(
    "arguments",
    [("--sizes", "many"), ("--sizes", "3"), ("--engines", "fast"), ("--device", "abacus"), ("--m", 0)],
)
def test_a_bad_plan_exits_with_two_before_any_work(arguments: tuple[object, ...], tmp_path: Path) -> None:
    result = invoke(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_plan_names_what_is_wrong_with_it() -> None:
    with pytest.raises(ValueError, match="engines must be some of analytic, adam"):
        Plan(sizes=[64], methods=["fast"])
