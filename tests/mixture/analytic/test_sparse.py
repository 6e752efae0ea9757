"""Sparse experts: what the pilot finds, and where the inducing points go."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.experts.features import StoredFeatures
from lobal.mixture.analytic import sparse
from lobal.mixture.analytic.training import Trained
from lobal.mixture.gate import Gate
from lobal.mixture.progress import Epoch
from tests.mixture.analytic.test_fit import WIDTH, fit
from tests.mixture.test_fit import BANDWIDTHS, error, sample


def with_noise(points: LabelledSet, noise: Tensor) -> LabelledSet:
    return LabelledSet(X=points.X, y=points.y, weight=points.weight, noise=noise)


@pytest.fixture
def small_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "SMALLEST_PILOT", 30)


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


def test_without_refit_the_experts_see_all_labels_alike() -> None:
    points = sample(100, 1)
    alike, gated = (fit(points, refit=flag).mixture.experts.posterior(points.X).variance for flag in (False, True))
    assert (gated >= alike - 1e-12).all()
    assert (gated > 1.5 * alike).any()


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


class Halves(Gate):
    """The first expert where the first column is below one half, the second elsewhere."""

    def __call__(self, X: Tensor) -> Tensor:
        is_left = X[:, :1] < 0.5
        return torch.cat([is_left, ~is_left], dim=1).double()


@pytest.mark.parametrize(("d", "ratio"), [(1, 2.0), (2, 4.0), (5, 4.0)])
def test_inducing_points_are_denser_where_bandwidths_are_small(d: int, ratio: float) -> None:
    """By sigma^-d, but no more than in two columns."""
    X = torch.rand(100, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = sparse.inducing_weight(Halves(), torch.tensor([0.5, 1.0]).double(), X)
    assert (weight.max() / weight.min()).item() == pytest.approx(ratio)


def test_no_density_of_inducing_points_is_extreme() -> None:
    X = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    weight = sparse.inducing_weight(Halves(), torch.tensor([1e-9, 1.0]).double(), X)
    assert weight.log().abs().max().item() == pytest.approx(3.0)


@pytest.mark.parametrize(("n", "n_pilot"), [(300, 300), (1000, 512), (3000, 750)])
def test_a_pilot_has_a_quarter_of_the_points_but_not_too_few_and_half_the_inducing_points(
    n: int, n_pilot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    original = sparse.train

    def train(stored: StoredFeatures, points: LabelledSet, *args: Any) -> Trained:
        sizes.append((len(points), len(stored.features.points)))
        return original(stored, points, *args)

    monkeypatch.setattr(sparse, "train", train)
    fit(sample(n, 1), adaptive=True, n_inducing=4, n_gate_inducing=3)
    assert (sizes[0], sizes[-1]) == ((n_pilot, 2), (n, 4))


def test_bandwidths_too_small_for_the_inducing_points_do_not_extend_the_ladder() -> None:
    """Three inducing points explain nothing of fast waves, whose labels then look like noise to small bandwidths."""
    assert fit(chirp(400), adaptive=True, n_inducing=3).mixture.bandwidths.min() == BANDWIDTHS.min()
