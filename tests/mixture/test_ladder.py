from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lobal.core.kernels import gaussian
from lobal.mixture.ladder import (
    FEWEST,
    IN_USE,
    NOT_IN_USE,
    STEPS_BEYOND,
    extended,
    in_use,
    largest_useful,
    trimmed,
)

LADDER = 2.0 ** torch.arange(-3, 4).double()


def shares_at(*experts: int, L: int = 7) -> Tensor:
    shares = torch.zeros(L, dtype=torch.float64)
    shares[list(experts)] = 1.0 / len(experts)
    return shares


@st.composite
def ladders(draw: Any) -> tuple[Tensor, Tensor]:
    """A geometric ladder and shares that sum to one, most of them often zero."""
    L = draw(st.integers(1, 12))
    step = draw(st.floats(1.05, 4.0))
    loads = draw(st.lists(st.sampled_from([0.0, 1e-4, 0.005, 0.2, 1.0]), min_size=L, max_size=L))
    loads[draw(st.integers(0, L - 1))] = 1.0
    shares = torch.tensor(loads, dtype=torch.float64)
    return step ** torch.arange(L).double(), shares / shares.sum()


@given(ladders())
def test_an_extended_ladder_is_ascending_and_contains_the_old_one(ladder: tuple[Tensor, Tensor]) -> None:
    bandwidths, shares = ladder
    longer = extended(bandwidths, shares)
    assert (longer.diff() > 0).all()
    assert set(bandwidths.tolist()) <= set(longer.tolist())


@given(ladders())
def test_the_steps_of_an_extended_ladder_stay_equal(ladder: tuple[Tensor, Tensor]) -> None:
    bandwidths, shares = ladder
    if len(bandwidths) > 1:
        step = (bandwidths[1] / bandwidths[0]).log()
        steps = extended(bandwidths, shares).log().diff()
        torch.testing.assert_close(steps, step.expand(len(steps)))


@given(ladders())
def test_ends_are_extended_where_they_are_in_use(ladder: tuple[Tensor, Tensor]) -> None:
    bandwidths, shares = ladder
    longer = extended(bandwidths, shares)
    below, above = (longer < bandwidths[0]).sum().item(), (longer > bandwidths[-1]).sum().item()
    if len(bandwidths) > 1:
        assert below == (STEPS_BEYOND if shares[0] >= IN_USE else 0)
        assert above == (STEPS_BEYOND if shares[-1] >= IN_USE else 0)
    else:
        assert (below, above) == (0, 0)


def test_uneven_ladders_go_on_with_their_last_step() -> None:
    longer = extended(torch.tensor([1.0, 2.0, 6.0]).double(), shares_at(0, 2, L=3))
    torch.testing.assert_close(longer, torch.tensor([0.25, 0.5, 1.0, 2.0, 6.0, 18.0, 54.0]).double())


@given(ladders())
def test_a_trimmed_ladder_is_a_stretch_of_the_old_one_with_all_that_is_in_use(ladder: tuple[Tensor, Tensor]) -> None:
    bandwidths, shares = ladder
    shorter = trimmed(bandwidths, shares).tolist()
    first = bandwidths.tolist().index(shorter[0])
    assert shorter == bandwidths.tolist()[first : first + len(shorter)]
    assert len(shorter) >= min(len(bandwidths), FEWEST)
    assert set(bandwidths[shares >= NOT_IN_USE].tolist()) <= set(shorter)


@given(ladders())
def test_at_most_one_unused_expert_is_left_at_either_end(ladder: tuple[Tensor, Tensor]) -> None:
    bandwidths, shares = ladder
    shorter = trimmed(bandwidths, shares)
    if len(shorter) > FEWEST:
        left = shares[(bandwidths >= shorter[0]) & (bandwidths <= shorter[-1])]
        assert left[:2].sum() >= NOT_IN_USE
        assert left[-2:].sum() >= NOT_IN_USE


@pytest.mark.parametrize(
    ("used", "kept"), [((3,), (2, 4)), ((2, 4), (1, 5)), ((0,), (0, 2)), ((6,), (4, 6)), ((0, 6), (0, 6))]
)
def test_an_unused_expert_stays_beside_those_in_use(used: tuple[int, ...], kept: tuple[int, int]) -> None:
    assert torch.equal(trimmed(LADDER, shares_at(*used)), LADDER[kept[0] : kept[1] + 1])


def test_of_dear_experts_none_is_kept_beyond_those_in_use() -> None:
    assert torch.equal(in_use(LADDER, shares_at(2, 4)), LADDER[2:5])
    assert torch.equal(in_use(LADDER, shares_at(3)), LADDER[3:4])


@pytest.mark.parametrize(("share", "is_extended"), [(0.05, True), (0.01, False)])
def test_an_end_is_in_use_from_a_fiftieth_of_the_points_on(share: float, is_extended: bool) -> None:
    shares = torch.tensor([share, 1.0 - share, 0.0]).double()
    assert (len(extended(LADDER[:3], shares)) > 3) == is_extended


@pytest.mark.parametrize(("share", "is_trimmed"), [(0.002, True), (0.02, False)])
def test_an_end_is_not_in_use_below_a_two_hundredth_of_the_points(share: float, is_trimmed: bool) -> None:
    shares = torch.tensor([share, 0.0, 0.5, 0.5 - share, 0.0]).double()
    for shorter in (trimmed, in_use):
        assert (LADDER[0] not in shorter(LADDER[:5], shares)) == is_trimmed


def test_a_bandwidth_is_useful_up_to_where_its_kernel_is_flat() -> None:
    X = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    extent = (X.amax(0) - X.amin(0)).max()
    for factor, is_flat in ((1.0, True), (0.1, False)):
        correlation = gaussian((extent / (factor * largest_useful(X))).square())
        assert (correlation > 0.99).item() == is_flat
    assert largest_useful(X) < 50.0 * extent


def test_no_bandwidth_is_added_beyond_the_largest() -> None:
    longer = extended(LADDER, shares_at(6), largest=1.5 * LADDER[-1].item() * 2.0)
    assert longer.tolist() == [*LADDER.tolist(), 2.0 * LADDER[-1].item()]
