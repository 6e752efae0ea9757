"""Labels predicted from the others, with what was tuned without their fold."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lobal import MixtureRegressor
from lobal.core.dataset import LabelledSet
from lobal.experts import global_expert
from lobal.experts.global_expert import GlobalExpert
from lobal.mixture import start as start_module
from lobal.mixture.analytic import held_out as module
from lobal.mixture.analytic.held_out import held_out_predictions
from lobal.mixture.data import TrainingData
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.model import FittedMixture, MixturePrediction
from tests.mixture.test_fit import ANALYTIC, fit, sample

ONE = torch.ones(1).double()
EVERYTHING_BUT_THE_MEAN: dict[str, Any] = {
    "bandwidths": ONE,
    "shared_bandwidth": torch.tensor(0.2).double(),
    "scale": 1.0,
}
exact_or_sparse = pytest.mark.parametrize("exact", [True, False], ids=["exact", "sparse"])


def fitted_to(points: LabelledSet, **changes: Any) -> FittedMixture:
    return fit(TrainingData(points=points), **{"training": ANALYTIC, "exact": True, "anisotropic": True, **changes})


def only_noise(n: int, d: int) -> LabelledSet:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, d, dtype=torch.float64, generator=generator)
    return LabelledSet(X=X, y=torch.randn(n, dtype=torch.float64, generator=generator), weight=torch.ones(n).double())


def without_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths of many columns are then tuned to few labels."""
    monkeypatch.setattr(global_expert, "WIDTH_SCALE", 1e6)
    monkeypatch.setattr(global_expert, "NOISE_SPREAD", 1e6)


def errors(prediction: MixturePrediction, points: LabelledSet, fitted: FittedMixture) -> list[float]:
    """Root mean squared errors of the labels, plain and in standard deviations."""
    squares = (points.y - prediction.mean).square()
    variance = prediction.variance + fitted.hyperparameters.noise
    return [each.mean().sqrt().item() for each in (squares, squares / variance)]


def finds_the_same(_: LabelledSet, near: GlobalExpert, **__: object) -> GlobalExpert:
    return near


@exact_or_sparse
def test_with_the_same_tuning_labels_are_merely_left_out(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    points = sample(80, 1)
    fitted = fitted_to(points, bandwidths=ONE, exact=exact)
    monkeypatch.setattr(start_module, "searched_again", finds_the_same)
    nested, plain = held_out_predictions(fitted, points), left_out_prediction(fitted.mixture, points)
    tolerance = (
        1e-9 if exact else 1e-5
    )  # nested predictions are those of exact experts, which sparse ones come close to
    torch.testing.assert_close(nested.mean, plain.mean, rtol=0.0, atol=tolerance)
    torch.testing.assert_close(nested.variance, plain.variance, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("noise", [0.01, None], ids=["given", "learned"])
def test_a_gate_that_selects_one_expert_everywhere_stays(noise: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    points = sample(80, 1, noise=noise)
    fitted = fitted_to(points)._replace(measure=None)
    monkeypatch.setattr(start_module, "searched_again", finds_the_same)
    nested, plain = held_out_predictions(fitted, points), left_out_prediction(fitted.mixture, points)
    torch.testing.assert_close(nested.mean, plain.mean, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(nested.variance, plain.variance, rtol=0.0, atol=1e-9)


@exact_or_sparse
def test_where_all_is_given_only_the_mean_is_searched_again(exact: bool) -> None:
    """The variances are therefore the same, and the mean of the process hardly counts among 80 labels."""
    points = sample(80, 1, noise=0.01)
    fitted = fitted_to(points, **EVERYTHING_BUT_THE_MEAN, exact=exact)
    nested, plain = held_out_predictions(fitted, points), left_out_prediction(fitted.mixture, points)
    torch.testing.assert_close(nested.variance, plain.variance, rtol=0.0, atol=1e-8)
    torch.testing.assert_close(nested.mean, plain.mean, rtol=0.0, atol=0.01)


def test_what_is_given_stays_when_the_start_is_searched_again() -> None:
    points = sample(80, 1)
    start = fitted_to(points, **EVERYTHING_BUT_THE_MEAN).start
    assert start is not None
    again = start.searched_again(points[torch.arange(40)])
    assert again.hyperparameters.scale.item() == 1.0
    assert torch.equal(again.shared_bandwidth, torch.tensor(0.2).double())
    assert again.kernel is start.kernel
    assert again.hyperparameters.noise != start.hyperparameters.noise


def test_a_label_has_no_part_in_its_own_prediction_and_its_tuning() -> None:
    points = sample(60, 1)
    fitted = fitted_to(points, bandwidths=ONE, exact=False)
    spoilt = replace(points, y=points.y + 5.0 * (torch.arange(60) == 7))
    before, after = (held_out_predictions(fitted, each) for each in (points, spoilt))
    for one, other in zip(before, after, strict=True):
        assert other[7].item() == pytest.approx(one[7].item(), abs=1e-12)
    same_fold = torch.arange(60) % module.FOLDS == 7 % module.FOLDS
    torch.testing.assert_close(after.variance[same_fold], before.variance[same_fold])
    assert (after.variance > 2.0 * before.variance)[~same_fold].any()  # tuned with the spoilt label


@pytest.mark.parametrize("seed", [0, 2])
def test_noise_in_many_columns_is_not_predicted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without_prior(monkeypatch)
    rng = np.random.default_rng(seed)
    X, y = rng.random((60, 20)), rng.standard_normal(60)
    model = MixtureRegressor(random_state=0).fit(X, y)
    left_out = np.sqrt(np.mean((model.leave_one_out(X, y)[0] - y) ** 2))
    assert left_out < 0.8 * y.std()
    assert model.validation_error_ > 0.9 * y.std()


def test_neighbourhoods_show_by_how_much_errors_are_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    without_prior(monkeypatch)
    points = only_noise(120, 30)
    fitted = fitted_to(points)
    plain = errors(left_out_prediction(fitted.mixture, points), points, fitted)
    nested = errors(held_out_predictions(fitted, points), points, fitted)
    monkeypatch.setattr(module, "NEIGHBOURS", 60)
    among_neighbours = errors(held_out_predictions(fitted, points), points, fitted)
    assert nested > [1.1 * each for each in plain]
    assert among_neighbours == pytest.approx(nested, rel=0.03)


def test_predictions_among_neighbours_are_close_to_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    points = sample(200, 1, d=2)
    fitted = fitted_to(points)
    together = held_out_predictions(fitted, points)
    monkeypatch.setattr(module, "NEIGHBOURS", 100)
    apart = held_out_predictions(fitted, points)
    assert errors(apart, points, fitted) == pytest.approx(errors(together, points, fitted), rel=0.03)
    assert (apart.mean - together.mean).square().mean().sqrt().item() < 0.03


@pytest.mark.parametrize("limit", ["labels", "no start"])
def test_labels_are_merely_left_out_if_they_are_many_or_the_start_is_unknown(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = sample(60, 1)
    fitted = fitted_to(points)
    if limit == "labels":
        monkeypatch.setattr(module, "LARGEST_NESTED", 59)
    else:
        fitted = fitted._replace(start=None)
    nested, plain = held_out_predictions(fitted, points), left_out_prediction(fitted.mixture, points)
    assert torch.equal(nested.mean, plain.mean)
    assert torch.equal(nested.variance, plain.variance)


@pytest.mark.parametrize("neighbours", [module.NEIGHBOURS, 30])
def test_the_same_fit_is_held_out_the_same(neighbours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEIGHBOURS", neighbours)
    points = sample(80, 1, d=2)
    first, again = (held_out_predictions(fitted_to(points), points) for _ in range(2))
    assert torch.equal(first.mean, again.mean)
    assert torch.equal(first.variance, again.variance)


def test_weights_count_in_the_gates_only_if_they_count_in_training() -> None:
    points = sample(80, 1)
    weighed = replace(points, weight=torch.where(points.X[:, 0] < 0.5, 10.0, 1.0).double())
    for weighted in (False, True):
        fitted = fitted_to(points, training=replace(ANALYTIC, weighted=weighted))
        fitted = fitted._replace(measure=replace(ANALYTIC, weighted=weighted))
        one, other = (held_out_predictions(fitted, each).mean for each in (points, weighed))
        assert torch.equal(one, other) == (not weighted)
