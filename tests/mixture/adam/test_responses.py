import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts import features as stored_features
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import FullCovariance
from lobal.mixture.adam.objective import elbo
from lobal.mixture.adam.responses import FixedResponses, SparseResponses
from lobal.mixture.gate import SoftmaxGate
from tests.experts.setting import fitc_experts

BANDWIDTHS = torch.tensor([0.1, 0.3]).double()
ONE = torch.tensor(1.0).double()
START = Hyperparameters(torch.tensor(0.2).double(), torch.tensor(1.5).double(), torch.tensor(0.05).double())


def sample(n: int, seed: int, *, noise: bool = False) -> LabelledSet:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, 1, dtype=torch.float64, generator=generator)
    y = torch.sin(6 * X[:, 0]) + 0.2 * torch.randn(n, dtype=torch.float64, generator=generator)
    weight = 0.5 + torch.rand(n, dtype=torch.float64, generator=generator)
    return LabelledSet(X=X, y=y, weight=weight, noise=torch.full((n,), 0.04).double() if noise else None)


def features(points: int = 12, bandwidths: torch.Tensor = BANDWIDTHS) -> WhitenedFeatures:
    grid = torch.linspace(0, 1, points, dtype=torch.float64)[:, None]
    return WhitenedFeatures.at(grid, bandwidths=bandwidths, shared_bandwidth=ONE, kernel=gaussian)


def sparse(**changes: object) -> SparseResponses:
    return SparseResponses(sample(50, 1), sample(20, 2), features(), START, **changes)  # type: ignore[arg-type]


def uniform_gate() -> SoftmaxGate:
    return SoftmaxGate.uniform(features(5, torch.tensor([0.3]).double()), n_experts=2, scale=10.0)


def exact(points: LabelledSet) -> ExactExperts:
    return exact_experts(points.X, points.y, START, bandwidths=BANDWIDTHS, shared_bandwidth=ONE, kernel=gaussian)


@pytest.mark.parametrize("expert", [0, 1])
def test_pretraining_is_the_optimum_of_each_expert_on_all_points(expert: int) -> None:
    responses = sparse(covariance=FullCovariance)
    points = responses.points
    everything = torch.zeros(50, 2).double()
    everything[:, expert] = 1.0
    answer = responses.at(torch.arange(50))
    elbo(everything, answer, points, responses.divergence(), 50).backward()
    for leaf in responses.leaves()[0]:
        assert leaf.grad is not None
        assert leaf.grad.triu().abs().max() < 1e-9


def test_recomputed_features_answer_like_kept_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.tensor([3, 1, 7])
    kept = sparse().at(rows)
    monkeypatch.setattr(stored_features, "CACHE_BYTES", 0)
    recomputed = sparse().at(rows)
    assert torch.allclose(kept.mean, recomputed.mean)
    assert torch.allclose(kept.log_likelihood, recomputed.log_likelihood)


def test_given_noise_is_not_learned() -> None:
    responses = SparseResponses(sample(50, 1, noise=True), sample(20, 2), features(), START)
    assert len(responses.leaves()[1]) == 2
    assert len(sparse().leaves()[1]) == 3
    assert torch.equal(responses.experts().hyperparameters.noise, responses.points.noise)  # type: ignore[arg-type]


def test_experts_are_a_copy_that_training_does_not_touch() -> None:
    responses = sparse()
    before = responses.experts().whitened_mean.clone()
    experts = responses.experts()
    with torch.no_grad():
        responses.leaves()[0][0].add_(1.0)
    assert torch.equal(experts.whitened_mean, before)
    assert not experts.whitened_mean.requires_grad


def test_refit_is_the_posterior_given_gate_weighted_labels() -> None:
    responses = sparse()
    points = responses.points
    refitted = responses.refit(uniform_gate(), with_validation=False)
    weights = (0.5 * points.weight / points.weight.mean()).expand(2, -1)
    by_hand = fitc_experts(features(), points.X, points.y, START, weights=weights)
    for ours, theirs in zip(refitted.posterior(points.X), by_hand.posterior(points.X), strict=True):
        assert torch.allclose(ours, theirs)


def test_refit_with_validation_uses_the_validation_labels() -> None:
    responses = sparse()
    without, with_labels = (responses.refit(uniform_gate(), with_validation=flag) for flag in (False, True))
    X = responses.validation.X
    assert (with_labels.posterior(X).variance < without.posterior(X).variance).all()


def test_leave_one_out_responses_do_not_see_their_own_label() -> None:
    points = sample(30, 1)
    shifted = LabelledSet(X=points.X, y=points.y.clone(), weight=points.weight)
    shifted.y[4] += 100.0
    answers = [FixedResponses(p, sample(5, 2), exact(p)).at(torch.arange(30)).mean for p in (points, shifted)]
    assert torch.allclose(answers[0][:, 4], answers[1][:, 4])
    assert not torch.allclose(answers[0][:, 5], answers[1][:, 5])


def test_a_gate_set_is_answered_by_plain_predictions() -> None:
    points, gate_set = sample(30, 1), sample(10, 3)
    responses = FixedResponses(points, sample(5, 2), exact(points), gate_set)
    assert responses.points is gate_set
    assert torch.allclose(responses.at(torch.arange(10)).mean, exact(points).posterior(gate_set.X).mean)


def test_fixed_experts_have_nothing_to_learn() -> None:
    points = sample(30, 1)
    responses = FixedResponses(points, sample(5, 2), exact(points))
    assert responses.leaves() == ([], [])
    assert responses.divergence().abs().max() == 0.0
