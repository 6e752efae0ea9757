"""Local polynomials as a surrogate: the contract, campaigns, the learner's formulas at alpha = Q + 1, bad input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner, Box, MixtureRegressor, Pool
from lobal.active.surrogate import FitTask, Validation
from lobal.baselines import local_model
from lobal.baselines.local_model import LocalPolynomialModel, fit_local_polynomials
from lobal.baselines.local_polynomial import LocalPolynomials
from lobal.core.files import load_record, save_record
from lobal.core.superior_density import attainable_sample_size, relative_sample_size, superior_density
from tests.active.contracts import SurrogateContract
from tests.learner_setting import bumpy

X = np.random.default_rng(0).random((80, 2))
BOX = Box(0.0, 1.0, n_candidates=256)


def variance(X: np.ndarray) -> np.ndarray:
    return 0.01 + X[:, 0]


def model_of(X: np.ndarray, y: np.ndarray, **options: Any) -> LocalPolynomialModel:
    return fit_local_polynomials(X, y, **options)[0]


class TestLocalPolynomials(SurrogateContract):
    @pytest.fixture(params=[{}, {"order": 3}, {"threshold": 2.0, "noise": 0.01}], ids=str)
    def surrogate(self, request: pytest.FixtureRequest) -> LocalPolynomials:
        return LocalPolynomials(**request.param)

    @pytest.fixture(params=[None, 10], ids=["left out", "validated"])
    def task(self, request: pytest.FixtureRequest) -> FitTask:
        y = np.sin(6.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(80)
        return FitTask(
            X=X,
            y=y,
            weight=1.0 + X[:, 0],
            inducing_weight=None,
            validation=None if request.param is None else Validation(X[:10], y[:10]),
            seed=1,
            step=2,
            smoothness=2.0,
            dimension=2.0,
            candidates=Pool(X).candidates(0),
        )


# Campaigns.


@pytest.mark.parametrize("draw", ["random", "spread"])
def test_a_campaign_runs_is_saved_and_goes_on_as_if_it_had_not_been(draw: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"seed": 0, "draw": draw}
    whole = ActiveLearner(BOX, model=LocalPolynomials(order=3), **options)
    whole.run(bumpy, sizes=[32, 48, 64])
    with ActiveLearner(BOX, model=LocalPolynomials(order=3), path=tmp_path / "campaign", **options) as begun:
        begun.run(bumpy, sizes=[32, 48])
    with ActiveLearner.load(tmp_path / "campaign") as learner:
        assert isinstance(learner.surrogate, LocalPolynomials)
        assert learner.settings.smoothness == 4.0
        learner.run(bumpy, sizes=[32, 48, 64])
        np.testing.assert_array_equal(learner.labelled.X, whole.labelled.X)
        np.testing.assert_allclose(learner.predict(X[:, :1]), whole.predict(X[:, :1]), rtol=1e-12)


def test_the_model_of_the_last_step_is_read_and_not_fitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ActiveLearner(BOX, model=LocalPolynomials(), path=tmp_path / "campaign", seed=0) as learner:
        learner.run(bumpy, sizes=[32])
        learner.ask(8)
        density = learner.superior_density()
    monkeypatch.setattr(LocalPolynomials, "fit", None)
    np.testing.assert_allclose(ActiveLearner.read(tmp_path / "campaign").superior_density(), density, rtol=1e-12)


def test_a_noise_that_is_a_function_is_passed_again(tmp_path: Path) -> None:
    with ActiveLearner(BOX, model=LocalPolynomials(noise=variance), path=tmp_path / "campaign", seed=0) as learner:
        learner.run(bumpy, sizes=[32])
        learner.ask(4)
    with ActiveLearner.load(tmp_path / "campaign", noise=variance) as again:
        assert again.surrogate.changed_options == {"noise": "a function"}
        np.testing.assert_allclose(again.fitted.noise_variance(X[:, :1]), variance(X))
    with pytest.raises(ValueError, match=r"load\(path, noise=function\)"):
        ActiveLearner.load(tmp_path / "campaign")
    assert ActiveLearner.read(tmp_path / "campaign").superior_density().shape == (256,)


def test_labels_go_where_the_function_is_complex() -> None:
    learner = ActiveLearner(BOX, model=LocalPolynomials(order=1), seed=0, draw="random")
    learner.run(bumpy, sizes=[128, 256, 512])
    x = learner.labelled.X[:, 0]
    assert np.mean(x[256:] < 0.2) > 1.5 * np.mean(x[:128] < 0.2)
    assert learner.attainable() < 0.95


# The learner's formulas at alpha = Q + 1.


@pytest.mark.parametrize(("model", "alpha"), [(LocalPolynomials(3), 4.0), (LocalPolynomials(), 2.0), (None, np.inf)])
def test_the_smoothness_is_that_of_the_model_unless_it_is_given(model: Any, alpha: float) -> None:
    assert ActiveLearner(BOX, model=model).settings.smoothness == alpha
    assert ActiveLearner(BOX, model=model, smoothness=1.5).settings.smoothness == 1.5


@pytest.mark.parametrize("order", [1, 3])
def test_complexity_and_density_are_those_of_the_paper(order: int) -> None:
    learner = ActiveLearner(BOX, model=LocalPolynomials(order, noise=variance), seed=0, draw="random")
    learner.run(bumpy, sizes=[64, 96])
    x, p = learner.candidates.X, learner.training_density()
    v, sigma = variance(x), learner.fitted.local_bandwidth(x)
    a = 2.0 * (order + 1)
    complexity = (v / p) ** (1.0 / (a + 1.0)) / sigma  # Eq. (eq:isotropicComplexityLPS) with d = 1
    np.testing.assert_allclose(learner.local_complexity() / complexity, learner.local_complexity()[0] / complexity[0])
    optimal = complexity ** ((a + 1.0) / (2.0 * a + 1.0)) * v ** (a / (2.0 * a + 1.0))  # q is one
    np.testing.assert_allclose(learner.superior_density(), optimal / optimal.mean())


def test_the_complexity_of_a_mixture_has_no_noise_in_it() -> None:
    learner = ActiveLearner(BOX, model=MixtureRegressor(noise=variance, n_inducing=20), seed=0, smoothness=2.0)
    learner.run(bumpy, sizes=[32])
    p, sigma = learner.training_density(), learner.local_bandwidth()
    ratio = learner.local_complexity() * p**0.2 * sigma
    np.testing.assert_allclose(ratio, ratio[0])


@pytest.mark.parametrize(("order", "d"), [(1, 1.0), (3, 2.0)])
def test_the_relative_sample_size_has_the_exponent_of_the_paper(order: int, d: float) -> None:
    found = relative_sample_size(np.sqrt(0.3), np.sqrt(0.5), smoothness=order + 1.0, dimension=d)
    assert found == pytest.approx((0.3 / 0.5) ** ((2.0 * (order + 1) + d) / (2.0 * (order + 1))))


def test_the_relative_sample_size_of_two_complexities_is_known_in_closed_form() -> None:
    """On halves of complexities 1 and 32 with Q = 1, d = 1: MISE ~ sum LFC p^-0.8 is least for p ~ LFC^(5/9)."""
    ones = torch.ones(2, dtype=torch.float64)
    complexity = torch.tensor([1.0, 32.0], dtype=torch.float64)
    orders = {"smoothness": 2.0, "dimension": 1.0}
    best = (0.5 * (1.0 + 32.0 ** (5.0 / 9.0))) ** 1.8 / 16.5  # relative to p = q
    assert attainable_sample_size(complexity, ones, ones, ones, **orders) == pytest.approx(best ** (5.0 / 4.0))
    ratio = superior_density(complexity, ones, ones, **orders)
    assert (ratio[1] / ratio[0]).item() == pytest.approx(32.0 ** (5.0 / 9.0))


# The model.


def test_predictions_reproduce_polynomials_and_the_bandwidth_is_in_units_of_the_inputs() -> None:
    x = np.random.default_rng(0).random((200, 1))
    model = model_of(x, 3.0 * x[:, 0] ** 3 - x[:, 0], order=3, noise=0.1)
    np.testing.assert_allclose(model.predict(x), 3.0 * x[:, 0] ** 3 - x[:, 0], atol=1e-9)
    shifted = model_of(1e6 + 1e-3 * x, 5.0 + 2e5 * (3.0 * x[:, 0] ** 3 - x[:, 0]), order=3, noise=0.1 * 4e10)
    np.testing.assert_allclose(shifted.local_bandwidth(1e6 + 1e-3 * x), 1e-3 * model.local_bandwidth(x), rtol=1e-6)


def test_local_bandwidths_do_not_jump_where_the_bias_happens_to_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sine has no curvature at its zeros, and yet is as complex there as elsewhere."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.random((1000, 1)), axis=0)
    model = model_of(x, np.sin(30.0 * x[:, 0]) + 0.1 * rng.standard_normal(1000))
    averaged, single = (_largest_over_median(model, x[100:-100], k, monkeypatch) for k in (local_model.NEIGHBOURS, 1))
    assert averaged < 3.0 < 10.0 < single


def _largest_over_median(
    model: LocalPolynomialModel, x: np.ndarray, neighbours: int, monkeypatch: pytest.MonkeyPatch
) -> float:
    monkeypatch.setattr(local_model, "NEIGHBOURS", neighbours)
    found = model.local_bandwidth(x)
    return float(found.max() / np.median(found))


def test_columns_that_are_constant_do_not_matter() -> None:
    y = np.sin(6.0 * X[:, 0])
    with_constant = np.c_[X[:, 0], np.full(80, 7.0)]
    alone, both = model_of(X[:, :1], y), model_of(with_constant, y)
    np.testing.assert_allclose(both.predict(with_constant), alone.predict(X[:, :1]))
    nothing = model_of(np.ones((80, 2)), y)
    np.testing.assert_allclose(nothing.predict(X), y.mean())


def test_labels_are_left_out_by_their_rows_and_few_of_them_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.sin(6.0 * X[:, 0])
    model = model_of(X, y)
    np.testing.assert_allclose(model.leave_one_out(np.array([5, 7])), model.leave_one_out()[[5, 7]])
    monkeypatch.setattr(local_model, "CHECKED", 20)
    some, left_out = fit_local_polynomials(X, y)
    rows = local_model.checked_rows(80)
    assert len(rows) == len(left_out) == 20
    np.testing.assert_allclose(left_out, some.leave_one_out(rows))


def test_a_constant_noise_is_estimated() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((1000, 1))
    model = model_of(x, np.sin(6.0 * x[:, 0]) + 0.3 * rng.standard_normal(1000))
    assert model.noise == pytest.approx(0.09, rel=0.25)
    np.testing.assert_allclose(model.noise_variance(x), model.noise)
    assert model_of(x, np.ones(1000)).predict(x) == pytest.approx(np.ones(1000))


def test_local_errors_are_those_of_labels_left_out_less_their_noise() -> None:
    learner = ActiveLearner(Pool(X), model=LocalPolynomials(noise=0.04), seed=0)
    batch = learner.ask(40)
    learner.tell(batch, np.sin(6.0 * X[batch, 0]))
    inputs, y, _ = learner.labelled
    expected = np.square(y - learner.model.leave_one_out()) - 0.04
    np.testing.assert_allclose(learner.fitted.squared_errors(inputs, y), expected)
    assert learner.fitted.squared_errors(inputs[:5], y[:5]) is None


# Bad input.


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"order": 2}, "odd number up to 99, got 2"),
        ({"order": 0}, "at least 1, got 0"),
        ({"threshold": 0.0}, "threshold must be above 0"),
        ({"noise": -1.0}, "noise must be above 0"),
        ({"device": "gpu"}, "device must be"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        LocalPolynomials(**options)


def test_data_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="80 finite numbers"):
        fit_local_polynomials(X, np.ones(79))
    with pytest.raises(ValueError, match="80 finite numbers"):
        fit_local_polynomials(X, np.full(80, np.nan))
    with pytest.raises(ValueError, match=r"2 columns, as the training inputs have, got shape \(3, 1\)"):
        model_of(X, X[:, 0]).predict(np.ones((3, 1)))
    many = np.random.default_rng(0).random((30, 12))
    with pytest.raises(ValueError, match=r"order 5 in 12 columns have 6188 terms.*lower the order"):
        fit_local_polynomials(many, many[:, 0], order=5)


def test_several_outputs_are_refused() -> None:
    learner = ActiveLearner(Pool(X, outputs=["a", "b"]), model=LocalPolynomials(), seed=0)
    batch = learner.ask(20)
    learner.tell(batch, np.c_[X[batch, 0], X[batch, 1]])
    with pytest.raises(ValueError, match=r"one number from a row of numbers, got .*\(20, 2\)"):
        learner.ask(5)


@pytest.mark.parametrize(
    "change",
    [
        {"order": 0},
        {"noise": -1.0},
        {"label_noise": torch.zeros(80, dtype=torch.float64)},
        {"bandwidths": torch.arange(1.0, 100.0, dtype=torch.float64)},
        {"bandwidths": torch.ones(3, dtype=torch.float64)},
        {"y": torch.ones(3, dtype=torch.float64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_file_that_cannot_be_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    surrogate = LocalPolynomials()
    learner = ActiveLearner(Pool(X), model=surrogate, seed=0)
    learner.tell(np.arange(80), X[:, 0])
    learner.fitted.save(tmp_path / "model")
    tensors, fields = load_record(tmp_path / "model")
    for name, value in change.items():
        (tensors if name in tensors else fields)[name] = value
    save_record(tmp_path / "model", tensors, fields)
    with pytest.raises(ValueError, match=r"is not a model of local polynomials that lobal saved"):
        surrogate.load(tmp_path / "model")
