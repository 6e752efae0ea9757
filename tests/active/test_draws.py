"""Draws: what every design promises, and what low dispersion adds."""

import math

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from lobal.active import draws
from lobal.active.draws import Draw, _rank_levels, draw_low_dispersion, draw_random, space_filling_order
from tests.active.setting import ones, sample
from tests.core.setting import seeded, tensor

DRAWS: dict[str, tuple[Draw, int]] = {
    "random": (draw_random, 2),
    "low dispersion in 1 dimension": (draw_low_dispersion, 1),
    "low dispersion in 2 dimensions": (draw_low_dispersion, 2),
    "low dispersion in 5 dimensions": (draw_low_dispersion, 5),
    "low dispersion in 70 dimensions": (draw_low_dispersion, 70),
}
every_draw = pytest.mark.parametrize(("draw", "d"), DRAWS.values(), ids=DRAWS.keys())


@every_draw
@given(weights=npst.arrays(np.float64, 20, elements=st.just(0.0) | st.floats(1e-12, 1e12)), seed=st.integers(0, 99))
def test_as_many_different_candidates_are_drawn_as_asked_for(
    draw: Draw, d: int, weights: np.ndarray, seed: int
) -> None:
    possible = np.flatnonzero(weights)
    for b in {1, len(possible) // 2, len(possible)} - {0}:
        if b <= len(possible):
            drawn = draw(torch.from_numpy(weights), sample(20, d), b, generator=seeded(seed))
            assert len(set(drawn.tolist())) == b
            assert set(drawn.tolist()) <= set(possible.tolist())


@every_draw
def test_a_candidate_heavier_than_all_others_is_drawn_once(draw: Draw, d: int) -> None:
    weights = ones(50)
    weights[17] = 1e9
    for seed in range(20):
        drawn = draw(weights, sample(50, d), 10, generator=seeded(seed)).tolist()
        assert drawn.count(17) == 1
        assert len(set(drawn)) == 10


@every_draw
def test_repeated_candidates_follow_the_weights_where_different_ones_could_not(draw: Draw, d: int) -> None:
    weights = tensor(1.0, 0.0, 3.0, 96.0)
    drawn = draw(weights, sample(4, d), 10_000, generator=seeded(), repeated=True)
    torch.testing.assert_close(drawn.bincount(minlength=4).double() / 100.0, weights, rtol=0.0, atol=0.7)


@every_draw
def test_single_draws_are_in_proportion_to_the_weights(draw: Draw, d: int) -> None:
    weights, X, generator = tensor(1.0, 2.0, 0.0, 3.0, 4.0), sample(5, d), seeded()
    drawn = torch.cat([draw(weights, X, 1, generator=generator) for _ in range(400)])
    frequency = drawn.bincount(minlength=5).double() / 400
    torch.testing.assert_close(frequency, weights / 10.0, rtol=0.0, atol=0.075)  # three standard deviations


@every_draw
def test_batches_follow_the_weights(draw: Draw, d: int) -> None:
    X, generator = sample(1000, d), seeded()
    weights = torch.from_numpy(np.where(X[:, 0] < 0.5, 4.0, 1.0))
    heavy = weights[weights == 4.0].sum() / weights.sum()
    drawn = torch.cat([draw(weights, X, 20, generator=generator) for _ in range(60)])
    assert (X[drawn.numpy(), 0] < 0.5).mean() == pytest.approx(heavy.item(), abs=0.035)  # three standard deviations


@every_draw
def test_a_seed_repeats_the_draw_whatever_the_units_of_the_weights(draw: Draw, d: int) -> None:
    weights, X = torch.from_numpy(sample(100, 1)[:, 0]), sample(100, d)
    first, second = (draw(factor * weights, X, 10, generator=seeded(7)) for factor in (1.0, 1024.0))
    assert first.tolist() == second.tolist()
    assert first.tolist() != draw(weights, X, 10, generator=seeded(8)).tolist()


@every_draw
def test_draws_of_many_candidates_come_from_all_parts_of_them(
    draw: Draw, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "PART", 7)
    weights, X, generator = torch.arange(100, dtype=torch.float64), sample(100, d), seeded()
    drawn = torch.cat([draw(weights, X, 10, generator=generator) for _ in range(60)])
    frequency = drawn.bincount(minlength=100).double().reshape(10, 10).sum(1) / 60
    expected = weights.reshape(10, 10).sum(1) / weights.sum() * 10.0
    torch.testing.assert_close(frequency, expected, rtol=0.0, atol=0.5)
    assert len(set(draw(weights, X, 99, generator=generator).tolist())) == 99


@every_draw
@pytest.mark.parametrize(
    ("weights", "b", "message"),
    [
        ((1.0, 0.0, 2.0, 0.0, 3.0), 0, r"between 1 and 3 candidates can be drawn .*, of 5\), got b=0"),
        ((1.0, 0.0, 2.0, 0.0, 3.0), 4, r"between 1 and 3 candidates can be drawn .*, of 5\), got b=4"),
        ((1.0, -1.0, 2.0), 1, "finite and at least zero, got -1.0 at candidate 1"),
        ((1.0, 2.0, math.nan), 1, "finite and at least zero, got nan at candidate 2"),
        ((math.inf, 2.0, -1.0), 1, "finite and at least zero, got inf at candidate 0"),
    ],
)
def test_impossible_draws_are_refused_with_what_was_wrong(
    draw: Draw, d: int, weights: tuple[float, ...], b: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw(tensor(*weights), sample(len(weights), d), b, generator=seeded())
    with pytest.raises(ValueError, match="between 1 and 0 candidates can be drawn"):
        draw(0.0 * ones(3), sample(3, d), b, generator=seeded(), repeated=True)


@every_draw
def test_integer_inputs_with_many_ties_can_be_drawn_from(draw: Draw, d: int) -> None:
    X = np.zeros((40, d), dtype=np.int64)
    assert len(set(draw(ones(40), X, 40, generator=seeded()).tolist())) == 40


def dispersion(X: np.ndarray, points: np.ndarray) -> float:
    """The largest distance of an input to its nearest point, Def. (def:dispersion)."""
    return torch.cdist(torch.from_numpy(X), torch.from_numpy(points)).min(1).values.max().item()


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
    drawn = torch.cat([draw_low_dispersion(weights, X, 3, generator=generator) for _ in range(1000)])
    included = drawn.bincount(minlength=6).double() / 1000
    torch.testing.assert_close(included, 3.0 * weights / 20.0, rtol=0.0, atol=0.05)


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
