"""The gradient in closed form against autograd."""

import pytest
import torch
from torch import Tensor

from lobal.experts.fitc import fitc_variance
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import ZeroCovariance, expected_log_likelihood, kl_divergence, predictive_mean
from lobal.mixture.adam.gradients import Batch, Parameters, elbo_gradients
from lobal.mixture.adam.objective import expert_shares, gated_negative_elbo, small_bandwidth_penalty
from lobal.mixture.gate import top_kappa_softmax
from lobal.mixture.ladder import bandwidth_prices

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


def test_one_expert_has_no_price() -> None:
    assert bandwidth_prices(1, THETA, like=torch.zeros(1)).tolist() == [0.0]
