"""The gradient in closed form against autograd."""

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.experts.fitc import fitc_variance
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import ZeroCovariance, expected_log_likelihood, kl_divergence, predictive_mean
from lobal.mixture.adam.gradients import Parameters, elbo_gradients
from lobal.mixture.adam.objective import elbo, expert_shares
from lobal.mixture.adam.responses import Response
from lobal.mixture.gate import top_kappa_softmax
from lobal.mixture.ladder import bandwidth_prices

L, B, M, N = 4, 9, 5, 60


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kappa", range(1, L + 1))
@pytest.mark.parametrize("is_given", [False, True], ids=["noise learned", "noise given"])
def test_the_gradient_is_that_of_autograd(kappa: int, is_given: bool) -> None:
    phi = 0.3 * random(L, B, M, seed=0)
    explained = phi.square().sum(-1).clamp_max(1.0)
    noise = random(B, seed=5).exp() if is_given else None
    y, weight = random(B, seed=1), random(B, seed=2).exp()
    batch = LabelledSet(X=y[:, None], y=y, weight=weight, noise=noise)
    channels, values = random(B, L, seed=3).requires_grad_(), random(L, M, seed=4).requires_grad_()
    mean, log_scale, log_noise = (torch.tensor(v).double().requires_grad_() for v in (0.3, 0.5, -1.0))
    shared = Hyperparameters(mean, log_scale.exp(), log_noise.exp() if noise is None else noise)
    gate, prices = top_kappa_softmax(channels, kappa), bandwidth_prices(L, 0.3, like=values)
    predicted = predictive_mean(phi, values, mean, shared.scale)
    likelihood = expected_log_likelihood(y - predicted, fitc_variance(explained, shared), torch.zeros(L, B).double())
    loss = elbo(gate, Response(predicted, likelihood), batch, kl_divergence(values, ZeroCovariance()), N)
    loss = loss + expert_shares(gate, weight) @ prices
    leaves = [channels, values, mean, log_scale] + ([] if is_given else [log_noise])
    expected = torch.autograd.grad(loss, leaves)
    with torch.no_grad():
        parameters = Parameters(values, mean, log_scale, log_noise)
        objective, slope, slopes = elbo_gradients(batch, phi, explained, gate, parameters, prices, N)
    assert objective.item() == pytest.approx(loss.item())
    for ours, theirs in zip((slope, *slopes), expected, strict=not is_given):
        torch.testing.assert_close(ours, theirs)
