import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.active.expected_savings import MODEL_ERROR, RELATIVE_ERROR, ExpectedSavings, savings_from
from lobal.active.knowledge import Knowledge
from lobal.active.learner import ActiveLearner
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.active.spaces import Pool
from lobal.mixture.estimator import MixtureRegressor
from tests.active.setting import ones
from tests.core.setting import seeded
from tests.learner_setting import bumpy, learner


def squared_errors(n: int, seed: int = 1) -> Tensor:
    return torch.randn(n, dtype=torch.float64, generator=seeded(seed)).square()


def test_no_difference_saves_nothing_as_far_as_so_many_labels_can_tell() -> None:
    for n, by_chance in ((25, 0.2), (400, 0.05)):
        errors = squared_errors(n)
        assert savings_from(errors, errors, rate=1.0) == ExpectedSavings(0.0, by_chance)
    few = squared_errors(15)
    assert savings_from(few, few, rate=1.0) is None


@pytest.mark.parametrize(("rate", "rho"), [(1.0, 0.5), (0.5, 0.25)])
def test_a_known_ratio_of_errors_is_one_of_labels_by_the_rate(rate: float, rho: float) -> None:
    errors = squared_errors(100)
    assert savings_from(0.5 * errors, errors, rate=rate) == pytest.approx((1.0 - rho, 0.1))


def test_a_complexity_that_costs_labels_saves_none() -> None:
    errors = squared_errors(100)
    assert savings_from(2.0 * errors, errors, rate=1.0) == pytest.approx((0.0, 0.1))


@pytest.mark.parametrize(("followed", "even"), [(-1.0, 1.0), (1.0, -1.0), (0.0, 1.0), (-1.0, -1.0), (math.nan, 1.0)])
def test_nothing_is_known_where_noise_hides_the_errors(followed: float, even: float) -> None:
    assert savings_from(followed * ones(10), even * ones(10), rate=1.0) is None


@pytest.mark.parametrize(("n", "is_known"), [(40, False), (4000, True)])
def test_nothing_is_known_where_chance_is_too_large(n: int, is_known: bool) -> None:
    savings = savings_from(squared_errors(n, seed=1), squared_errors(n, seed=2), rate=1.0)
    assert (savings is not None) == is_known


def test_a_single_label_says_nothing() -> None:
    assert savings_from(ones(1), ones(1), rate=1.0) is None


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_the_error_by_chance_is_that_of_a_jackknife(rate: float) -> None:
    even = squared_errors(400)
    followed = even * torch.linspace(0.3, 1.1, 400, dtype=torch.float64)[torch.randperm(400, generator=seeded(3))]
    savings = savings_from(followed, even, rate=rate)
    left_out = ((followed.sum() - followed) / (even.sum() - even)).pow(1.0 / rate)
    assert savings is not None
    assert savings.by_chance == pytest.approx(math.sqrt(399.0 * left_out.var(correction=0) + 1.0 / 400.0), rel=0.02)


def test_the_standard_error_counts_that_of_the_prediction_itself() -> None:
    assert ExpectedSavings(0.0, 0.0).standard_error == MODEL_ERROR
    parts = 0.2, MODEL_ERROR, 0.3 * RELATIVE_ERROR
    assert ExpectedSavings(0.3, 0.2).standard_error == pytest.approx(math.hypot(*parts))
    assert ExpectedSavings(0.3, None).standard_error is None


def test_a_learner_without_a_model_knows_of_no_savings() -> None:
    assert learner().expected_savings() is None


def test_a_learner_compares_its_errors_under_both_densities() -> None:
    """The same by hand: independent draws, constant noise, and squared errors that fall with 1 / n."""
    active = learner(draw="random")
    active.run(bumpy, sizes=[30, 60, 120])
    X, y, rows = active.labelled
    errors = np.square(y - active.model.leave_one_out(X, y)[0]) - active.model.noise_
    losses = active.importance_weights() * errors * active.training_density()[rows]
    superior, even = active.superior_density(), np.sqrt(active.candidates.test_density.numpy())
    even /= np.mean(even / active.candidates.pool_density.numpy())
    savings = active.expected_savings()
    assert savings is not None
    assert 0.1 < savings.share < 0.9
    assert savings.share == pytest.approx(1.0 - np.sum(losses / superior[rows]) / np.sum(losses / even[rows]))


def test_a_learner_of_constant_complexity_says_what_the_local_one_would_save() -> None:
    active = learner(complexity="constant")
    active.run(bumpy, sizes=[60, 120])
    savings = active.expected_savings()
    assert savings is not None
    assert savings.share > 0.1


def test_a_learner_that_finds_the_complexity_not_worth_following_expects_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    active = learner()
    active.run(bumpy, sizes=[60, 120])
    monkeypatch.setattr(Knowledge, "trust", 0.0)
    savings = active.expected_savings()
    assert savings is not None
    assert savings.share == 0.0
    assert savings.by_chance is not None
    assert savings.by_chance > 120**-0.5  # that of following it all


def test_labels_where_no_predictions_are_wanted_do_not_count() -> None:
    X = np.random.default_rng(0).random((400, 1))
    q = np.where(X[:, 0] < 0.5, 1.0, 0.0)
    active = ActiveLearner(Pool(X, test_density=q), seed=0, model=MixtureRegressor(n_inducing=16))
    dense = np.flatnonzero(X[:, 0] > 0.9)[:30]
    rows = np.concatenate([np.flatnonzero(X[:, 0] < 0.5)[:40], dense])
    active.tell(rows, bumpy(X[rows]))
    active.ask(10)
    savings = active.expected_savings()
    assert savings is None or math.isfinite(savings.share + (savings.by_chance or 0.0))
    assert active.history[0].trust in (0.0, 0.5, 1.0)


def test_a_model_that_knows_no_errors_gives_the_formula_without_a_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FittedMixtureSurrogate, "squared_errors", lambda *_: None)
    active = learner()
    active.run(bumpy, sizes=[40, 80])
    assert 0.1 < 1.0 - active.attainable() < 1.0
    assert active.expected_savings() == ExpectedSavings(1.0 - active.attainable(), None)
