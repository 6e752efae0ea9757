"""Intervals and likelihoods of the default model and of others, and the tables that are made of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor
from typer.testing import CliRunner, Result

from benchmarks import calibration, interval_models
from benchmarks.calibration import PROBLEMS, Campaign, campaign, case_of, figures, fits, random_labels, run
from benchmarks.calibration_tables import HEADER, RANKS_HEADER, REAL, Fit, change_rows, rank_rows, read_record, rows
from benchmarks.interval_models import MODELS, Prediction, leaf_weights, normal, weighted_quantile
from experiments.patch_size import PATCHES
from experiments.peers.problems import FUNCTIONS, SIMULATORS, Problem
from lobal.mixture.estimator import MixtureRegressor


def noisy_line(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, 3.0 * X[:, 0] + 0.3 * rng.standard_normal(n)


def of_labels(y: np.ndarray, weight: np.ndarray | None = None) -> Problem:
    """A problem of which only the test labels matter."""
    X, ones = np.zeros((len(y), 1)), np.ones(len(y))
    return Problem(X, y, ones, X, y, ones if weight is None else weight, y)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_covers_most_labels_of_a_noisy_line(name: str) -> None:
    X, y = noisy_line(300)
    X_test, y_test = noisy_line(1000, seed=1)
    found = MODELS[name](X, y, np.ones(300), 0)(X_test)
    assert 0.75 < np.mean((found.lower <= y_test) & (y_test <= found.upper)) < 1.0
    assert np.sqrt(np.mean((found.mean - y_test) ** 2)) < 0.4
    assert np.median(found.sd) == pytest.approx(0.3, rel=0.4)
    assert (found.validation_error is not None) == (name == "mixture")


def test_the_interval_of_the_mixture_is_its_own_where_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithIntervals(MixtureRegressor):
        def predict(self, X: np.ndarray, return_std: bool = False, return_interval: float = 0.0) -> Any:
            mean = super().predict(X)
            return (mean, mean) if return_std else (mean, mean - return_interval, mean + return_interval)

    monkeypatch.setattr(interval_models, "MixtureRegressor", WithIntervals)
    X, y = noisy_line(30)
    found = interval_models.mixture(X, y, np.ones(30), 0)(X)
    np.testing.assert_allclose(found.upper - found.mean, 0.95)
    np.testing.assert_allclose(found.mean - found.lower, 0.95)


def test_weights_of_leaves_are_those_of_the_trees() -> None:
    X, y = noisy_line(60)
    forest = RandomForestRegressor(7, bootstrap=False, max_features=1, min_samples_leaf=4, random_state=0).fit(X, y)
    X_test, _ = noisy_line(20, seed=1)
    weights = leaf_weights(forest.apply(X), forest.apply(X_test))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights @ y, forest.predict(X_test))


def test_weighted_quantiles_are_labels_at_which_the_share_is_reached() -> None:
    y, weights = (
        np.array([3.0, 1.0, 2.0]),
        np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.98, 0.01, 0.01]]) / [[3], [1], [1]],
    )
    np.testing.assert_array_equal(weighted_quantile(y, weights, 0.5), [2.0, 1.0, 3.0])
    np.testing.assert_array_equal(weighted_quantile(y, weights, 0.025), [1.0, 1.0, 3.0])
    np.testing.assert_array_equal(weighted_quantile(y, weights, 0.975), [3.0, 1.0, 3.0])


def test_figures_of_the_true_distribution() -> None:
    y = 5.0 + 2.0 * norm.ppf((np.arange(2000) + 0.5) / 2000)
    found = figures(normal(np.full(2000, 5.0), np.full(2000, 2.0), validation_error=1.0), of_labels(y))
    assert found["coverage"] == pytest.approx(0.95, abs=1e-3)
    assert found["width"] == pytest.approx(2.0 * 1.96, rel=1e-2)
    assert found["nll"] == pytest.approx(norm().entropy(), rel=1e-2)
    assert found["rmse"] == pytest.approx(1.0)
    assert found["validation_ratio"] == pytest.approx(0.5, rel=1e-2)


def test_test_labels_count_by_their_weight_and_no_model_is_certain() -> None:
    y, nothing = np.array([0.0, 2.0]), np.zeros(2)
    found = figures(Prediction(nothing, nothing, nothing, nothing), of_labels(y, np.array([3.0, 1.0])))
    assert found["coverage"] == 0.75
    assert found["rmse"] == pytest.approx(1.0)  # a quarter of 2^2, in units of one
    assert found["nll"] == pytest.approx(0.5 * np.log(2.0 * np.pi) + np.log(1e-3) + 0.5e6)
    assert found["validation_ratio"] is None


def test_all_problems_of_the_comparison_are_here_and_ten_functions_at_least() -> None:
    assert len(REAL) == 11
    assert {*PROBLEMS} == {*REAL, *FUNCTIONS, *PATCHES} - {*SIMULATORS}
    assert len({*FUNCTIONS, *PATCHES}) >= 10


def test_random_labels_are_a_draw_with_the_importance_of_the_problem(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, density = rng.random((100, 2)), np.repeat([1.0, 4.0], 50)
    np.savez(tmp_path / "volcano.npz", X=X, y=X[:, 0], inputDensity=density)
    case = case_of("volcano", 0, tmp_path)
    few, more = random_labels(case, 10, 0), random_labels(case, 20, 0)
    np.testing.assert_array_equal(few.rows, more.rows[:10])
    np.testing.assert_array_equal(more.weight, case.importance[more.rows])
    assert np.ptp(more.weight) > 0.0


@pytest.fixture
def few_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SIZES", (15, 30, 60))


@pytest.mark.usefixtures("few_labels")
def test_active_labels_are_those_of_one_campaign_and_every_model_gets_them(tmp_path: Path) -> None:
    task = Campaign("patch2_slow", 0)
    labels = campaign(task, data=tmp_path, largest=30)["labels"]
    assert [*labels] == [15, 30]
    np.testing.assert_array_equal(labels[30].rows[:15], labels[15].rows)
    assert np.ptp(labels[30].weight) > 0.0
    for model in ("mixture", "boosting"):
        result = run(Fit("patch2_slow", "active", 30, 0, model), data=tmp_path, labelled={task: labels})
        assert result["model"] == model
        assert 0.0 < result["coverage"] <= 1.0
        assert result["rmse"] > 0.0 <= result["seconds"]


def test_fits_that_a_pool_is_too_small_for_or_that_take_minutes_are_left_out() -> None:
    found = fits({"peaks2": 10_000, "uci_energy": 600}, ("random", "active"), (500, 2000), ("gp_rbf", "mixture"), 800)
    assert {(fit.n, fit.model) for fit in found if fit.design == "active" and fit.problem == "peaks2"} == {
        (500, "gp_rbf"),
        (500, "mixture"),
        (2000, "mixture"),
    }
    assert {fit.n for fit in found if fit.problem == "uci_energy"} == {500}
    assert found[0] == Fit("peaks2", "random", 2000, 0, "gp_rbf")  # the longest


def here(run: Callable[[Any], dict[str, Any]], tasks: list[Any], jobs: int, minutes: float) -> Iterator[dict[str, Any]]:
    """In the place of processes."""
    return (run(task) for task in tasks if minutes > 0.0)


def invoke(*words: object) -> Result:
    app = typer.Typer()
    app.command()(calibration.main)
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.usefixtures("few_labels")
def test_the_command_resumes_runs_whole_seeds_and_prints_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "results_as_they_come", here)
    monkeypatch.setattr("experiments.peers.campaigns.results_as_they_come", here)
    path = tmp_path / "record.jsonl"
    options = (
        path,
        "--data",
        tmp_path,
        "--problems",
        "patch2_slow",
        "--sizes",
        "15,30",
        "--models",
        "mixture,boosting",
    )
    first = invoke(*options, "--seeds", 1)
    assert first.exit_code == 0, first.output
    assert "campaign 1 of 1" in first.output
    assert "8 of 8" in first.output
    assert "validation" in first.output
    again = invoke(*options, "--seeds", 2, "--designs", "random")
    assert "campaign" not in again.output
    assert "4 of 4" in again.output
    assert len(read_record(path)) == 12
    assert len(rows(read_record(path))) == 8
    assert "of 8" not in invoke(*options, "--first-seed", 5, "--seeds", 1, "--minutes", 0).output


@pytest.mark.parametrize(
    ("option", "word"), [("--sizes", "31"), ("--problems", "nowhere"), ("--models", "crystal"), ("--designs", "evil")]
)
def test_bad_input_is_said_before_the_work(option: str, word: str, tmp_path: Path) -> None:
    result = invoke(tmp_path / "record.jsonl", "--data", tmp_path, "--problems", "patch2", option, word)
    assert result.exit_code == 2
    assert word in result.output
    assert not (tmp_path / "record.jsonl").exists()


def made(n: int = 500) -> dict[Fit, dict[str, Any]]:
    """A record in which the mixture is best on two of three real sets, with one fit that is missing."""
    record = {}
    for k, problem in enumerate((*REAL[:3], "peaks2")):
        for model, error in (("boosting", 0.5), ("mixture", 0.4 if k else 0.6)):
            for seed in range(2):
                ratio = 2.0 if seed else 0.5
                record[Fit(problem, "random", n, seed, model)] = {
                    "coverage": 0.95 - 0.1 * k,
                    "width": 1.0,
                    "nll": error + seed,
                    "rmse": error,
                    "validation_ratio": ratio if model == "mixture" else None,
                    "seconds": 1.0 + 2.0 * seed,
                }
    record[Fit("front3", "random", n, 0, "mixture")] = record["peaks2", "random", n, 0, "mixture"]  # only of one model
    return record


def test_means_are_over_problems_that_all_models_have() -> None:
    mixture, boosting = rows(made())
    assert len(mixture) == len(HEADER)
    assert mixture[:6] == ["random", "500", "mixture", "4", "0.800", "0.650 (peaks2)"]
    assert mixture[-5:] == ["1.000", "0.950", "0.450", "1.00", "2.0"]
    assert boosting[-2] == ""
    assert rows(made(), "active") == []


def test_ranks_are_means_over_real_data() -> None:
    mixture, boosting = rank_rows(made())
    assert len(mixture) == len(RANKS_HEADER)
    assert mixture == ["random", "500", "mixture", "3", "1.33", "1.33"]
    assert boosting[-2:] == ["1.67", "1.67"]
    assert rank_rows(made(120)) == []


def test_changes_name_the_problems_that_became_worse() -> None:
    errors = {"ecg": (1.0, 1.0, 1.0), "ato": (2.2, 2.0, 2.1), "volcano": (1.0, 4.0, 1.0)}
    before = {Fit(name, "random", 60, seed, "mixture"): {"rmse": 2.0} for name in errors for seed in range(3)}
    now = {fit: {"rmse": errors[fit.problem][fit.seed]} for fit in before}
    mean = np.exp(np.mean([np.log(0.5 * np.array(values)).mean() for values in errors.values()]))
    ((n, problems, ratio, worse),) = change_rows(now, before)
    assert (n, problems, ratio) == ("60", "3", f"{mean:.3f}")
    assert worse.startswith("ato 1.049 ±")
    assert "ecg" not in worse
    assert "volcano" not in worse


def test_models_are_compared_on_seeds_that_all_have() -> None:
    figures = {"coverage": 0.9, "width": 1.0, "nll": 0.1, "validation_ratio": None, "seconds": 2.0}
    fits = [Fit("ecg", "random", 500, seed, "mixture") for seed in (0, 1)] + [Fit("ecg", "random", 500, 0, "boosting")]
    record = {fit: {**figures, "rmse": 1.0 + fit.seed} for fit in fits}
    assert [row[8] for row in rows(record)] == ["1.000", "1.000"]
