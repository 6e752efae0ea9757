import pytest
import torch
from torch import Tensor

from lobal.kernels import WhitenedFeatures, gaussian
from lobal.mixture.gate import SoftmaxGate, top_kappa_softmax


def channels(n: int = 50, L: int = 7) -> Tensor:
    return torch.randn(n, L, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def make_gate(L: int = 3) -> SoftmaxGate:
    points = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    features = WhitenedFeatures.at(points, bandwidths=torch.ones(1).double(), shared=torch.tensor(0.2), kernel=gaussian)
    return SoftmaxGate.uniform(features, n_experts=L, scale=10.0)


@pytest.mark.parametrize("kappa", [1, 2, 5, 7])
def test_exactly_kappa_experts_answer_and_their_weights_sum_to_one(kappa: int) -> None:
    gate = top_kappa_softmax(channels(), kappa)
    assert torch.all((gate > 0).sum(1) == kappa)
    assert torch.allclose(gate.sum(1), torch.ones(50).double())


def test_kappa_of_all_experts_is_the_plain_softmax() -> None:
    assert torch.allclose(top_kappa_softmax(channels(), 7), torch.softmax(channels(), 1))


def test_the_largest_channels_are_kept_and_weighed_against_each_other() -> None:
    gate = top_kappa_softmax(torch.tensor([[1.0, 3.0, 2.0]]), 2)
    assert torch.allclose(gate, torch.cat([torch.zeros(1), torch.softmax(torch.tensor([3.0, 2.0]), 0)])[None])


def test_ties_leave_exactly_kappa_experts() -> None:
    assert torch.all((top_kappa_softmax(torch.zeros(4, 5), 2) > 0).sum(1) == 2)


@pytest.mark.parametrize("kappa", [0, 8])
def test_a_kappa_out_of_range_is_named_in_the_error(kappa: int) -> None:
    with pytest.raises(ValueError, match=f"L = 7, got {kappa}"):
        top_kappa_softmax(channels(), kappa)


def test_training_starts_from_equal_weights() -> None:
    gate = make_gate()(torch.rand(6, 1, dtype=torch.float64))
    assert torch.allclose(gate, torch.full((6, 3), 1 / 3).double())


def test_far_from_its_inducing_points_the_gate_falls_back_to_the_channel_means() -> None:
    start = make_gate()
    gate = SoftmaxGate(
        features=start.features,
        scale=start.scale,
        means=torch.tensor([0.0, 1.0, 2.0]).double(),
        whitened_mean=torch.randn(3, 5).double(),
        kappa=3,
    )
    far = gate(torch.tensor([[100.0]]).double())
    assert torch.allclose(far, torch.softmax(gate.means, 0)[None])
