"""Which gate and which measure of the experts are chosen."""

import math

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.experts.leave_one_out import LeaveOneOut
from lobal.mixture.analytic import gate_choice
from lobal.mixture.analytic.gate_choice import (
    best_gate,
    best_gate_features,
    held_out_losses,
    measures,
    squared_if_clearly_better,
)
from lobal.mixture.analytic.settings import PRICE, AnalyticSettings
from tests.mixture.analytic.test_training import L, features, hyperparameters, random


def chosen_gate(profile: Tensor, *, noise: float = 1.0, seed: int = 0, **options: float) -> int:
    """Which of a stiff, a smooth and a supple gate is chosen for utilities that peak at the profile."""
    n = len(profile)
    points = LabelledSet(X=torch.linspace(0, 1, n, dtype=torch.float64)[:, None], y=profile, weight=0 * profile + 1.0)
    steps = torch.arange(L).double()[:, None]
    utility = -(steps - profile).square() + noise * torch.randn(L, n, generator=torch.Generator().manual_seed(1))
    candidates = [features(20, [width]) for width in (3.0, 0.5, 0.1)]
    generator = torch.Generator().manual_seed(seed)
    best = best_gate_features(candidates, points, utility, AnalyticSettings(), generator, **options)
    return next(number for number, candidate in enumerate(candidates) if candidate is best)


@pytest.mark.parametrize("level", [0.0, 2.0, 4.0])
def test_the_stiffest_gate_is_taken_for_a_profile_without_bends(level: float) -> None:
    assert chosen_gate(torch.full((300,), level).double()) == 0


def test_the_most_supple_gate_is_taken_for_a_profile_with_many_bends() -> None:
    x = torch.linspace(0, 1, 300, dtype=torch.float64)
    assert chosen_gate(2.0 + 2.0 * torch.sin(20.0 * x)) == 2


def test_noise_alone_is_no_reason_for_a_supple_gate() -> None:
    assert chosen_gate(torch.full((100,), 2.0).double(), noise=20.0) == 0


def test_a_gate_may_be_taken_for_a_gain_that_could_be_chance() -> None:
    """A gentle bend under noise: a suppler gate is a little better on held-out points."""
    bend = 2.0 + 0.7 * torch.linspace(-1, 1, 100, dtype=torch.float64).square()
    gates = [chosen_gate(bend, noise=3.0, standard_errors=number) for number in (0.0, 1.0, 100.0)]
    assert gates == sorted(gates, reverse=True)
    assert gates[0] > gates[1] == gates[2] == 0


def test_the_only_candidate_is_taken_unasked() -> None:
    only = features(5, [1.0])
    points = LabelledSet(X=random(3, 1), y=random(3), weight=torch.ones(3).double())
    assert best_gate_features([only], points, random(L, 3), AnalyticSettings(), torch.Generator()) is only


def test_a_single_expert_takes_the_stiffest_gate() -> None:
    candidates = [features(5, [width]) for width in (3.0, 0.1)]
    points = LabelledSet(X=random(30, 1), y=random(30), weight=torch.ones(30).double())
    best = best_gate_features(candidates, points, random(1, 30), AnalyticSettings(), torch.Generator())
    assert best is candidates[0]


def answers_with_errors(errors: Tensor, y: Tensor, variance: float = 0.01) -> LeaveOneOut:
    return LeaveOneOut(y + errors, torch.full_like(errors, variance), torch.zeros_like(errors))


def test_one_expert_has_all_points_where_it_alone_is_best() -> None:
    """Rare, large errors hardly count in likelihoods of a wide distribution, and decide the squared error."""
    x, y = torch.linspace(0, 1, 200).double()[:, None], torch.zeros(200).double()
    steady, erratic = torch.full((200,), 0.1).double(), torch.where(torch.arange(200) % 20 == 0, 0.8, 0.0).double()
    points = LabelledSet(X=x, y=y, weight=torch.ones(200).double())
    answers = answers_with_errors(torch.stack([steady, erratic]), y, variance=1.0)
    best = best_gate(features(12, [0.3]), points, answers, hyperparameters(0.1), AnalyticSettings(compared=True))
    assert torch.equal(best.gate(x), torch.tensor([1.0, 0.0]).double().expand(200, 2))
    assert best.residual.square().mean().sqrt().item() == pytest.approx(0.1)


def measure_taken(squared: Tensor, monkeypatch: pytest.MonkeyPatch) -> AnalyticSettings | None:
    """What is taken if gates by squared errors have these losses, others a loss of 2, and single experts one of 1."""
    y = torch.zeros(len(squared)).double()
    points = LabelledSet(X=torch.linspace(0, 1, len(y)).double()[:, None], y=y, weight=torch.ones_like(y))
    monkeypatch.setattr(gate_choice, "held_out_losses", lambda *given: squared if given[-1].squared else y + 2.0)
    answers = answers_with_errors(torch.ones(2, len(y)).double(), y)
    return best_gate(features(12, [0.3]), points, answers, hyperparameters(0.1), AnalyticSettings()).measure


def test_one_expert_has_to_be_better_than_gates_with_any_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of 1.1 that one label is to blame for is neither better than 2 nor worse than 1 by a standard error."""
    rare = torch.where(torch.arange(200) == 0, 1.1 * 200, 0.0).double()
    taken = measure_taken(rare, monkeypatch)
    assert taken is not None
    assert taken.squared
    assert measure_taken(torch.full_like(rare, 2.0), monkeypatch) is None


def test_experts_that_differ_by_place_share_the_points() -> None:
    x, y = torch.linspace(0, 1, 200).double()[:, None], torch.zeros(200).double()
    points = LabelledSet(X=x, y=y, weight=torch.ones(200).double())
    errors = torch.stack([x[:, 0], 1.0 - x[:, 0]])
    best = best_gate(
        features(12, [0.3]), points, answers_with_errors(errors, y), hyperparameters(0.1), AnalyticSettings()
    )
    assert best.residual.square().mean() < 0.5 * errors.square().mean(dim=1).min()


def test_what_is_given_is_not_compared() -> None:
    assert measures(AnalyticSettings(penalty=0.5)) == [AnalyticSettings(penalty=0.5)]
    assert measures(AnalyticSettings(squared=True, price=0.0)) == [AnalyticSettings(squared=True, price=0.0)]
    assert [(each.price, each.squared) for each in measures(AnalyticSettings())] == [
        (PRICE, False),
        (0.0, False),
        (0.0, True),
    ]


def test_squared_errors_take_over_where_labels_speak_clearly_for_them() -> None:
    """An expert that is too sure of itself has small likelihoods and small errors."""
    x, y = torch.linspace(0, 1, 200).double()[:, None], torch.zeros(200).double()
    points = LabelledSet(X=x, y=y, weight=torch.ones(200).double())
    errors = torch.stack([0.1 + 0.01 * random(200), 1.0 + 0.01 * random(200)])
    alike = answers_with_errors(errors, y)
    too_sure = alike._replace(variance=torch.tensor([1e-5, 1.0]).double()[:, None].expand(2, 200))
    settings = AnalyticSettings()
    assert squared_if_clearly_better(features(12, [0.3]), points, alike, settings) is settings
    taken = squared_if_clearly_better(features(12, [0.3]), points, too_sure, settings)
    assert (taken.squared, taken.price) == (True, 0.0)
    for given in (AnalyticSettings(compared=False), AnalyticSettings(penalty=0.5)):
        assert squared_if_clearly_better(features(12, [0.3]), points, too_sure, given) is given


def confident(better_by: float) -> tuple[LabelledSet, LeaveOneOut]:
    """A first expert of greater likelihood, and a second of smaller squared errors, by so many standard errors."""
    n, order = 400, torch.randperm(400, generator=torch.Generator().manual_seed(0))
    gain = torch.where(order < 200, 0.5, -0.5).double()
    errors = torch.stack([(1.0 + gain + better_by * gain.std() / math.sqrt(n)).sqrt(), torch.ones(n).double()])
    variance = torch.tensor([[1.0], [100.0]]).double().expand(2, n)
    points = LabelledSet(X=random(n, 1), y=torch.zeros(n).double(), weight=torch.ones(n).double())
    return points, LeaveOneOut(errors, variance, torch.zeros(2, n).double())


@pytest.mark.parametrize(("better_by", "is_taken"), [(3.0, False), (5.0, True)])
def test_squared_errors_have_to_be_better_by_four_standard_errors(better_by: float, is_taken: bool) -> None:
    points, predictions = confident(better_by)
    found = squared_if_clearly_better(features(12, [0.3]), points, predictions, AnalyticSettings())
    assert found.squared == is_taken


def test_held_out_losses_do_not_contain_the_price() -> None:
    points = LabelledSet(X=random(80, 1), y=random(80, seed=1), weight=torch.ones(80).double())
    mean = torch.full((3, 80), 0.5).double()
    predictions = LeaveOneOut(mean, torch.ones_like(mean), torch.full_like(mean, 0.5))
    losses = held_out_losses(features(8, [0.5]), points, predictions, AnalyticSettings(price=16.0))
    torch.testing.assert_close(losses, (points.y - 0.5).square())
