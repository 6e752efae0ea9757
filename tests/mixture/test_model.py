import pytest
import torch
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.exact import exact_experts
from lobal.experts.interface import Hyperparameters, Posterior
from lobal.mixture.gate import SoftmaxGate
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
    assert torch.allclose(mixture.local_bandwidth(X), expected)


@pytest.mark.parametrize("form", ["number", "diagonal", "matrix"])
def test_bandwidth_volume_is_the_root_of_the_determinant(form: str) -> None:
    widths = torch.tensor([2.0, 4.0, 1.0]).double()
    rotation = torch.linalg.qr(torch.randn(3, 3).double()).Q
    forms = {"number": torch.tensor(2.0), "diagonal": widths, "matrix": rotation @ widths.diag() @ rotation.T}
    assert bandwidth_volume(forms[form]).item() == pytest.approx(2.0)
