import math
import re

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from lobal.active.approach import next_density, with_exploration
from lobal.active.candidates import ArrayCandidates
from lobal.active.designs import _rank_levels, draw_low_dispersion, draw_random, space_filling_order
from lobal.active.spaces import Box, Pool
from lobal.core import arrays
from lobal.core.density import norm, normalised

densities = npst.arrays(np.float64, (3, 15), elements=st.floats(1e-3, 1e3))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(1).random((n, d))


def ones(n: int) -> Tensor:
    return torch.ones(n, dtype=torch.float64)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def dispersion(X: np.ndarray, points: np.ndarray) -> float:
    """The largest distance of an input to its nearest point, Def. (def:dispersion)."""
    return torch.cdist(torch.from_numpy(X), torch.from_numpy(points)).min(1).values.max().item()


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


@pytest.mark.parametrize("d", [1, 5])
def test_every_test_density_has_the_norm_of_the_pool_density(d: int) -> None:
    for test_density in ("pool", "uniform", np.arange(80.0), lambda X: X[:, 0]):
        candidates = Pool(sample(80, d), test_density=test_density).candidates(seed=0)
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
    box, pool = Box([0.0, 0.0], [1.0, 2.0], n_candidates=100), Pool(sample(3000, 2))
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


def test_candidates_with_a_cell_need_bounds() -> None:
    with pytest.raises(ValueError, match="a box has a cell and bounds, a pool neither; got cell="):
        ArrayCandidates(inputs=sample(3, 1), pool_density=ones(3), test_density=ones(3), cell=np.ones(1))


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


@pytest.mark.parametrize(("n", "b"), [(-1, 3), (4, 0)])
def test_impossible_batches_are_refused_and_shown(n: int, b: int) -> None:
    with pytest.raises(ValueError, match=f"got b={b} and n={n}"):
        next_density(ones(2), ones(2), ones(2), n=n, b=b)


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


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_an_impossible_share_of_exploration_is_refused_and_shown(share: float) -> None:
    with pytest.raises(ValueError, match=rf"must lie in \[0, 1\], got {share}"):
        with_exploration(ones(2), ones(2), share)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_low_dispersion_is_lower_than_that_of_random_draws(d: int) -> None:
    X = sample(2000, d)
    ours, random = (
        [dispersion(X, X[draw(ones(2000), X, 64, generator=seeded(seed)).numpy()]) for seed in range(20)]
        for draw in (draw_low_dispersion, draw_random)
    )
    assert np.mean(ours) < 0.9 * np.mean(random)


def test_systematic_draws_include_each_candidate_in_proportion_to_its_weight() -> None:
    weights, X, generator = tensor(1.0, 2.0, 3.0, 4.0, 5.0, 5.0), sample(6, 2), seeded()
    drawn = torch.cat([draw_low_dispersion(weights, X, 3, generator=generator) for _ in range(4000)])
    included = drawn.bincount(minlength=6).double() / 4000
    torch.testing.assert_close(included, 3.0 * weights / 20.0, rtol=0.0, atol=0.025)


def test_even_draws_of_an_interval_hit_every_part_once() -> None:
    X = np.sort(sample(640, 1), axis=0)
    drawn = draw_low_dispersion(ones(640), X, 64, generator=seeded())
    assert sorted((drawn // 10).tolist()) == list(range(64))


def test_the_space_filling_order_of_a_column_sorts_it() -> None:
    X, rows = sample(100, 1), torch.arange(0, 100, 3)
    assert (np.diff(X[rows[space_filling_order(X, rows)].numpy(), 0]) > 0).all()


def test_the_space_filling_order_goes_through_a_square_quarter_by_quarter() -> None:
    side = np.arange(4.0)
    X = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(16, 2)
    quarters = (X[space_filling_order(X, torch.arange(16)).numpy()] // 2).tolist()
    assert quarters == [[0, 0]] * 4 + [[0, 1]] * 4 + [[1, 0]] * 4 + [[1, 1]] * 4


@pytest.mark.parametrize("bits", [1, 3, 7, 40])
@pytest.mark.parametrize("n", [1, 2, 7, 100, 1000])
def test_levels_are_the_shares_of_smaller_values(n: int, bits: int) -> None:
    values = np.random.default_rng(n).integers(0, 300, n)
    smaller = (values[:, None] > values).sum(1)
    expected = smaller * 2 ** min(bits, 32) // n
    np.testing.assert_array_equal(_rank_levels(values, bits), expected)


def test_units_do_not_change_the_space_filling_order() -> None:
    X, rows = sample(100, 3), torch.arange(100)
    other = np.exp(X * np.array([1.0, 5.0, 0.1]))
    assert space_filling_order(X, rows).tolist() == space_filling_order(other, rows).tolist()


def test_drawn_points_of_a_pool_are_its_rows() -> None:
    candidates = Pool(np.arange(10).reshape(5, 2)).candidates(seed=0)
    points = candidates.place(torch.tensor([3, 0]), generator=seeded())
    assert points.dtype == np.float64
    assert points.tolist() == [[6.0, 7.0], [0.0, 1.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("test_density", ["pool", "uniform"])
def test_candidates_taken_apart_are_put_together_again(dtype: type, test_density: str) -> None:
    candidates = Pool((9 * sample(20, 2)).astype(dtype), test_density=test_density).candidates(seed=0)
    tensors, place = candidates.to_tensors()
    again = ArrayCandidates.from_tensors(tensors, place, None)
    np.testing.assert_array_equal(again.X, candidates.X)
    torch.testing.assert_close(again.pool_density, candidates.pool_density, rtol=0.0, atol=0.0)
    torch.testing.assert_close(again.test_density, candidates.test_density, rtol=0.0, atol=0.0)
    assert ("test_density" in tensors) == (test_density == "uniform")  # nothing is saved twice


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


def test_points_placed_in_all_cells_are_uniform_up_to_the_bounds() -> None:
    candidates = Box(2.0, 4.0, n_candidates=16).candidates(seed=0)
    points = candidates.place(torch.arange(16).repeat(5000), generator=seeded())
    counts, _ = np.histogram(points, bins=8, range=(2.0, 4.0))
    np.testing.assert_allclose(counts / len(points), 1.0 / 8.0, atol=0.035)
