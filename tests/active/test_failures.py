import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lobal.active.candidates import NEIGHBOURS, ArrayCandidates


def label_share(X: np.ndarray, drawn: np.ndarray, has_label: np.ndarray) -> np.ndarray:
    density = torch.ones(len(drawn), dtype=torch.float64)
    candidates = ArrayCandidates(inputs=drawn, pool_density=density, test_density=density)
    return candidates.label_share(([0] * len(X), X), ([0] * len(drawn), drawn), has_label)


def test_the_labelled_points_of_a_region_stand_for_all_that_were_drawn_there(rng: np.random.Generator) -> None:
    drawn = rng.random((4000, 2)) * [1.0, 1000.0]  # columns of very different spread
    is_labelled = rng.random(4000) < np.where(drawn[:, 1] > 500.0, 0.3, 1.0)
    labelled = drawn[is_labelled]
    stands_for = 1.0 / label_share(labelled, drawn, is_labelled)
    for region, points in (
        (drawn[:, 1] > 600.0, labelled[:, 1] > 600.0),
        (drawn[:, 1] < 400.0, labelled[:, 1] < 400.0),
    ):
        assert stands_for[points].sum() == pytest.approx(region.sum(), rel=0.05)


def test_without_failures_all_shares_are_one(rng: np.random.Generator) -> None:
    drawn = rng.random((50, 3))
    np.testing.assert_array_equal(label_share(drawn, drawn, np.ones(50, dtype=bool)), 1.0)


@given(n=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_shares_lie_between_one_in_so_many_and_one(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = np.round(rng.random((n, 2)), 1)  # with repetitions
    share = label_share(rng.random((7, 2)), drawn, rng.random(n) < 0.5)
    assert share.shape == (7,)
    assert share.min() >= 1.0 / NEIGHBOURS
    assert share.max() <= 1.0


def test_columns_that_do_not_vary_do_no_harm() -> None:
    share = label_share(np.ones((3, 2)), np.ones((20, 2)), np.arange(20) < 10)
    assert np.isfinite(share).all()
