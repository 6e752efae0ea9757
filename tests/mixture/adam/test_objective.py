import math

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.mixture.adam.objective import elbo, expert_shares, mixture_squared_error
from lobal.mixture.adam.responses import Response
from lobal.mixture.gate import gated_mean
from lobal.mixture.ladder import bandwidth_prices

B, L = 20, 4


@pytest.fixture
def batch(generator: torch.Generator) -> dict[str, Tensor]:
    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=generator)

    return {
        "gate": torch.softmax(draw(B, L), 1),
        "log_likelihood": -draw(L, B),
        "weight": draw(B),
        "divergence": 10 * draw(L),
    }


def negative_elbo(gate: Tensor, log_likelihood: Tensor, weight: Tensor, divergence: Tensor, n: int) -> Tensor:
    points = LabelledSet(X=weight[:, None], y=weight, weight=weight)
    return elbo(gate, Response(log_likelihood, log_likelihood), points, divergence, n)


def penalty(shares: Tensor) -> Tensor:
    return shares @ bandwidth_prices(len(shares), 1.0, like=shares)


def test_penalty_is_one_at_equal_loads() -> None:
    assert penalty(torch.full((7,), 1 / 7)).item() == pytest.approx(1.0)


def test_penalty_is_zero_for_the_largest_and_two_for_the_smallest_bandwidth() -> None:
    shares = torch.eye(5)
    assert penalty(shares[-1]).item() == 0.0
    assert penalty(shares[0]).item() == pytest.approx(2.0)


def test_penalty_of_a_single_expert_is_zero() -> None:
    assert penalty(torch.ones(1)).item() == 0.0


def test_each_step_to_a_smaller_bandwidth_costs_the_same() -> None:
    assert torch.allclose(-bandwidth_prices(7, 1.0, torch.ones(1).double()).diff(), torch.full((6,), 2 / 6).double())


def test_shares_sum_to_one(batch: dict[str, Tensor]) -> None:
    assert expert_shares(batch["gate"], batch["weight"]).sum().item() == pytest.approx(1.0)


def test_objective_is_the_printed_formula_with_its_own_n_l(batch: dict[str, Tensor]) -> None:
    gate, P, w, KL = batch["gate"], batch["log_likelihood"], batch["weight"], batch["divergence"]
    n, w_B = 300, w.sum()
    expected = 0.0
    for i in range(L):
        v = gate[:, i] * w
        n_l = n * w_B / v.sum()
        expected -= (v * P[i]).sum() / w_B - KL[i] / n_l
    assert torch.allclose(negative_elbo(gate, P, w, KL, n), torch.as_tensor(expected))


def test_objective_depends_on_the_ratios_of_the_weights_only(batch: dict[str, Tensor]) -> None:
    scaled = {**batch, "weight": 7.0 * batch["weight"]}
    assert torch.allclose(negative_elbo(**batch, n=50), negative_elbo(**scaled, n=50))


def test_one_expert_has_the_plain_negative_elbo() -> None:
    P, KL = -torch.rand(1, B).double(), torch.tensor([3.0]).double()
    value = negative_elbo(torch.ones(B, 1).double(), P, torch.ones(B).double(), KL, n=B)
    assert value.item() == pytest.approx(-P.mean().item() + 3.0 / B)


def test_an_expert_without_weight_gets_no_gradient(batch: dict[str, Tensor]) -> None:
    gate = batch["gate"].clone()
    gate[:, 0] = 0.0
    leaves = {name: batch[name].clone().requires_grad_() for name in ("log_likelihood", "divergence")}
    negative_elbo(gate, leaves["log_likelihood"], batch["weight"], leaves["divergence"], n=30).backward()
    for leaf in leaves.values():
        assert leaf.grad is not None
        assert leaf.grad[0].abs().max() == 0.0


def test_squared_error_is_that_of_the_gated_mean(batch: dict[str, Tensor]) -> None:
    mean, y, w = torch.randn(L, B).double(), torch.randn(B).double(), batch["weight"]
    by_hand = sum(w[b] * (y[b] - batch["gate"][b] @ mean[:, b]) ** 2 for b in range(B)) / w.sum()
    points = LabelledSet(X=y[:, None], y=y, weight=w)
    assert mixture_squared_error(batch["gate"], mean, points).item() == pytest.approx(float(by_hand))


def test_a_one_hot_gate_picks_one_expert() -> None:
    mean = torch.randn(L, B).double()
    gate = torch.eye(L).double()[torch.arange(B) % L]
    assert torch.equal(gated_mean(gate, mean), mean[torch.arange(B) % L, torch.arange(B)])


def test_a_constant_penalty_tolerates_a_third_of_the_noise_variance_as_bias() -> None:
    """At theta = 0.5 and L = 7 one step down costs 2 theta / (L - 1) nats = b^2 / (2 v), however large n is."""
    prices = bandwidth_prices(7, 0.5, torch.ones(1).double())
    step = (prices[0] - prices[1]).item()
    assert math.isclose(2.0 * step, 1 / 3, rel_tol=1e-9)
