"""The analytic engine from data to mixture: its ladder of bandwidths, its pilot, its weights."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.mixture.analytic import exact as exact_module
from lobal.mixture.analytic import sparse
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import MixtureSettings
from tests.mixture.test_fit import BANDWIDTHS, error, sample

WIDTH = torch.tensor(0.5).double()
FAR_BELOW = 2.0 ** torch.arange(-6, -3).double()
FAR_ABOVE = 2.0 ** torch.arange(3, 6).double()


def fit(points: LabelledSet, seen: list[Epoch] | None = None, seed: int = 0, **changes: Any) -> FittedMixture:
    given = {
        "bandwidths": BANDWIDTHS,
        "n_inducing": 40,
        "n_gate_inducing": 20,
        "gate_bandwidth": WIDTH,
        "training": AnalyticSettings(),
    }
    settings = MixtureSettings(**{**given, **changes})
    progress = None if seen is None else seen.append
    return fit_mixture(TrainingData(points=points), settings, torch.Generator().manual_seed(seed), progress)


def with_noise(points: LabelledSet, noise: Tensor) -> LabelledSet:
    return LabelledSet(X=points.X, y=points.y, weight=points.weight, noise=noise)


@pytest.fixture
def small_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "SMALLEST_PILOT", 30)


@pytest.mark.parametrize("ladder", [FAR_BELOW, FAR_ABOVE], ids=["below", "above"])
def test_a_ladder_in_the_wrong_place_is_extended_to_the_right_one(ladder: Tensor) -> None:
    fitted = fit(sample(120, 1), bandwidths=ladder, adaptive=True)
    bandwidths = fitted.mixture.bandwidths
    assert torch.allclose(bandwidths.log2().diff(), torch.ones(len(bandwidths) - 1).double())
    assert bandwidths[0] <= 0.5
    assert bandwidths[-1] >= 2.0
    assert error(fitted) < 0.1


@pytest.mark.parametrize("ladder", [FAR_BELOW, FAR_ABOVE], ids=["below", "above"])
def test_a_ladder_that_is_given_stays_where_it_is(ladder: Tensor) -> None:
    assert torch.equal(fit(sample(120, 1), bandwidths=ladder).mixture.bandwidths, ladder)


@pytest.mark.usefixtures("small_pilot")
def test_a_pilot_trims_the_ladder() -> None:
    ladder = 2.0 ** torch.arange(-6, 7).double()
    fitted = fit(sample(300, 1), bandwidths=ladder, adaptive=True)
    assert len(fitted.mixture.bandwidths) < len(ladder)
    assert set(fitted.mixture.bandwidths.tolist()) <= set(ladder.tolist())
    assert error(fitted) < 0.06


@pytest.mark.usefixtures("small_pilot")
@pytest.mark.parametrize(("adaptive", "width"), [(False, WIDTH), (True, WIDTH), (False, None), (True, None)])
def test_a_pilot_finds_what_is_not_given(adaptive: bool, width: Tensor | None) -> None:
    seen: list[Epoch] = []
    fit(sample(300, 1), seen, adaptive=adaptive, gate_bandwidth=width)
    trainings = [epoch.number for epoch in seen].count(0)
    assert (trainings > 1) == (adaptive or width is None)


@pytest.mark.usefixtures("small_pilot")
@pytest.mark.parametrize("exchange", [False, True])
def test_noise_per_label_survives_the_pilot(exchange: bool) -> None:
    noise = torch.linspace(0.005, 0.015, 300).double()
    fitted = fit(with_noise(sample(300, 1), noise), adaptive=True, exchange=exchange)
    assert torch.equal(fitted.hyperparameters.noise, noise)
    assert error(fitted) < 0.06


@pytest.mark.usefixtures("small_pilot")
def test_one_inducing_point_is_enough_for_a_pilot() -> None:
    assert len(fit(sample(300, 1), n_inducing=1, adaptive=True).mixture.experts.features.points) == 1


@pytest.mark.usefixtures("small_pilot")
@pytest.mark.parametrize("d", [1, 2])
def test_the_same_generator_gives_the_same_mixture(d: int) -> None:
    points = sample(300, 1, d=d)
    first, again = (fit(points, adaptive=True, gate_bandwidth=None).mixture for _ in range(2))
    assert torch.equal(first.predict(points.X).mean, again.predict(points.X).mean)
    assert torch.equal(first.gate(points.X), again.gate(points.X))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_weights_are_no_weights(exact: bool, weighted: bool) -> None:
    points, training = sample(100, 1), AnalyticSettings(weighted=weighted)
    equal = LabelledSet(X=points.X, y=points.y, weight=7.3 * points.weight)
    ours, theirs = (fit(p, exact=exact, training=training).mixture.predict(points.X) for p in (points, equal))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_act_on_the_training_on_request_only(weighted: bool) -> None:
    points = sample(100, 1)
    unequal = LabelledSet(X=points.X, y=points.y, weight=0.1 + 5.0 * points.X[:, 0])
    training = AnalyticSettings(weighted=weighted)
    ours, theirs = (fit(p, training=training).mixture.predict(points.X).mean for p in (points, unequal))
    assert torch.equal(ours, theirs) == (not weighted)


@pytest.mark.parametrize("exact", [False, True])
def test_residuals_are_those_of_labels_predicted_from_the_others(exact: bool) -> None:
    """Larger than those of the fit, and about as large as the noise."""
    points = sample(150, 1)
    fitted = fit(points, exact=exact)
    assert fitted.residual is not None
    fit_error, left_out = points.y - fitted.mixture.predict(points.X).mean, fitted.residual
    assert fit_error.square().mean() < left_out.square().mean()
    assert 0.09 < left_out.square().mean().sqrt().item() < 0.13


def test_without_refit_the_experts_see_all_labels_alike() -> None:
    points = sample(100, 1)
    alike, gated = (fit(points, refit=flag).mixture.experts.posterior(points.X).variance for flag in (False, True))
    assert (gated >= alike - 1e-12).all()
    assert (gated > 1.5 * alike).any()


@pytest.mark.parametrize("exact", [False, True])
def test_squared_errors_serve_labels_without_noise(exact: bool) -> None:
    x = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    points = LabelledSet(X=x, y=torch.sin(9 * x[:, 0]), weight=torch.ones(100).double())
    assert error(fit(points, exact=exact, training=AnalyticSettings(squared=True))) < 1e-3


def chirp(n: int = 800) -> LabelledSet:
    """Waves on the left, a line on the right."""
    x = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    y = torch.where(x < 0.5, torch.sin(60.0 * x), x) + 0.05 * random(n, seed=4)
    return LabelledSet(X=x[:, None], y=y, weight=torch.ones(n).double())


def random(n: int, seed: int) -> Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("pilot", [True, False])
def test_a_pilot_puts_inducing_points_where_the_function_is_complex(pilot: bool) -> None:
    fitted = fit(chirp(), bandwidths=2.0 ** torch.arange(-6, 1).double(), adaptive=pilot, pilot=pilot)
    points = fitted.mixture.experts.features.points  # type: ignore[attr-defined]  # they are sparse
    assert len(points) == 40
    share = (points < 0.5).double().mean().item()
    assert share > 0.6 if pilot else share == pytest.approx(0.5, abs=0.05)


def test_inducing_points_lie_where_the_caller_wants_them() -> None:
    points = replace(chirp(), spread=torch.where(chirp().X[:, 0] < 0.5, 0.1, 1.0).double())
    fitted = fit(points, bandwidths=2.0 ** torch.arange(-6, 1).double(), adaptive=True)
    assert (fitted.mixture.experts.features.points < 0.5).double().mean() < 0.2  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("ladder", [FAR_BELOW, FAR_ABOVE], ids=["below", "above"])
def test_the_ladder_of_exact_experts_goes_where_it_is_used(ladder: Tensor) -> None:
    fitted = fit(sample(120, 1), bandwidths=ladder, adaptive=True, exact=True)
    assert 0.25 <= fitted.mixture.bandwidths[0] <= fitted.mixture.bandwidths[-1] <= 4.0
    assert error(fitted) < 0.1


def test_a_ladder_that_is_given_to_exact_experts_stays_where_it_is() -> None:
    assert torch.equal(fit(sample(120, 1), bandwidths=FAR_BELOW, exact=True).mixture.bandwidths, FAR_BELOW)


def test_the_noise_of_exact_experts_follows_the_labels_left_out() -> None:
    points = sample(300, 1)
    learned, kept = (fit(points, exact=True, pilot=pilot).hyperparameters.noise.item() for pilot in (True, False))
    assert learned != kept
    assert learned == pytest.approx(kept, rel=0.5)


def test_neighbourhoods_are_enough_to_find_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_module, "NEIGHBOURS", 60)
    assert error(fit(sample(300, 1), adaptive=True, exact=True, gate_bandwidth=None)) < 0.06
