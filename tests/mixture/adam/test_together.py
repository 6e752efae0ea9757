"""Candidates trained together against each of them trained alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lobal.experts.interface import Hyperparameters
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.together import Candidate, JointTrainer, Trained, sparse_softmax
from lobal.mixture.adam.training import Epoch, Trainer
from lobal.mixture.gate import SoftmaxGate, top_kappa_softmax
from tests.mixture.adam.test_training import BANDWIDTHS, features, quick, sample

VARIED: list[dict[str, Any]] = [
    {},
    {"penalty": 0.0, "gate_noise": 0.0},
    {"hyperparameter_rate": 1.0, "gate_rate": 0.5},
    {"gate_noise": 1.0, "learning_rate": 0.03},
    {"kappa": 1},
    {"kappa": 3},
]


def responses_on(device: str = "cpu", *, is_known: bool = False) -> SparseResponses:
    start = Hyperparameters(*(torch.tensor(v).double().to(device) for v in (0.0, 1.0, 0.02)))
    points, validation = (
        replace(
            one,
            X=one.X.to(device),
            y=one.y.to(device),
            weight=torch.linspace(0.5, 2.0, len(one)).to(one.y).to(device),
            noise=torch.linspace(0.01, 0.03, len(one)).to(one.y).to(device) if is_known else None,
        )
        for one in (sample(120, 1), sample(60, 2))
    )
    return SparseResponses(points, validation, features(40, BANDWIDTHS.to(device)), start)


def gates(widths: list[float], device: str = "cpu") -> list[SoftmaxGate]:
    """Gates of these bandwidths and of various scales; those of one bandwidth share their features."""
    maps = {width: features(15, torch.tensor([width]).double().to(device)) for width in widths}
    return [SoftmaxGate.uniform(maps[width], n_experts=3, scale=5.0 + i) for i, width in enumerate(widths)]


def candidates(widths: list[float], device: str = "cpu", **changes: Any) -> list[Candidate]:
    varied = [quick(**{"max_epochs": 25, **changes, **own}) for own in VARIED[: len(widths)]]
    return [Candidate(gate, settings) for gate, settings in zip(gates(widths, device), varied, strict=True)]


def generators() -> tuple[torch.Generator, torch.Generator]:
    return torch.Generator().manual_seed(3), torch.Generator().manual_seed(4)


def together(
    responses: SparseResponses, entries: list[Candidate], last: dict[int, int] | None = None
) -> tuple[list[Trained | None], list[list[Epoch]]]:
    """What was trained and what was seen; `last` are the epochs after which some do not go on."""
    seen: list[list[Epoch]] = [[] for _ in entries]

    def goes_on(number: int, epoch: Epoch) -> bool:
        seen[number].append(epoch)
        return epoch.number != (last or {}).get(number)

    return JointTrainer(responses, entries, *generators()).run(goes_on), seen


def alone(responses: SparseResponses, entry: Candidate) -> tuple[SoftmaxGate, list[Epoch]]:
    seen: list[Epoch] = []
    return Trainer(responses, entry.gate, entry.settings, *generators()).run(seen.append), seen


def errors(epochs: list[Epoch]) -> list[float]:
    return [epoch.validation_error for epoch in epochs]


@pytest.mark.parametrize("is_known", [False, True], ids=["noise learned", "noise given"])
@pytest.mark.parametrize("widths", [[0.2] * 6, [0.2, 0.1, 0.2, 0.4, 0.1, 0.2]], ids=["one width", "widths"])
def test_together_and_alone_take_the_same_course(is_known: bool, widths: list[float]) -> None:
    trained, seen = together(responses_on(is_known=is_known), candidates(widths))
    for entry, found, epochs in zip(candidates(widths), trained, seen, strict=True):
        responses = responses_on(is_known=is_known)
        gate, expected = alone(responses, entry)
        assert errors(epochs) == pytest.approx(errors(expected), rel=1e-6)
        assert [epoch[:3] for epoch in epochs] == [epoch[:3] for epoch in expected]  # numbers, kappas and rates
        assert found is not None
        assert found.gate.kappa == gate.kappa
        leaves = [*responses.inducing_parameters(), *responses.hyperparameters()]
        for ours, theirs in zip(found.experts, leaves, strict=True):
            torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.gate.whitened_mean, gate.whitened_mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("widths", [[0.2] * 3, [0.2, 0.1, 0.4]], ids=["one width", "widths"])
def test_who_leaves_does_not_disturb_the_others(widths: list[float]) -> None:
    whole = together(responses_on(), candidates(widths))[1]
    trained, seen = together(responses_on(), candidates(widths), last={0: 4, 1: 9})
    assert [len(epochs) for epochs in seen] == [5, 10, 25]
    assert trained[0] is trained[1] is None
    assert trained[2] is not None
    for epochs, expected in zip(seen, whole, strict=True):
        assert errors(epochs) == pytest.approx(errors(expected)[: len(epochs)], rel=1e-6)


def test_who_diverges_leaves() -> None:
    entries = candidates([0.2] * 3)
    wild = entries[1]._replace(settings=replace(entries[1].settings, learning_rate=1e200))
    trained, seen = together(responses_on(), [entries[0], wild, entries[2]])
    assert [found is None for found in trained] == [False, True, False]
    assert len(seen[1]) < len(seen[0]) == 25


def test_trainings_of_different_lengths_end_on_their_own() -> None:
    entries = candidates([0.2] * 6, patience=1, smallest_rate=0.2, max_epochs=60)
    trained, seen = together(responses_on(), entries)
    lengths = [len(alone(responses_on(), entry)[1]) for entry in entries]
    assert len(set(lengths)) > 1
    assert [len(epochs) for epochs in seen] == lengths
    assert None not in trained


def test_the_experts_are_left_where_they_were() -> None:
    responses = responses_on()
    before = [leaf.detach().clone() for leaf in responses.parameters()]
    together(responses, candidates([0.2] * 2))
    for leaf, value in zip(responses.parameters(), before, strict=True):
        assert torch.equal(leaf, value)


def test_each_candidate_has_its_own_kappa(generator: torch.Generator) -> None:
    channels = torch.randn(4, 3, 7, generator=generator, dtype=torch.float64)
    found = sparse_softmax(channels, torch.tensor([1, 2, 3, 2]))
    for kappa, ours, given in zip([1, 2, 3, 2], found, channels, strict=True):
        torch.testing.assert_close(ours.mT, top_kappa_softmax(given.mT, kappa))


def test_batches_of_different_sizes_are_refused() -> None:
    one, other = candidates([0.2] * 2)
    other = other._replace(settings=replace(other.settings, batch_size=31))
    with pytest.raises(ValueError, match=r"may differ in .*penalty.*batch_size=31"):
        together(responses_on(), [one, other])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("is_known", [False, True], ids=["noise learned", "noise given"])
@pytest.mark.parametrize("widths", [[0.2] * 6, [0.2, 0.1, 0.2, 0.4, 0.1, 0.2]], ids=["one width", "widths"])
@pytest.mark.parametrize("can_fuse", [True, False], ids=["fused", "recorded"])
def test_a_gpu_takes_the_same_course(
    is_known: bool, widths: list[float], can_fuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_fuse:
        monkeypatch.setattr("lobal.mixture.adam.together.can_fuse", lambda: False)
    last = {0: 4, 1: 9}
    expected = together(responses_on(is_known=is_known), candidates(widths), last)[1]
    seen = together(responses_on("cuda", is_known=is_known), candidates(widths, "cuda"), last)[1]
    for ours, theirs in zip(seen, expected, strict=True):
        assert errors(ours) == pytest.approx(errors(theirs), rel=1e-4)
