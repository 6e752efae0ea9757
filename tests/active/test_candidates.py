"""Candidates of pools and boxes: densities, places, files, and where labels fail."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lobal.active.candidates import NEIGHBOURS, ArrayCandidates
from lobal.active.spaces import Box, Pool
from lobal.core import arrays
from lobal.core.density import norm
from tests.active.setting import ones, sample
from tests.core.setting import seeded


def test_the_candidates_of_a_pool_are_its_rows() -> None:
    pool = Pool(sample(50, 2).astype(np.float32))
    candidates = pool.candidates(seed=0)
    assert candidates.X is pool.X
    assert candidates.cell is None
    assert len(candidates) == 50


def test_the_test_density_of_a_pool_is_its_own_unless_asked_otherwise() -> None:
    candidates = Pool(sample(50, 2)).candidates(seed=0)
    torch.testing.assert_close(candidates.test_density, candidates.pool_density)
    uniform = Pool(sample(50, 2), test_density="uniform").candidates(seed=0).test_density
    torch.testing.assert_close(uniform, uniform[0].expand(50))


def test_every_test_density_has_the_norm_of_the_pool_density() -> None:
    for test_density in ("pool", "uniform", np.arange(80.0), lambda X: X[:, 0]):
        candidates = Pool(sample(80, 5), test_density=test_density).candidates(seed=0)
        assert norm(candidates.test_density, candidates.pool_density) == pytest.approx(1.0)


def test_densities_can_be_values_or_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 8)  # functions are asked slice by slice
    X = sample(30, 3)
    values = Pool(X, density=1.0 + X[:, 0], test_density=X[:, 1]).candidates(seed=0)
    functions = Pool(X, density=lambda X: 1.0 + X[:, 0], test_density=lambda X: X[:, 1]).candidates(seed=0)
    torch.testing.assert_close(values.pool_density, torch.from_numpy(1.0 + X[:, 0]))
    torch.testing.assert_close(functions.pool_density, values.pool_density)
    torch.testing.assert_close(functions.test_density, values.test_density)


def test_a_bad_value_of_a_density_function_is_refused_and_shown() -> None:
    with pytest.raises(ValueError, match=re.escape("density(X) must be finite and above zero, got -1.0 at row 0")):
        Pool(sample(5, 2), density=lambda X: -np.ones(len(X))).candidates(seed=0)
    with pytest.raises(ValueError, match=re.escape("test_density(X) must be finite and at least zero, got nan")):
        Box(0.0, 1.0, test_density=lambda X: np.full(len(X), np.nan)).candidates(seed=0)


def test_a_seed_repeats_the_candidates() -> None:
    box, pool = Box([0.0, 0.0], [1.0, 2.0], n_candidates=100), Pool(sample(300, 2))
    np.testing.assert_array_equal(box.candidates(seed=3).X, box.candidates(seed=3).X)
    assert not np.array_equal(box.candidates(seed=3).X, box.candidates(seed=4).X)
    first, second = (pool.candidates(seed=3).pool_density for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("n", [1, 100, 128])
def test_the_candidates_of_a_box_fill_it_evenly(n: int) -> None:
    box = Box([-1.0, 10.0], [1.0, 14.0], n_candidates=n)
    candidates = box.candidates(seed=0)
    assert candidates.X.shape == (n, 2)
    assert ((box.lower <= candidates.X) & (box.upper >= candidates.X)).all()
    np.testing.assert_allclose(np.prod(candidates.cell), 8.0 / n)  # the cells make up the volume
    torch.testing.assert_close(candidates.pool_density, ones(n))
    torch.testing.assert_close(candidates.test_density, ones(n))


def test_the_candidates_of_an_interval_lie_one_to_a_cell() -> None:
    candidates = Box(0.0, 1.0, n_candidates=64).candidates(seed=0)
    assert sorted(np.floor(candidates.X[:, 0] * 64).tolist()) == list(range(64))


def test_a_box_takes_a_function_for_its_test_density() -> None:
    candidates = Box(0.0, 1.0, n_candidates=4096, test_density=lambda X: 5.0 * X[:, 0]).candidates(seed=0)
    torch.testing.assert_close(
        candidates.test_density, torch.from_numpy(2.0 * candidates.X[:, 0]), rtol=1e-3, atol=1e-3
    )


def test_drawn_points_of_a_pool_are_its_rows() -> None:
    candidates = Pool(np.arange(10).reshape(5, 2)).candidates(seed=0)
    points = candidates.place(torch.tensor([3, 0]), generator=seeded())
    assert points.dtype == np.float64
    assert points.tolist() == [[6.0, 7.0], [0.0, 1.0]]


def test_integers_come_back_from_tensors_and_nothing_is_saved_twice() -> None:
    candidates = Pool((9 * sample(20, 2)).astype(np.int64)).candidates(seed=0)
    tensors, place = candidates.to_tensors()
    np.testing.assert_array_equal(ArrayCandidates.from_tensors(tensors, place, None).X, candidates.X)
    assert sorted(tensors) == ["X", "pool_density"]


@pytest.mark.parametrize("n", [1, 2, 64])
def test_drawn_points_of_a_box_lie_in_it_and_in_their_cell(n: int) -> None:
    box = Box([-1.0, 5.0], [1.0, 5.5], n_candidates=n)
    candidates = box.candidates(seed=0)
    rows = torch.arange(n).repeat(200)
    points = candidates.place(rows, generator=seeded())
    assert ((points >= box.lower) & (points <= box.upper)).all()
    assert candidates.cell is not None
    assert (np.abs(points - candidates.X[rows.numpy()]) <= 0.5 * candidates.cell + 1e-12).all()
    assert len(np.unique(points, axis=0)) == len(points)


def test_a_point_of_a_box_belongs_to_the_candidate_nearest_in_units_of_the_box() -> None:
    candidates = Box([0.0, 0.0], [1.0, 1000.0], n_candidates=128).candidates(seed=0)
    X = sample(60, 2) * [1.0, 1000.0]
    squares = (((X[:, None] - candidates.X) / [1.0, 1000.0]) ** 2).sum(axis=2)
    assert candidates.locate(X)[0] == squares.argmin(axis=1).tolist()


def test_points_placed_in_all_cells_are_uniform_up_to_the_bounds() -> None:
    candidates = Box(2.0, 4.0, n_candidates=16).candidates(seed=0)
    points = candidates.place(torch.arange(16).repeat(5000), generator=seeded())
    counts, _ = np.histogram(points, bins=8, range=(2.0, 4.0))
    np.testing.assert_allclose(counts / len(points), 1.0 / 8.0, atol=0.035)


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


def test_without_failures_all_shares_are_one_even_where_columns_do_not_vary(rng: np.random.Generator) -> None:
    drawn = rng.random((50, 3)) * [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(label_share(drawn, drawn, np.ones(50, dtype=bool)), 1.0)


@given(n=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_shares_lie_between_one_in_so_many_and_one(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = np.round(rng.random((n, 2)), 1)  # with repetitions
    share = label_share(rng.random((7, 2)), drawn, rng.random(n) < 0.5)
    assert share.shape == (7,)
    assert share.min() >= 1.0 / NEIGHBOURS
    assert share.max() <= 1.0
