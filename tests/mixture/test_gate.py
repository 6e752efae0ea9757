import pytest
import torch
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.mixture.gate import OrdinalGate, SoftmaxGate, interpolation_weights, top_kappa_softmax


def channels(n: int = 50, L: int = 7) -> Tensor:
    return torch.randn(n, L, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def make_gate(L: int = 3) -> SoftmaxGate:
    points = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    features = WhitenedFeatures.at(
        points, bandwidths=torch.ones(1).double(), shared_bandwidth=torch.tensor(0.2), kernel=gaussian
    )
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


def make_ordinal(mean: float = 2.0, spread: float = 1.0, L: int = 5) -> OrdinalGate:
    return OrdinalGate(
        features=make_gate().features,
        scale=torch.tensor(4.0).double(),
        mean=torch.tensor(mean).double(),
        whitened_mean=spread * torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(2)),
        n_experts=L,
    )


@pytest.mark.parametrize("L", [1, 2, 5])
def test_two_neighbours_at_most_share_a_position(L: int) -> None:
    gate = interpolation_weights(torch.linspace(-3.0, L + 2.0, 301).double(), L)
    assert torch.allclose(gate.sum(1), torch.ones(301).double())
    assert (gate >= 0.0).all()
    assert (gate > 0.0).sum(1).max() <= min(2, L)
    apart = [row.nonzero().flatten().diff().tolist() for row in gate]
    assert all(gaps in ([], [1]) for gaps in apart)


def test_the_weights_interpolate_the_position() -> None:
    position = torch.linspace(0.0, 4.0, 41).double()
    assert torch.allclose(interpolation_weights(position, 5) @ torch.arange(5).double(), position)


def test_positions_beyond_the_ladder_are_those_of_its_ends() -> None:
    gate = interpolation_weights(torch.tensor([-1e9, -0.1, 4.1, 1e9]).double(), 5)
    assert torch.equal(gate, torch.eye(5).double()[[0, 0, 4, 4]])


def test_the_position_of_an_ordinal_gate_is_its_channel() -> None:
    gate, X = make_ordinal(spread=0.2), torch.rand(30, 1, dtype=torch.float64)
    position = gate(X) @ torch.arange(5).double()
    by_hand = gate.mean + gate.scale.sqrt() * (gate.features(X)[0] @ gate.whitened_mean)
    assert torch.allclose(position, by_hand)


def test_features_computed_before_give_the_same_gate() -> None:
    gate, X = make_ordinal(), torch.rand(30, 1, dtype=torch.float64)
    assert torch.allclose(gate.at_features(gate.features(X)[0]), gate(X))


@pytest.mark.parametrize(("mean", "experts"), [(2.0, [2]), (1.5, [1, 2]), (-3.0, [0]), (99.0, [4])])
def test_far_from_its_inducing_points_an_ordinal_gate_falls_back_to_its_mean(mean: float, experts: list[int]) -> None:
    far = make_ordinal(mean)(torch.tensor([[100.0]]).double())[0]
    assert far.nonzero().flatten().tolist() == experts
