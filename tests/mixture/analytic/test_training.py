"""The analytic engine: utilities, the noise, and the gate that comes of them."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.features import StoredFeatures
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import LeaveOneOut, condition, sparse_leave_one_out
from lobal.mixture.adam.objective import expert_shares
from lobal.mixture.analytic.settings import PRICE, AnalyticSettings
from lobal.mixture.analytic.training import Trained, train, updated_noise, utilities
from lobal.mixture.gate import gated_mean
from lobal.mixture.progress import Epoch
from tests.experts.test_global_expert import gp_draw

L, N = 5, 60
ONE = torch.tensor(1.0).double()


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def answers_and_labels(n_experts: int = L) -> tuple[LeaveOneOut, Tensor]:
    answers = LeaveOneOut(random(n_experts, N), 0.1 + random(n_experts, N, seed=1), random(n_experts, N, seed=2))
    return answers, random(N, seed=3)


def features(points: int, bandwidths: list[float]) -> WhitenedFeatures:
    grid = torch.linspace(0, 1, points, dtype=torch.float64)[:, None]
    return WhitenedFeatures.at(
        grid, bandwidths=torch.tensor(bandwidths).double(), shared_bandwidth=ONE, kernel=gaussian
    )


def hyperparameters(noise: float) -> Hyperparameters:
    return Hyperparameters(3.0 * ONE, 4.0 * ONE, noise * ONE)


def trained_on(points: LabelledSet, noise: float, *, seen: list[Epoch] | None = None, **changes: Any) -> Trained:
    stored = StoredFeatures(features(60, [0.02, 0.05, 0.125]), points.X)
    start = hyperparameters(noise) if points.noise is None else hyperparameters(noise)._replace(noise=points.noise)
    progress = None if seen is None else seen.append
    return train(stored, points, features(8, [0.5]), start, AnalyticSettings(**changes), progress)


@pytest.mark.parametrize("theta", [0.0, 0.5, 3.0])
def test_with_a_theta_the_gate_pays_the_penalty_of_the_paper(theta: float) -> None:
    """Gate-weighted mean utility = gate-weighted mean log-likelihood - theta times Eq. (eq:smallBWpenalty)."""
    answers, y = answers_and_labels()
    gate, weight = torch.softmax(random(N, L, seed=4), dim=1), random(N, seed=5)
    utility = utilities(answers, y, AnalyticSettings(penalty=theta))
    gained = weight @ gated_mean(gate, utility) / weight.sum()
    fit = weight @ gated_mean(gate, answers.log_likelihood(y)) / weight.sum()
    paper = 2.0 / (L - 1) * expert_shares(gate, weight) @ torch.arange(L - 1, -1, -1).double()
    torch.testing.assert_close(gained, fit - theta * paper)


def test_without_a_theta_leverage_has_its_price() -> None:
    answers, y = answers_and_labels()
    expected = answers.log_likelihood(y) - 0.5 * torch.log1p(PRICE * answers.leverage)
    torch.testing.assert_close(utilities(answers, y, AnalyticSettings()), expected)


def test_the_price_of_leverage_is_a_multiple_of_the_variance_it_brings() -> None:
    """To first order in the leverage h: PRICE times h / 2 nats."""
    answers, y = answers_and_labels()
    small = answers._replace(leverage=1e-6 * answers.leverage)
    price = small.log_likelihood(y) - utilities(small, y, AnalyticSettings())
    torch.testing.assert_close(price, 0.5 * PRICE * small.leverage, rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize("penalty", [None, 0.5])
def test_a_single_expert_has_finite_utilities(penalty: float | None) -> None:
    answers, y = answers_and_labels(1)
    assert torch.isfinite(utilities(answers, y, AnalyticSettings(penalty=penalty))).all()


def test_squared_errors_are_in_units_of_the_best_experts() -> None:
    answers, y = answers_and_labels()
    settings = AnalyticSettings(squared=True, price=0.0)
    worth = utilities(answers, y, settings)
    assert worth.mean(dim=1).max().item() == pytest.approx(-0.5)
    scaled = answers._replace(mean=100.0 * answers.mean)
    torch.testing.assert_close(utilities(scaled, 100.0 * y, settings), worth)


@pytest.mark.parametrize("true_noise", [0.01, 0.1, 1.0])
def test_the_noise_update_has_the_greatest_weighted_likelihood(true_noise: float) -> None:
    points, shared = gp_draw(200, bandwidth=0.05, noise=true_noise), hyperparameters(0.1)
    points = replace(points, weight=0.1 + random(200))
    stored = StoredFeatures(features(40, [0.02, 0.05]), points.X)
    answers = sparse_leave_one_out(stored, points, shared, condition(stored, points, shared))
    gate = torch.full((200, 2), 0.5).double()
    noise = updated_noise(shared, stored.explained, answers, points, gate)

    def likelihood(v: Tensor) -> float:
        s = 4.0 * (1.0 - stored.explained)
        grown = answers._replace(variance=answers.variance * (s + v) / (s + shared.noise))
        return (points.weight @ gated_mean(gate, grown.log_likelihood(points.y))).item()

    best = likelihood(noise)
    assert all(likelihood(factor * noise) < best for factor in (0.2, 0.99, 1.01, 5.0))


@pytest.mark.parametrize("start", [0.01, 0.1, 1.0])
def test_the_noise_is_recovered_from_a_wrong_start(start: float) -> None:
    points = gp_draw(400, bandwidth=0.05, noise=0.1)
    assert trained_on(points, start).hyperparameters.noise.item() == pytest.approx(0.1, rel=0.2)


def test_known_noise_takes_one_round_and_stays() -> None:
    points = gp_draw(100, bandwidth=0.05, noise=0.1)
    noise = torch.linspace(0.05, 0.15, 100).double()
    seen: list[Epoch] = []
    known = LabelledSet(X=points.X, y=points.y, weight=points.weight, noise=noise)
    trained = trained_on(known, 0.1, seen=seen)
    assert torch.equal(trained.hyperparameters.noise, noise)
    assert len(seen) == 1


def test_rounds_end_when_the_noise_has_settled_or_by_their_number() -> None:
    points, ends = gp_draw(100, bandwidth=0.05, noise=0.1), {}
    for rounds in (1, 2, 9):
        seen: list[Epoch] = []
        trained_on(points, 1e-4, seen=seen, rounds=rounds)
        ends[rounds] = [epoch.number for epoch in seen]
    assert ends[1] == [0]
    assert ends[2] == [0, 1]
    assert len(ends[9]) < 9


def test_mean_and_scale_are_those_of_the_global_expert() -> None:
    shared = trained_on(gp_draw(100, bandwidth=0.05, noise=0.1), 0.1).hyperparameters
    assert (shared.mean.item(), shared.scale.item()) == (3.0, 4.0)


def test_a_stationary_function_has_one_bandwidth() -> None:
    points = gp_draw(400, bandwidth=0.05, noise=0.1)
    trained = trained_on(points, 0.1)
    position = trained.gate(points.X) @ torch.arange(3).double()
    assert position.max() - position.min() < 0.5
    assert position.mean().item() == pytest.approx(1.0, abs=0.5)


def test_what_is_said_of_a_training_is_that_of_its_gate() -> None:
    points = gp_draw(150, bandwidth=0.05, noise=0.1)
    seen: list[Epoch] = []
    trained = trained_on(points, 0.1, seen=seen)
    assert trained.shares.sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(trained.shares, trained.gate(points.X).mean(0))
    assert seen[-1].objective == pytest.approx(trained.objective)
    assert seen[-1].validation_error == pytest.approx(trained.residual.square().mean().sqrt().item())
    assert seen[-1].kappa == 2


def test_leave_one_out_residuals_are_larger_than_the_noise() -> None:
    trained = trained_on(gp_draw(400, bandwidth=0.05, noise=0.1), 0.1)
    assert math.sqrt(0.08) < trained.residual.square().mean().sqrt().item() < math.sqrt(0.15)


def test_the_price_neither_favours_small_bandwidths_nor_large_ones() -> None:
    """On average over samples of few labels; without a price the position is 0.85, with a price of 1e6 it is 1.18."""
    trained = [trained_on(gp_draw(80, bandwidth=0.05, noise=0.1, seed=seed), 0.1) for seed in range(8)]
    positions = [(each.shares @ torch.arange(3).double()).item() for each in trained]
    assert sum(positions) / len(positions) == pytest.approx(1.0, abs=0.08)


def test_a_noise_that_is_far_off_takes_four_rounds() -> None:
    seen: list[Epoch] = []
    trained_on(gp_draw(100, bandwidth=0.05, noise=0.1), 100.0, seen=seen)
    assert len(seen) == 4
