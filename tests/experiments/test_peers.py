"""Campaigns of the comparison with other active learners, and the tables that are made of them."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from experiments.peers import campaigns, protocol
from experiments.peers.calibration import cases, measured
from experiments.peers.campaigns import JUDGES, Task, finished, run, single_scale_gp, stages
from experiments.peers.problems import DECISION, FUNCTIONS, REPORT, SIMULATORS, problem, sampled
from experiments.peers.report import HINDSIGHT, best_in_hindsight, curves_figure, log_ratios, losses, ratio, table
from lobal.active.expected_savings import ExpectedSavings
from tests.baselines.setting import with_its_package
from tests.experiments.setting import invoke


@pytest.fixture(autouse=True)
def few_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "SIZES", {"few": (12, 24), "many": (16, 32)})


def test_the_halves_share_no_problem_and_hold_all_functions() -> None:
    assert not {*DECISION, *SIMULATORS} & {*REPORT}
    assert {*FUNCTIONS} <= {*DECISION, *SIMULATORS, *REPORT}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_labels_with_their_noise_and_a_truth_without(name: str) -> None:
    case, again = (sampled(FUNCTIONS[name], 1) for _ in range(2))
    assert case.X.shape == (len(case.y), FUNCTIONS[name].columns)
    np.testing.assert_array_equal(case.y, again.y)
    clean = FUNCTIONS[name].function(case.X, 1)
    assert (case.y - clean).std() == pytest.approx(FUNCTIONS[name].noise, rel=0.05, abs=1e-9)
    np.testing.assert_allclose(case.truth, FUNCTIONS[name].function(case.X_test, 1), atol=1e-9)
    assert (case.y_test - case.truth).std() == pytest.approx(FUNCTIONS[name].noise, rel=0.05, abs=1e-9)


def test_files_are_weighted_by_area_and_prices_are_logarithms(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).random((50, 2)), np.linspace(1.0, 2.0, 50)
    np.savez(tmp_path / "diamonds.npz", X=X, y=y)
    np.savez(tmp_path / "grid.npz", X=X, y=y, inputDensity=np.where(X[:, 0] < 0.5, 4.0, 1.0))
    assert problem("diamonds", 0, tmp_path).y.max() <= np.log(2.0)
    case = problem("grid", 0, tmp_path)
    assert len(case.y) == 40
    dense = case.X[:, 0] < 0.5
    assert case.importance[~dense].mean() == pytest.approx(4.0 * case.importance[dense].mean())


@pytest.mark.parametrize("strategy", ["random", "lobal", "lobal, constant complexity", "lobal, random draws"])
def test_all_strategies_begin_with_the_same_labels_and_never_repeat_one(strategy: str) -> None:
    case = sampled(FUNCTIONS["peaks2"], 0)
    (first, weight, expected), (second, _, last) = stages(Task("peaks2", strategy, "few", 0), case)
    random = next(stages(Task("peaks2", "random", "few", 0), case)).rows
    assert last is None
    np.testing.assert_allclose(weight, 1.0, atol=0.1)  # the start follows the test density
    assert (expected is None) or strategy != "random"
    np.testing.assert_array_equal(first, random)
    np.testing.assert_array_equal(second[:12], first)
    assert len({*second.tolist()}) == 24


def test_the_single_process_interpolates_a_smooth_function() -> None:
    X = np.linspace(0.0, 1.0, 30)[:, None]
    at = np.array([[0.31], [0.77]])
    np.testing.assert_allclose(single_scale_gp(X, np.sin(6.0 * X[:, 0]), at, 0), np.sin(6.0 * at[:, 0]), atol=1e-3)


def test_a_campaign_has_errors_of_every_judge_at_every_size(tmp_path: Path) -> None:
    result = run(Task("peaks2", "random", "few", 3), data=tmp_path)
    assert result["n"] == [12, 24]
    assert {*result["errors"]} == {*JUDGES}
    for errors in result["errors"].values():
        assert all(largest >= rmse > 0.0 for rmse, largest in zip(errors["rmse"], errors["max_error"], strict=True))


def test_the_command_resumes_and_a_line_that_was_cut_off_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "peers.jsonl"
    monkeypatch.setattr(campaigns, "results_as_they_come", unmeasured)
    options = (path, "--data", tmp_path, "--half", "peaks2", "--strategies", "random;lobal", "--sizes", "few")
    assert "2 of 2" in invoke("peers", *options, "--seeds", 1).output
    path.write_text(path.read_text()[:-3])
    assert "3 of 3" in invoke("peers", *options, "--seeds", 2).output
    assert len(finished(path)) == 4


def unmeasured(_: object, tasks: list[Task], *__: object) -> Iterator[dict[str, object]]:
    return ({**task._asdict(), "n": []} for task in tasks)


def record(factors: dict[str, float], seeds: int = 3) -> dict[Task, dict[str, object]]:
    """Errors of random labels times a factor for each strategy, a little different for every seed."""
    made = {}
    for problem_name in REPORT:
        for strategy, factor in {"random": 1.0, **factors}.items():
            for seed in range(seeds):
                wobble = 1.0 if strategy == "random" else 1.0 + 0.01 * seed
                errors = {judge: {"rmse": [1.0, factor * wobble]} for judge in JUDGES}
                made[Task(problem_name, strategy, "few", seed)] = {"n": [12, 24], "errors": errors}
    return made


def test_ratios_are_geometric_means_with_standard_errors_over_seeds() -> None:
    found = ratio(record({"half": 0.5}), REPORT, "half", "few", "mixture")
    assert found is not None
    logs = np.log(0.5 * np.array([1.0, 1.01, 1.02]))
    assert found.mean == pytest.approx(np.exp(logs.mean()))
    assert found.standard_error == pytest.approx(found.mean * logs.std(ddof=1) / np.sqrt(3))
    assert log_ratios(record({"half": 0.5}), "ato", "half", "few", "gp").shape == (3, 1)
    assert ratio(record({"half": 0.5}), REPORT, "half", "many", "mixture") is None


def test_losses_are_named_and_the_table_has_a_row_for_every_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = record({"half": 0.5, "worse": 1.2})
    assert not losses(made, "half", "mixture")
    assert {name for name, _, _ in losses(made, "worse", "mixture")} == {*REPORT}
    rows = table(made, "report")
    assert [row[0] for row in rows] == ["half", "worse"]
    assert rows[1][4].startswith("1.212 ± 0.007")
    assert rows[1][1] == ""


def test_the_best_in_hindsight_takes_the_least_ratio_of_every_problem() -> None:
    made = record({"one": 0.8, "other": 1.0, "third": 1.1}, seeds=1)
    for task in [task for task in made if task[:2] == (REPORT[0], "other")]:
        made[task] = {"n": [12, 24], "errors": {judge: {"rmse": [1.0, 0.2]} for judge in JUDGES}}
    others = len(REPORT) - 1
    assert best_in_hindsight(made, REPORT, "few", "gp") == pytest.approx((0.2 * 0.8**others) ** (1 / len(REPORT)))
    assert best_in_hindsight(made, REPORT, "many", "gp") is None
    assert table(made, "report")[-1][0] == HINDSIGHT


@pytest.mark.parametrize("last", [0.98, 0.5, 1e-3])
def test_every_panel_has_two_numbers_at_least(last: float) -> None:
    made = record({"half": 0.5}, seeds=2)
    for entry in made.values():
        entry["errors"] = {judge: {"rmse": [4.4, 4.4 * last]} for judge in JUDGES}
    figure = curves_figure(made, REPORT, "few")
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == len(REPORT)
    for axes in panels:
        lower, upper = axes.get_ylim()
        assert len([label for label in axes.get_yticklabels() if lower <= label.get_position()[1] <= upper]) >= 2


def test_savings_are_the_labels_that_reach_the_same_error() -> None:
    n = [100, 200, 400]
    other = np.log(np.array([[1.0, 0.5, 0.25]] * 3))  # errors fall with 1 / n
    own = other + np.log(np.array([1.0, 0.8, 0.5])) + 0.01 * np.arange(3)[:, None]
    found = measured(own, other, n, 1)
    assert found.share == pytest.approx(1.0 - 0.8 * np.exp(0.01))
    assert found.standard_error == pytest.approx(0.8 * np.exp(0.01) * 0.01 / np.sqrt(3))


def test_expected_savings_stand_beside_those_that_were_measured_next(tmp_path: Path) -> None:
    made = record({"lobal": 0.5, "lobal, constant complexity": 0.8})
    for task, entry in made.items():
        entry["expected"] = [(0.3, 0.1) if task.seed else None, None]
    found = cases(made, "report")
    assert {case.problem for case in found} == {*REPORT}
    case = found[0]
    assert (case.n, case.known, case.expected) == (12, 2, pytest.approx(0.3))
    assert case.standard_error == pytest.approx(ExpectedSavings(0.3, 0.1).standard_error)
    assert 0.0 < case.measured.share < case.against_random.share
    assert case.is_covered(100.0)
    assert not case.is_covered(0.0)
    assert cases(made, "decision") == []
    path = tmp_path / "peers.jsonl"
    path.write_text("".join(json.dumps({**task._asdict(), **entry}) + "\n" for task, entry in made.items()))
    output = invoke("peers_calibration", path, "--figure", tmp_path / "figure.png").output
    assert "report half, at least 0.10 expected: within 2 standard errors in" in output
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_the_protocol_of_bmdal_reg_is_judged_by_its_network(tmp_path: Path) -> None:
    with_its_package("lcmd")
    X = np.random.default_rng(0).random((400, 2))
    np.savez(tmp_path / "flat.npz", X=X, y=np.sin(5.0 * X[:, 0]))
    result = protocol.run(Task("flat", "lobal", "protocol", 0), data=tmp_path, sizes=(30, 60))
    assert result["n"] == [30, 60]
    assert all(0.0 < rmse < 1.0 for errors in result["rmse"].values() for rmse in errors)


def test_the_protocol_resumes_and_prints_mean_logarithms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(_: object, tasks: list[Task], *__: object) -> Iterator[dict[str, object]]:
        return ({**task._asdict(), "rmse": {judge: [0.5, 0.5] for judge in protocol.JUDGES}} for task in tasks)

    monkeypatch.setattr(campaigns, "results_as_they_come", results)
    options = (tmp_path / "record.jsonl", "--data", tmp_path, "--strategies", "random")
    assert invoke("peers_protocol", *options, "--seeds", 1).output.count("random, protocol") == 3
    again = invoke("peers_protocol", *options, "--seeds", 2).output
    assert again.count("random, protocol") == 3
    assert "-0.693 ± 0.000" in again
    assert protocol.mean_log_rmse({}, "diamonds", "random", "network") == ""
