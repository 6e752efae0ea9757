"""Spread points: what a design promises, the density they follow, and how even they are."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.active.campaign.history import History
from lobal.active.campaign.ledger import Observations
from lobal.active.candidates import ArrayCandidates, Candidates, Metric
from lobal.active.draws import DrawTask, draw_random
from lobal.active.learner import ActiveLearner
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.active.spaces import Box, Pool
from lobal.active.spread import (
    LARGEST_POWER,
    SMALLEST_POWER,
    Shape,
    centres,
    noise_share,
    shape_of,
    spread,
    spread_density,
)
from lobal.active.surrogate import FittedSurrogate
from lobal.core.kernels import squared_distances
from tests.active.setting import ones, sample
from tests.core.setting import seeded


class Known(FittedSurrogate):
    """A model with one width for each column and a given relative error."""

    def __init__(self, width: Any, error: float | None, noise: float | None = None) -> None:
        self.width, self.error = torch.tensor(width, dtype=torch.float64), error
        self.validation_error, self.noise = error, noise

    def metric(self, candidates: Candidates) -> Metric:
        del candidates
        return Metric(lambda X: torch.as_tensor(X) / self.width, squared_distances)

    def relative_error(self, labels: np.ndarray) -> float | None:
        del labels
        return self.error

    predict = local_bandwidth = noise_variance = save = None  # type: ignore[assignment]


def task(X: np.ndarray, b: int, *, superior: Tensor | None = None, drawn: Any = (), **changed: Any) -> DrawTask:
    """Uniform densities unless told otherwise; `drawn` are rows that were drawn before."""
    candidates = ArrayCandidates(inputs=X, pool_density=ones(len(X)), test_density=ones(len(X)))
    rows = np.array(drawn, dtype=np.int64)
    weights = ones(len(X)).index_fill(0, torch.from_numpy(rows), 0.0)
    values: dict[str, Any] = {
        "candidates": candidates,
        "weights": weights,
        "superior": ones(len(X)) if superior is None else superior,
        "check": 0,
        "drawn": (rows.tolist(), X[rows]),
        "labelled": Observations(X[rows], np.zeros(len(rows)), rows),
        "fitted": None,
        "trust": 1.0,
        "dimension": float(X.shape[1]),
        "b": b,
        "generator": seeded(),
    }
    return DrawTask(**values | changed)


@pytest.mark.parametrize("d", [1, 2, 8])
@pytest.mark.parametrize("check", [0, 3])
def test_the_points_are_different_and_none_was_drawn_before(d: int, check: int) -> None:
    drawn = list(range(0, 60, 3))
    chosen = spread(task(sample(60, d), 40, drawn=drawn, check=check)).tolist()
    assert len({*chosen}) == 40
    assert not {*chosen} & {*drawn}


def test_copies_of_points_come_when_nothing_else_is_left() -> None:
    X = np.repeat(sample(5, 2), 4, axis=0)
    assert sorted(spread(task(X, 20)).tolist()) == list(range(20))
    first = spread(task(X, 5))
    assert len(np.unique(X[first.numpy()], axis=0)) == 5


def test_the_same_generator_gives_the_same_points_and_another_one_others() -> None:
    X = sample(5000, 2)
    first, again, other = (spread(task(X, 20, generator=seeded(seed))).tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_dimension_does_not_matter_to_what_is_lowered() -> None:
    """LFC = sigma^-delta enters with the power s / delta, that is as sigma^-s, if all candidates are in the sample."""
    X, sigma = sample(400, 2), torch.linspace(0.5, 1.5, 400, dtype=torch.float64)
    two, many = (
        spread(task(X, 30, superior=sigma.pow(-0.5 * delta), dimension=delta)).tolist() for delta in (2.0, 14.0)
    )
    assert two == many


def test_the_largest_gap_is_filled_first() -> None:
    X = np.linspace(0.0, 1.0, 101)[:, None]
    near = [row for row in range(101) if not 30 < row < 70]
    for error, tolerance in ((0.01, 2), (1.0, 12)):
        chosen = spread(task(X, 1, drawn=near, fitted=Known(1.0, error)))
        assert abs(int(chosen) - 50) <= tolerance


def _gap(points: np.ndarray) -> float:
    """Root mean squared distance from anywhere in the unit square to the nearest of the points."""
    grid = np.stack(np.meshgrid(*[np.linspace(0.01, 0.99, 50)] * 2), -1).reshape(-1, 2)
    return float(np.sqrt(((grid[:, None] - points) ** 2).sum(-1).min(1).mean()))


def test_spread_points_leave_smaller_gaps_than_random_ones() -> None:
    X = sample(3000, 2)
    spread_out = _gap(X[spread(task(X, 50)).numpy()])
    at_random = [_gap(X[draw_random(ones(3000), X, 50, generator=seeded(seed)).numpy()]) for seed in range(5)]
    assert spread_out < 0.85 * min(at_random)


def test_a_batch_fills_the_gaps_that_earlier_points_leave() -> None:
    X = sample(2000, 2)
    half = np.flatnonzero(X[:, 0] < 0.5)[:50].tolist()
    chosen = spread(task(X, 50, drawn=half)).numpy()
    assert (X[chosen, 0] > 0.5).mean() > 0.7


@pytest.mark.parametrize("s", [2.0, 8.0])
def test_points_follow_the_density_that_is_recorded_for_them(s: float) -> None:
    X = np.sort(sample(4000, 1), axis=0)
    superior = torch.from_numpy(np.where(X[:, 0] < 0.5, 3.0, 1.0))
    chosen = spread(task(X, 200, superior=superior / superior.mean(), fitted=Known(1.0, 0.5 / s)))
    expected = spread_density(superior, ones(4000), Shape(s, s), dimension=1.0)
    share = (expected[:2000].sum() / expected.sum()).item()
    assert (X[chosen.numpy(), 0] < 0.5).mean() == pytest.approx(share, abs=0.04)


def test_the_density_is_the_superior_one_where_the_power_is_the_dimension() -> None:
    q, superior = (torch.rand(50, dtype=torch.float64, generator=seeded(seed)) for seed in (1, 2))
    torch.testing.assert_close(spread_density(superior, q, Shape(3.0, 1.0), dimension=3.0), superior)
    nowhere = spread_density(superior, torch.zeros_like(q), Shape(3.0, 1.0), dimension=3.0)
    assert (nowhere == 0.0).all()


def test_distances_are_those_of_the_model() -> None:
    X = sample(4000, 2)
    chosen = X[spread(task(X, 64, fitted=Known([0.05, 50.0], 0.1))).numpy()]
    # Only the first column matters, and there the points are as even as in one dimension.
    assert np.diff(np.sort(chosen[:, 0])).max() < 2.5 / 64


@pytest.mark.parametrize(
    ("error", "expected"), [(None, SMALLEST_POWER), (2.0, SMALLEST_POWER), (0.1, 5.0), (0.0, LARGEST_POWER)]
)
def test_the_power_grows_as_the_function_becomes_known(error: float | None, expected: float) -> None:
    fitted = None if error is None else Known(1.0, error)
    assert shape_of(fitted, np.empty(0), 1.0).power == pytest.approx(expected)


@pytest.mark.parametrize(("noise", "emphasis"), [(None, 2.0 / 3.0), (0.0, 2.0 / 3.0), (0.5, 0.75), (1.0, 5.0 / 6.0)])
def test_noise_moves_the_emphasis_to_that_of_the_superior_density(noise: float | None, emphasis: float) -> None:
    shape = shape_of(Known(1.0, 1.0, noise), np.empty(0), 3.0)
    assert shape == (2.0, pytest.approx(emphasis))
    superior = torch.rand(50, dtype=torch.float64, generator=seeded(1))
    if noise == 1.0:
        torch.testing.assert_close(spread_density(superior, ones(50), shape, dimension=3.0), superior)


def test_noise_explains_at_most_the_whole_error() -> None:
    assert noise_share(2.0, 1.0) == 1.0
    assert noise_share(1.0, 2.0) == 0.25
    assert noise_share(1.0, None) == noise_share(1.0, 0.0) == 0.0


def test_check_points_come_first_and_follow_the_test_density() -> None:
    X = sample(4000, 1)
    superior = torch.from_numpy(np.where(X[:, 0] < 0.1, 1.0, 1e-6))
    chosen = X[spread(task(X, 100, superior=superior, check=60, fitted=Known(1.0, 1.0))).numpy(), 0]
    assert (chosen[:60] < 0.1).mean() < 0.3
    assert (chosen[60:] < 0.1).mean() > 0.9


def test_a_large_pool_is_thinned_and_its_sample_stands_for_all() -> None:
    X = np.sort(sample(50_000, 1), axis=0)
    superior = torch.from_numpy(np.where(X[:, 0] < 0.02, 25.0, 1.0))
    chosen = X[spread(task(X, 100, superior=superior, fitted=Known(1.0, 0.5))).numpy(), 0]
    expected = spread_density(superior, ones(50_000), Shape(SMALLEST_POWER, SMALLEST_POWER), dimension=1.0)
    share = (expected[: (X[:, 0] < 0.02).sum()].sum() / expected.sum()).item()
    assert (chosen < 0.02).mean() == pytest.approx(share, abs=0.08)


def test_centres_stop_where_nothing_is_left_to_lower() -> None:
    Z = torch.zeros(6, 1, dtype=torch.float64)
    metric = Metric(torch.from_numpy, squared_distances)
    far = torch.full((6,), math.inf, dtype=torch.float64)
    assert len(centres(Z, ones(6), far, metric, power=2.0, b=4, generator=seeded())) == 1


def test_a_uniform_box_begins_with_its_sobol_points() -> None:
    learner = ActiveLearner(Box([0.0, 0.0], [1.0, 2.0], n_candidates=256), seed=3)
    first, second = learner.ask(8), learner.ask(8)
    np.testing.assert_array_equal(np.concatenate([first, second]), learner.candidates.X[:16])


def test_spread_campaigns_place_points_of_a_box_at_their_candidates_and_never_twice() -> None:
    learner = ActiveLearner(Box([0.0], [1.0], n_candidates=64), seed=0)
    for _ in range(5):
        batch = learner.ask(20)
        learner.tell(batch, np.sin(9.0 * batch[:, 0]))
    inputs = learner.labelled.X[:, 0]
    assert len(np.unique(inputs)) == 100
    assert np.isin(inputs, learner.candidates.X).sum() >= 60


def test_the_share_of_check_points_is_that_of_exploration_over_all_steps() -> None:
    X = sample(300, 2)
    learner = ActiveLearner(Pool(X), seed=0, exploration=0.25)
    for n in (20, *[3] * 8):
        batch = learner.ask(n)
        learner.tell(batch, np.sin(5.0 * X[batch]).sum(1))
    assert learner.history[0].check == 0
    assert sum(step.check for step in learner.history) == 6


def test_constant_complexity_leaves_the_local_one_out() -> None:
    X = np.sort(sample(2000, 1), axis=0)
    y = chirp(X)
    shares = {}
    for complexity in ("local", "constant"):
        learner = ActiveLearner(Pool(X), seed=0, complexity=complexity)
        for n in (100, 40, 40):
            batch = learner.ask(n)
            learner.tell(batch, y[batch])
        shares[complexity] = float((learner.labelled.X[:, 0] < 0.25).mean())
    assert shares["local"] > 1.3 * shares["constant"]


def chirp(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(2.0 * np.pi * 3.0 / (X[:, 0] + 0.1)))


def trust(monkeypatch: pytest.MonkeyPatch, exponent: float, **options: Any) -> float | None:
    """How far the local complexity is followed where the model's bandwidths are taken to a power."""
    known = FittedMixtureSurrogate.local_bandwidth
    monkeypatch.setattr(FittedMixtureSurrogate, "local_bandwidth", lambda self, X: known(self, X) ** exponent)
    X = sample(1000, 1)
    learner = ActiveLearner(Pool(X), seed=0, **options)
    batch = learner.ask(100)
    learner.tell(batch, chirp(X[batch]))
    learner.ask(20)
    assert learner.history[0].trust is None
    return learner.history[1].trust


def test_local_complexity_that_lowers_the_error_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trust(monkeypatch, 1.0) == 1.0


@pytest.mark.parametrize(("exponent", "complexity"), [(-1.0, "local"), (0.0, "local"), (1.0, "constant")])
def test_local_complexity_that_does_not_is_left_out(
    monkeypatch: pytest.MonkeyPatch, exponent: float, complexity: str
) -> None:
    assert trust(monkeypatch, exponent, complexity=complexity) == 0.0


def test_the_papers_scheme_follows_it_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trust(monkeypatch, -1.0, draw="random") == 1.0


@pytest.mark.parametrize("before", [0.0, 0.5, 1.0])
def test_what_was_followed_before_is_kept_while_nothing_is_clearly_better(
    monkeypatch: pytest.MonkeyPatch, before: float
) -> None:
    """Equal bandwidths tell nothing; a step without a trust is passed over."""
    monkeypatch.setattr(FittedMixtureSurrogate, "local_bandwidth", lambda _, X: np.ones(len(X)))
    X = sample(1000, 1)
    learner = ActiveLearner(Pool(X), seed=0)
    for trust in (before, None):
        batch = learner.ask(50)
        learner.tell(batch, chirp(X[batch]))
        steps = learner.history.steps
        learner._state.history = History((*steps[:-1], replace(steps[-1], trust=trust)))
    learner.ask(20)
    assert learner.history[-1].trust == before
