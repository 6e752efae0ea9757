"""Counts of operations are right, and the command keeps its numbers. No test asserts how long anything takes."""

import importlib.util
import json
from functools import partial
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from benchmarks import stages, timing
from benchmarks.__main__ import app
from benchmarks.gpytorch_svgp import fit_gpytorch_svgp
from benchmarks.measuring import Rates, machine_rates, measured
from benchmarks.timing import Row, Task, growth
from experiments.doppler import doppler_data, paper_model

CPU = torch.device("cpu")


def test_the_svgp_learns_and_says_whether_it_was_cut_short() -> None:
    sample, validation = doppler_data(64, 0), doppler_data(32, 0, stream=1)
    fitted = fit_gpytorch_svgp(*sample, *validation, m=16, max_epochs=12, device="cpu", seed=0)
    assert len(fitted.validation_errors) == len(fitted.times) == 12
    assert not fitted.is_finished
    assert min(fitted.validation_errors) < fitted.validation_errors[0]
    assert fitted.predict(validation.X).shape == (32,)
    assert 0.0 < fitted.seconds_per_epoch < fitted.seconds


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
    assert [stage.floor is None for stage in measured_stages] == [True, *[False] * 5]


def test_the_peak_counts_what_is_allocated() -> None:
    before, after = (measured(lambda size=size: torch.ones(size), CPU)[1].peak_mib for size in (1, 2**26))
    assert after > before + 200.0


def test_rates_are_measured() -> None:
    rates = machine_rates(CPU, gemm_size=64, copy_entries=2**16)
    assert min(rates.flops, rates.bytes) > 0.0


def row(method: str, seconds: float, **changes: object) -> Row:
    numbers = {"n": 100, "rmse": 1.0, "validation_rmse": 1.4, "peak_mib": 500.0, "epochs": 10}
    return Row(method=method, seconds=seconds, **{**numbers, **changes})  # type: ignore[arg-type]


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
        *("--engines", "analytic,adam,svgp"),
    )
    assert result.exit_code == 0, result.output
    assert all(word in result.output for word in ("svgp", "Gflop/s", "leverages", "cut off"))
    record = json.loads((tmp_path / "bench.json").read_text())
    assert [entry["method"] for entry in record["rows"]] == list(timing.NAMES)
    assert record["stages"]["measured"][-1]["name"] == stages.EPOCH
    assert "gpytorch" in record["versions"]


def test_without_gpytorch_its_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gpytorch" else find(name))
    result = invoke("--sizes", "64,96", "--m", 16, "--engines", "analytic,svgp", "--output", tmp_path, "--quiet")
    assert result.exit_code == 0, result.output
    assert "GPyTorch is not installed" in result.output
    assert "seconds grow as n^" in result.output
    record = json.loads((tmp_path / "bench.json").read_text())
    assert [(entry["n"], entry["method"]) for entry in record["rows"]] == [(64, timing.ANALYTIC), (96, timing.ANALYTIC)]


@pytest.mark.parametrize(
    "arguments", [("--sizes", "many"), ("--sizes", "3"), ("--engines", "fast"), ("--device", "abacus"), ("--m", 0)]
)
def test_a_bad_plan_exits_with_two_before_any_work(arguments: tuple[object, ...], tmp_path: Path) -> None:
    result = invoke(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()
