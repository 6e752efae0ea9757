import math

import numpy as np
import pytest
import torch

from lobal.baselines.deep_gp_layers import SineBasis, exponential_sums, moments, output_posterior, warped
from lobal.baselines.deep_gp_sampling import FIRST, HIDDEN, ONLY, OUTPUT
from lobal.core.kernels import gaussian, kernel_matrix
from tests.baselines.setting import uniform
from tests.core.setting import seeded

BASES = [FIRST, HIDDEN, OUTPUT, ONLY]


def prior_covariance(basis: SineBasis, x: torch.Tensor, bandwidth: float) -> torch.Tensor:
    scaled = basis.functions(x) * basis.deviations(torch.tensor(bandwidth, dtype=torch.float64))
    return scaled @ scaled.mT


@pytest.mark.parametrize("basis", BASES)
def test_the_kernel_is_the_gaussian_one_within_the_bounds_of_the_bandwidth(basis: SineBasis) -> None:
    x = torch.linspace(-basis.reach, basis.reach, 101, dtype=torch.float64)
    smallest, largest = basis.bounds
    for bandwidth, tolerance in ((smallest, 0.005), (math.sqrt(smallest * largest), 1e-3), (largest, 0.15)):
        width = torch.tensor(bandwidth, dtype=torch.float64)
        exact = kernel_matrix(x[:, None], x[:, None], width, gaussian)
        difference = (prior_covariance(basis, x, bandwidth) - exact).abs()
        assert difference.max() < tolerance
        assert difference[25:76, 25:76].max() < 0.005  # away from the ends of the reach


def test_sums_of_powers_are_those_of_single_ones() -> None:
    angles, values = 3.0 * uniform(2, 30), uniform(3, 30, seed=1)
    sums = exponential_sums(angles, values, 23)
    for order in (0, 1, 7, 22):
        expected = torch.exp(1j * order * angles) @ values.mT.to(torch.complex128)
        np.testing.assert_allclose(sums[:, :, order].numpy(), expected.numpy(), atol=1e-12)


def test_a_sum_of_functions_is_that_of_their_values() -> None:
    basis, x = SineBasis(half_width=2.0, number=23, reach=1.0), 2.0 * uniform(3, 9) - 1.0
    weights = uniform(3, 23, seed=1)
    expected = (basis.functions(x) @ weights[..., None])[..., 0]
    np.testing.assert_allclose(basis.sums(x, weights).numpy(), expected.numpy(), atol=1e-12)


def test_a_layer_can_start_as_a_straight_line() -> None:
    x = torch.linspace(-0.5, 0.5, 21, dtype=torch.float64)
    weights = FIRST.weights_of(3.0, 0.3) * FIRST.deviations(torch.tensor(0.3, dtype=torch.float64))
    np.testing.assert_allclose(FIRST.sums(x, weights).numpy(), 3.0 * x.numpy(), atol=0.01)


def test_evidence_mean_and_variance_are_those_of_the_gaussian_process() -> None:
    x, y, new = 2.0 * uniform(2, 40) - 1.0, uniform(40, seed=2) - 0.5, 2.0 * uniform(2, 7, seed=3) - 1.0
    bandwidth, noise = torch.tensor([0.2, 0.4], dtype=torch.float64), torch.tensor([0.05, 0.3], dtype=torch.float64)
    posterior = output_posterior(OUTPUT, moments(OUTPUT, x, y), bandwidth, noise)
    mean, V = posterior.mean(new), posterior.roots(new)
    for chain in range(2):
        K = prior_covariance(OUTPUT, x[chain], bandwidth[chain].item()) + noise[chain] * torch.eye(40)
        solved = torch.linalg.solve(K, y)
        assert posterior.scale[chain].item() == pytest.approx((y @ solved).item() / 40)
        evidence = -20.0 * (y @ solved).log() - 0.5 * torch.logdet(K)
        assert posterior.log_evidence[chain].item() == pytest.approx(evidence.item())
        together = prior_covariance(OUTPUT, torch.cat([x[chain], new[chain]]), bandwidth[chain].item())
        across, of_new = together[40:, :40], together[40:, 40:]
        np.testing.assert_allclose(mean[chain].numpy(), (across @ solved).numpy(), atol=1e-9)
        left = of_new - across @ torch.linalg.solve(K, across.mT)
        np.testing.assert_allclose((V[chain].mT @ V[chain]).numpy(), left.numpy(), atol=1e-9)


def test_layers_are_passed_through_in_turn_and_leaving_the_reach_is_noticed() -> None:
    x, weights = torch.linspace(-0.5, 0.5, 11, dtype=torch.float64), []
    for basis, slope, width in ((FIRST, 3.0, 0.3), (HIDDEN, 1.0, 0.8)):
        weights.append(basis.weights_of(slope, width).repeat(2, 1))
    weights[0][1] *= 2.0  # the second chain: 6 x, beyond 2.5
    bandwidths = torch.tensor([[0.3, 0.8, 0.1]], dtype=torch.float64).repeat(2, 1)
    places, is_inside, overshoot = warped((FIRST, HIDDEN), OUTPUT, x, tuple(weights), bandwidths)
    np.testing.assert_allclose(places[0].numpy(), 3.0 * x.numpy(), atol=0.03)
    assert is_inside.tolist() == [True, False]
    assert overshoot[0] == 0.0 < overshoot[1]


def test_gradients_reach_every_weight() -> None:
    x = torch.linspace(-0.5, 0.5, 11, dtype=torch.float64)
    weights = torch.randn(1, FIRST.number, dtype=torch.float64, generator=seeded(0)).mul_(0.1).requires_grad_()
    places = warped((FIRST,), OUTPUT, x, (weights,), torch.tensor([[0.05, 0.1]], dtype=torch.float64)).places
    bandwidth, noise = torch.tensor([0.1], dtype=torch.float64), torch.tensor([0.1], dtype=torch.float64)
    output_posterior(OUTPUT, moments(OUTPUT, places, x.sin()), bandwidth, noise).log_evidence.sum().backward()
    assert weights.grad is not None
    assert weights.grad[0, :40].abs().min() > 0.0
