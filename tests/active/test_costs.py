"""Costs that differ from point to point: densities for a unit of cost, and budgets."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lobal import ActiveLearner, Box, Pool
from lobal.active.scoring import scores_from
from lobal.active.spread import Shape, spread_density
from lobal.core.superior_density import attainable_sample_size
from tests.active.setting import ones
from tests.learner_setting import bumpy, learner, pool


def four_fold(X: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] < 0.5, 4.0, 1.0)


def costly(**changes: object) -> ActiveLearner:
    return learner(Pool(pool().X, cost=four_fold), **changes)


@pytest.mark.parametrize(("smoothness", "factor"), [(np.inf, 0.5), (1.0, 4.0 ** (-3.0 / 5.0))])
def test_labels_of_four_times_the_cost_are_half_as_dense(smoothness: float, factor: float) -> None:
    X = np.linspace(0.0, 1.0, 100)[:, None]
    candidates = Pool(X, density=1.0, cost=four_fold).candidates(0)
    found = scores_from(ones(100), ones(100), ones(100), candidates, smoothness=smoothness, dimension=1.0)
    assert float(found.superior[0] / found.superior[-1]) == pytest.approx(factor)
    assert float(found.even[0] / found.even[-1]) == pytest.approx(factor)


def test_spread_points_have_the_density_of_a_quantisation_at_given_cost() -> None:
    q, cost, complexity = ones(2), torch.tensor([4.0, 1.0]), torch.tensor([3.0, 1.0])
    superior = (q * complexity / cost).sqrt()
    found = spread_density(superior, q, Shape(4.0, 1.5), dimension=2.0, cost=cost)
    assert float(found[0] / found[1]) == pytest.approx((3.0**1.5 / 4.0) ** (2.0 / 6.0))


def test_the_attainable_cost_is_one_where_all_is_constant_and_less_where_costs_differ() -> None:
    orders = {"smoothness": np.inf, "dimension": 1.0}
    cost = torch.tensor([4.0, 1.0], dtype=torch.float64)
    flat = attainable_sample_size(ones(2), ones(2), ones(2), ones(2), **orders, cost=ones(2))
    # (int sqrt(q LFC v cost))^2 / (int LFC v * int q cost)
    found = attainable_sample_size(ones(2), ones(2), ones(2), ones(2), **orders, cost=cost)
    assert flat == pytest.approx(1.0)
    assert found == pytest.approx(1.5**2 / 2.5)


def test_fewer_points_are_asked_for_where_they_cost_more() -> None:
    dear, even = costly(), learner()
    shares = [(pool().X[each.ask(60), 0] < 0.5).mean() for each in (dear, even)]
    assert shares[0] < 0.8 * shares[1]


def test_the_first_points_of_a_box_follow_the_cost() -> None:
    batch = learner(Box([0.0], [1.0], n_candidates=512, cost=four_fold)).ask(40)
    assert (batch[:, 0] < 0.5).mean() < 0.45


def test_the_cost_of_labelled_and_failed_points_is_spent() -> None:
    found = costly()
    cheap, dear = (int(np.flatnonzero(four_fold(pool().X) == cost)[0]) for cost in (1.0, 4.0))
    found.expect([int(np.flatnonzero(four_fold(pool().X) == 1.0)[1])])
    found.tell([cheap, dear], [1.0, np.nan])
    assert found.spent == 5.0


def test_without_costs_every_point_costs_one() -> None:
    found = learner()
    found.tell([3, 4], [1.0, np.nan])
    assert found.spent == 2.0


def test_a_run_ends_within_its_budget_and_goes_on_with_a_larger_one() -> None:
    found = costly()
    found.run(bumpy, sizes=[12, 24, 36], budget=60.0)
    assert 55.0 < found.spent <= 60.0
    n = len(found.labelled.y)
    assert n < 36
    found.run(bumpy, sizes=[12, 24, 36], budget=1e6)
    assert len(found.labelled.y) == 36


def test_a_budget_is_reached_exactly() -> None:
    found = learner()
    found.run(bumpy, sizes=[8, 30], budget=11.0)
    assert found.spent == 11.0
    assert len(found.history) == 2


def test_costs_are_saved_with_the_campaign(tmp_path: Path) -> None:
    found = costly(path=tmp_path / "c")
    found.run(bumpy, sizes=[12])
    found.close()
    with ActiveLearner.load(tmp_path / "c") as again:
        assert again.spent == found.spent
        assert torch.equal(again.candidates.cost, torch.from_numpy(four_fold(pool().X)))  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [0.0, [1.0, -1.0, 1.0], [1.0, 2.0], "much"])
def test_costs_that_cannot_be_are_refused(cost: object) -> None:
    with pytest.raises(ValueError, match="cost"):
        Pool([[0.0], [1.0], [2.0]], cost=cost)


def test_the_cost_of_a_box_is_a_function() -> None:
    with pytest.raises(ValueError, match="cost of a box must be a function"):
        Box([0.0], [1.0], cost=3.0)


def test_a_budget_is_a_number_above_zero() -> None:
    with pytest.raises(ValueError, match="budget must be above 0"):
        learner().run(bumpy, sizes=[12], budget=0.0)
