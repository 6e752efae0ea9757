"""The gradient in closed form against autograd."""

import pytest
import torch
from torch import Tensor

from lobal.experts.fitc import fitc_variance
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import ZeroCovariance, expected_log_likelihood, kl_divergence, predictive_mean
from lobal.mixture.adam.gradients import Batch, Parameters, bandwidth_prices, elbo_gradients
from lobal.mixture.gate import top_kappa_softmax
from lobal.mixture.objective import expert_shares, gated_negative_elbo, small_bandwidth_penalty

L, B, M, N = 4, 9, 5, 60
THETA = 0.3


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def batch() -> Batch:
    phi = 0.3 * random(L, B, M, seed=0)
    return Batch(phi, phi.square().sum(-1).clamp_max(1.0), y=random(B, seed=1), weight=random(B, seed=2).exp())


@pytest.mark.parametrize("kappa", range(1, L + 1))
@pytest.mark.parametrize("is_given", [False, True], ids=["noise learned", "noise given"])
def test_the_gradient_is_that_of_autograd(kappa: int, is_given: bool) -> None:
    points = batch()
    channels, values = random(B, L, seed=3).requires_grad_(), random(L, M, seed=4).requires_grad_()
    mean, log_scale, log_noise = (torch.tensor(v).double().requires_grad_() for v in (0.3, 0.5, -1.0))
    noise = random(B, seed=5).exp() if is_given else log_noise.exp()
    shared = Hyperparameters(mean, log_scale.exp(), noise)
    gate = top_kappa_softmax(channels, kappa)
    likelihood = expected_log_likelihood(
        points.y - predictive_mean(points.phi, values, mean, shared.scale),
        fitc_variance(points.explained, shared),
        torch.zeros(L, B).double(),
    )
    loss = gated_negative_elbo(gate, likelihood, points.weight, kl_divergence(values, ZeroCovariance()), N)
    loss = loss + THETA * small_bandwidth_penalty(expert_shares(gate, points.weight))
    leaves = [channels, values, mean, log_scale] + ([] if is_given else [log_noise])
    expected = torch.autograd.grad(loss, leaves)
    with torch.no_grad():
        given = points._replace(noise=noise if is_given else None)
        parameters = Parameters(values, mean, log_scale, log_noise)
        found = elbo_gradients(given, gate, parameters, bandwidth_prices(L, THETA, like=values), N)
    assert found.objective.item() == pytest.approx(loss.item())
    for ours, theirs in zip((found.channels, *found.parameters), expected, strict=not is_given):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("is_given", [False, True], ids=["noise learned", "noise given"])
def test_the_gradients_of_several_trainings_are_those_of_each(is_given: bool) -> None:
    points = batch()._replace(noise=random(B, seed=5).exp() if is_given else None)
    gates = top_kappa_softmax(random(3 * B, L, seed=3), 2).reshape(3, B, L)
    several = Parameters(random(3, L, M, seed=4), *random(3, 3, seed=6))
    prices = random(3, L, seed=7).exp()
    together = elbo_gradients(points, gates, several, prices, N)
    for c in range(3):
        alone = elbo_gradients(points, gates[c], Parameters(*(part[c] for part in several)), prices[c], N)
        expected = (alone.objective, alone.channels, *alone.parameters)
        for ours, theirs in zip((together.objective, together.channels, *together.parameters), expected, strict=True):
            torch.testing.assert_close(ours[c], theirs)


def test_one_expert_has_no_price() -> None:
    assert bandwidth_prices(1, THETA, like=torch.zeros(1)).tolist() == [0.0]
