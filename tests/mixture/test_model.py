from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lobal.core.kernels import KERNELS, WhitenedFeatures, gaussian, matern32
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.interface import Hyperparameters, Posterior
from lobal.mixture.gate import Gate, SoftmaxGate
from lobal.mixture.model import Mixture, bandwidth_volume, mixture_prediction

BANDWIDTHS = torch.tensor([0.05, 0.2, 0.8]).double()


@pytest.fixture
def gate_and_posterior(generator: torch.Generator) -> tuple[Tensor, Posterior]:
    draw = torch.rand(2, 3, 6, dtype=torch.float64, generator=generator)
    gate = torch.softmax(torch.rand(6, 3, dtype=torch.float64, generator=generator), 1)
    return gate, Posterior(draw[0], draw[1])


@pytest.fixture
def mixture(generator: torch.Generator) -> Mixture:
    X = torch.rand(20, 1, dtype=torch.float64, generator=generator)
    one = torch.tensor(1.0).double()
    shared = Hyperparameters(0 * one, one, 0.1 * one)
    experts = exact_experts(X, X[:, 0].sin(), shared, bandwidths=BANDWIDTHS, shared_bandwidth=one, kernel=gaussian)
    points = torch.linspace(0, 1, 4, dtype=torch.float64)[:, None]
    features = WhitenedFeatures.at(points, bandwidths=one[None], shared_bandwidth=0.3 * one, kernel=gaussian)
    start = SoftmaxGate.uniform(features, n_experts=3, scale=10.0)
    values = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    gate = SoftmaxGate(features=features, scale=start.scale, means=start.means, whitened_mean=values, kappa=3)
    return Mixture(experts=experts, gate=gate, bandwidths=BANDWIDTHS, shared_bandwidth=one)


def test_mean_and_variance_are_those_of_the_mixture_distribution(
    gate_and_posterior: tuple[Tensor, Posterior], generator: torch.Generator
) -> None:
    gate, posterior = gate_and_posterior
    choice = torch.multinomial(gate, 200_000, replacement=True, generator=generator)  # (6, draws)
    noise = torch.randn(choice.shape, dtype=torch.float64, generator=generator)
    draws = posterior.mean.T.gather(1, choice) + posterior.variance.T.gather(1, choice).sqrt() * noise
    prediction = mixture_prediction(gate, posterior)
    assert torch.allclose(prediction.mean, draws.mean(1), atol=0.02)
    assert torch.allclose(prediction.variance, draws.var(1), rtol=0.03)


def test_experts_that_agree_have_no_spread(gate_and_posterior: tuple[Tensor, Posterior]) -> None:
    gate, posterior = gate_and_posterior
    agreed = Posterior(posterior.mean[:1].expand(3, -1), posterior.variance[:1].expand(3, -1))
    assert torch.allclose(mixture_prediction(gate, agreed).variance, posterior.variance[0])


def test_uncertainty_is_the_gate_weighted_variance(mixture: Mixture) -> None:
    X = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    expected = (mixture.gate(X) * mixture.experts.posterior(X).variance.T).sum(1)
    assert torch.allclose(mixture.uncertainty(X), expected)


def test_local_bandwidth_is_the_gate_weighted_geometric_mean(mixture: Mixture) -> None:
    X = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    expected = BANDWIDTHS.expand(9, -1).pow(mixture.gate(X)).prod(1)
    assert torch.allclose(mixture.ruler.local_bandwidth(X), expected * bandwidth_volume(mixture.shared_bandwidth))


@pytest.mark.parametrize("form", ["number", "diagonal", "matrix"])
def test_bandwidth_volume_is_the_root_of_the_determinant(form: str) -> None:
    widths = torch.tensor([2.0, 4.0, 1.0]).double()
    rotation = torch.linalg.qr(torch.randn(3, 3).double()).Q
    forms = {"number": torch.tensor(2.0), "diagonal": widths, "matrix": rotation @ widths.diag() @ rotation.T}
    assert bandwidth_volume(forms[form]).item() == pytest.approx(2.0)


@dataclass(frozen=True)
class GivenGate(Gate):
    """These weights, at as many inputs."""

    weights: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        assert len(X) == len(self.weights)
        return self.weights


def test_the_correlation_is_that_of_the_gated_sum_of_experts(mixture: Mixture) -> None:
    X = torch.linspace(-0.5, 1, 9, dtype=torch.float64)[:, None]
    gate = mixture.gate(X)
    C = torch.stack([mixture.experts.joint_covariance(X, expert) for expert in range(3)])
    R = torch.einsum("il,jl,lij->ij", gate, gate, C)
    matrix, factor = mixture.correlation(X)
    torch.testing.assert_close(matrix, R / torch.outer(R.diagonal(), R.diagonal()).sqrt(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(factor @ factor.mT, matrix)


def test_inputs_without_an_expert_in_common_are_independent(mixture: Mixture) -> None:
    X = torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]
    gate = torch.eye(3).double().repeat(2, 1)
    matrix = replace(mixture, gate=GivenGate(gate)).correlation(X).matrix
    assert torch.equal(matrix != 0, torch.eye(3).bool().repeat(2, 2))


def test_only_experts_with_weight_are_computed_and_only_where_they_have_it(
    mixture: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    joint = ExactExperts.joint_covariance

    def watched(self: ExactExperts, X: Tensor, expert: int) -> Tensor:
        asked.append((expert, len(X)))
        return joint(self, X, expert)

    monkeypatch.setattr(ExactExperts, "joint_covariance", watched)
    X = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    gate = torch.tensor([[1.0, 0.0, 0.0]] * 2 + [[0.5, 0.0, 0.5]] * 2 + [[0.0, 0.0, 1.0]]).double()
    replace(mixture, gate=GivenGate(gate)).correlation(X)
    assert asked == [(0, 4), (2, 3)]


def test_without_noise_the_correlation_at_labels_is_none(mixture: Mixture) -> None:
    one = torch.tensor(1.0).double()
    X = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    quiet = Hyperparameters(0 * one, one, 0 * one)
    narrow = {"bandwidths": 0.01 * BANDWIDTHS, "shared_bandwidth": one, "kernel": matern32}
    experts = exact_experts(X, X[:, 0], quiet, **narrow)
    at = torch.cat([X, X + 0.002])
    matrix = replace(mixture, experts=experts).correlation(at).matrix
    assert torch.linalg.eigvalsh(matrix).min() > -1e-9
    assert matrix.abs().max() <= 1.0 + 1e-9
    torch.testing.assert_close(matrix[:5, :5], torch.eye(5).double(), rtol=0.0, atol=1e-3)


@given(
    seed=st.integers(0, 2**31), d=st.integers(1, 3), copies=st.integers(1, 3), kernel=st.sampled_from(sorted(KERNELS))
)
@settings(max_examples=40)
def test_the_correlation_is_positive_definite(seed: int, d: int, copies: int, kernel: str) -> None:
    """At labels, between them and repeatedly, with much noise and with hardly any."""
    generator = torch.Generator().manual_seed(seed)
    X, new = (torch.rand(15, d, dtype=torch.float64, generator=generator) for _ in range(2))
    noise = torch.tensor(10.0 ** -(seed % 12)).double()
    one = torch.tensor(1.0).double()
    kernels = {"bandwidths": BANDWIDTHS, "shared_bandwidth": one, "kernel": KERNELS[kernel]}
    experts = exact_experts(X, X[:, 0].sin(), Hyperparameters(0 * one, one, noise), **kernels)
    at = torch.cat([X, new]).repeat(copies, 1)
    gate = torch.softmax(torch.randn(30, 3, dtype=torch.float64, generator=generator), 1).repeat(copies, 1)
    mixture = Mixture(experts=experts, gate=GivenGate(gate), bandwidths=BANDWIDTHS, shared_bandwidth=one)
    matrix, factor = mixture.correlation(at)
    assert torch.linalg.eigvalsh(matrix).min() > -1e-9
    assert torch.equal(matrix.diagonal(), torch.ones(len(at)).double())
    torch.testing.assert_close(factor @ factor.mT, matrix, rtol=0.0, atol=1e-9)
