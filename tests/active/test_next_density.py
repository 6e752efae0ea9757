"""The way to the superior density."""

import math

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from lobal.active.next_density import next_density, with_exploration
from lobal.core.density import norm, normalised
from tests.active.setting import ones
from tests.core.setting import tensor

densities = npst.arrays(np.float64, (3, 15), elements=st.floats(1e-3, 1e3))


@given(values=densities)
def test_a_doubled_sample_follows_the_formulas_of_the_paper(values: np.ndarray) -> None:
    p_X, p, p_sup = torch.from_numpy(values)
    p, p_sup = normalised(p, p_X), normalised(p_sup, p_X)
    step = next_density(p, p_sup, p_X, n=64, b=64)
    gamma_1 = (p / p_sup).max().item()
    gamma_2 = max(0.0, (0.5 - 1.0 / gamma_1) / (1.0 - 1.0 / gamma_1)) if gamma_1 > 1.0 + 1e-9 else 0.0
    assert (step.gamma_1, step.gamma_2) == pytest.approx((max(1.0, gamma_1), gamma_2))
    assert 0.0 <= step.gamma_2 < 0.5
    torch.testing.assert_close(step.density, gamma_2 * p + (1.0 - gamma_2) * p_sup)
    torch.testing.assert_close(step.proposal, 2.0 * step.density - p, atol=1e-9 * p.max().item(), rtol=1e-9)


@given(values=densities, n=st.integers(0, 10_000), b=st.integers(1, 10_000))
def test_old_and_new_labels_together_have_the_next_density(values: np.ndarray, n: int, b: int) -> None:
    p_X, p, p_sup = torch.from_numpy(values)
    step = next_density(p, p_sup, p_X, n=n, b=b)
    together = (n * normalised(p, p_X) + b * step.proposal) / (n + b)
    torch.testing.assert_close(together, step.density)
    assert 0.0 <= step.gamma_2 <= n / (n + b)
    assert (step.proposal >= 0).all()
    for density in (step.density, step.proposal):
        assert norm(density, p_X) == pytest.approx(1.0)


@given(values=densities, n=st.integers(1, 1000), b=st.integers(1, 1000))
def test_no_smaller_gamma_2_would_do(values: np.ndarray, n: int, b: int) -> None:
    """Where the superior density is out of reach, the proposal vanishes somewhere."""
    p_X, p, p_sup = torch.from_numpy(values)
    step = next_density(p, p_sup, p_X, n=n, b=b)
    if step.gamma_2 == 0.0:
        torch.testing.assert_close(step.density, normalised(p_sup, p_X))
    else:
        assert step.proposal.min() <= 1e-9 * normalised(p, p_X).max() * (n + b) / b


@given(values=densities)
def test_the_first_batch_has_the_superior_density(values: np.ndarray) -> None:
    p_X, p, p_sup = torch.from_numpy(values)
    step = next_density(p, p_sup, p_X, n=0, b=5)
    torch.testing.assert_close(step.proposal, normalised(p_sup, p_X))
    torch.testing.assert_close(step.density, step.proposal)


def test_a_density_that_is_superior_already_stays() -> None:
    p = tensor(0.1, 0.7, 1.3)
    step = next_density(p, 3.0 * p, ones(3), n=1000, b=1)
    assert (step.gamma_1, step.gamma_2) == (pytest.approx(1.0), 0.0)
    torch.testing.assert_close(step.proposal, normalised(p, ones(3)))


def test_where_the_superior_density_vanishes_nothing_is_drawn() -> None:
    step = next_density(tensor(1.0, 1.0, 0.0), tensor(0.0, 1.0, 0.0), ones(3), n=30, b=10)
    assert (step.gamma_1, step.gamma_2) == (math.inf, 0.75)
    assert step.proposal.tolist() == [0.0, 3.0, 0.0]


def test_small_batches_reach_the_superior_density_in_the_end() -> None:
    p, p_sup, p_X = tensor(1.0, 1.0, 1.0), normalised(tensor(1.0, 4.0, 16.0), ones(3)), ones(3)
    for n in range(100, 1000, 20):
        p = next_density(p, p_sup, p_X, n=n, b=20).density
    torch.testing.assert_close(p, p_sup)


def test_exploration_leaves_every_region_its_share() -> None:
    p_sup, q = tensor(0.0, 2.0), tensor(1.0, 1.0)
    torch.testing.assert_close(with_exploration(p_sup, q, 0.1), tensor(0.1, 1.9))
    torch.testing.assert_close(with_exploration(p_sup, q, 0.0), p_sup)
    torch.testing.assert_close(with_exploration(p_sup, q, 1.0), q)
