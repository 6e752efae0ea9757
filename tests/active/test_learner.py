import math
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lobal import ActiveLearner, Box, MixtureRegressor, Pool
from lobal.core.doppler import Doppler
from tests.learner_setting import MODEL, bumpy, learner, pool


# Labels that a model of 40 inducing points cannot follow look like outliers to it.
@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
@pytest.mark.parametrize("draw", ["random", "low_dispersion"])
def test_a_pool_can_be_labelled_to_its_last_point_each_of_them_once(draw: str) -> None:
    active = learner(pool(60), draw=draw)
    active.run(bumpy, sizes=[30, 50, 59, 60])
    assert sorted(active.labelled.candidate) == list(range(60))


def test_asking_for_more_than_there_is_says_so() -> None:
    active = learner(pool(20))
    active.ask(15)
    with pytest.raises(ValueError, match="6 points are asked for, but only 5 of the pool's 20 are left"):
        active.ask(6)
    with pytest.raises(ValueError, match="25 labels are wanted, but the pool has 20 points"):
        active.run(bumpy, sizes=[10, 25])


def test_a_box_is_asked_for_inputs_inside_it() -> None:
    active = learner(Box([-1.0, 5.0], [1.0, 6.0], n_candidates=256))
    first = active.ask(30)
    active.tell(first, first[:, 0])
    second = active.ask(30)
    for X in (first, second):
        assert X.shape == (30, 2)
        assert ((X >= [-1.0, 5.0]) & (X <= [1.0, 6.0])).all()


@pytest.mark.parametrize("draw", ["random", "low_dispersion"])
def test_a_batch_larger_than_the_grid_of_a_box_still_follows_the_density(draw: str) -> None:
    quarter = Box(0.0, 1.0, n_candidates=64, test_density=lambda X: np.where(X[:, 0] < 0.25, 9.0, 1.0))
    assert np.mean(learner(quarter, draw=draw).ask(3000) < 0.25) == pytest.approx(0.75, abs=0.03)


def test_points_outside_a_box_are_refused() -> None:
    active = learner(Box([-1.0, 5.0], [1.0, 6.0], n_candidates=256))
    for outside in ([0.0, 6.1], [-2.0, 5.5], [0.0, np.inf]):
        for points in (outside, [[0.0, 5.5], outside]):
            message = f"in the box from [-1.0, 5.0] to [1.0, 6.0], got {outside}"
            with pytest.raises(ValueError, match=re.escape(message)):
                active.tell(points, np.zeros(len(np.atleast_2d(points))))
    active.tell([1.0 + 1e-9, 6.0], 1.0)  # written with few digits
    assert len(active.labelled.y) == 1


def test_more_points_go_where_the_function_is_complex() -> None:
    active = learner(pool(4000), model=MixtureRegressor(n_inducing=100))
    active.run(bumpy, sizes=[150, 300, 600])
    late = active.labelled.X[150:, 0]
    assert np.mean(late < 0.25) > 0.35
    assert np.isclose(active.training_density().mean(), active.candidates.pool_density.numpy().mean(), rtol=0.2)


def test_partial_and_shuffled_labels_are_the_same_as_all_at_once() -> None:
    whole, parts = learner(), learner()
    batch = whole.ask(40)
    assert np.array_equal(parts.ask(40), batch)
    whole.tell(batch, bumpy(whole.candidates.X[batch]))
    for row in np.random.default_rng(1).permutation(batch):
        parts.tell(row, bumpy(parts.candidates.X[[row]]))
    assert np.array_equal(whole.labelled.y, parts.labelled.y)
    assert np.array_equal(whole.ask(20), parts.ask(20))


def test_pending_points_are_known_and_not_asked_for_again() -> None:
    active = learner()
    batch = active.ask(40)
    active.tell(batch[:25], bumpy(active.candidates.X[batch[:25]]))
    assert set(active.pending) == set(batch[25:])
    assert not set(active.ask(10)) & set(batch)


def test_several_labels_of_one_point_are_all_kept() -> None:
    active = learner()
    active.tell([3, 3, 3], [1.0, 1.1, 0.9])
    active.tell(3, 1.2)
    assert active.labelled.y.tolist() == [1.0, 1.1, 0.9, 1.2]
    assert len(np.unique(active.labelled.X)) == 1


def test_equal_rows_of_a_pool_are_different_points() -> None:
    active = learner(Pool([[0.1], [0.5], [0.5], [0.9]]))
    active.tell([1, 2], [1.0, 2.0])
    assert active.labelled.candidate.tolist() == [1, 2]
    assert set(active.ask(2)) == {0, 3}


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "expected"])
def test_points_nobody_asked_for_count_and_their_density_is_estimated(is_told: bool) -> None:
    active = learner(pool(1000))
    x = active.candidates.X[:, 0]
    left = np.flatnonzero(x < 0.5)[:200]
    active.tell(left, bumpy(active.candidates.X[left])) if is_told else active.expect(left)
    assert set(active.labelled.candidate if is_told else active.pending) == set(left)
    density = active.training_density()
    assert density[x < 0.45].mean() > 5 * density[x > 0.6].mean()
    assert not set(active.ask(100)) & set(left)
    active.tell(left[:20], np.zeros(20))
    assert len(active.pending) == (100 if is_told else 280)


def test_few_points_nobody_asked_for_count_by_their_number_as_drawn_from_the_test_density() -> None:
    active = learner(pool(100))
    lowest = np.argsort(active.candidates.X[:, 0])
    active.expect(lowest[:20])
    before, q = active.training_density(), active.candidates.test_density.numpy()
    assert not np.allclose(before, q, rtol=0.1)
    active.expect(lowest[20:25])
    np.testing.assert_allclose(active.training_density(), (20 * before + 5 * q) / 25)


def test_failed_labels_are_neither_learned_nor_asked_for_again_unless_they_come_after_all() -> None:
    active = learner(pool(60))
    batch = active.ask(30)
    labels = bumpy(active.candidates.X[batch])
    labels[:5] = math.nan
    active.tell(batch, labels)
    assert (len(active.labelled.y), len(active.pending), set(active.failed)) == (25, 0, set(batch[:5]))
    assert not set(active.ask(30)) & set(batch)
    active.tell(batch[0], 1.0)
    assert (active.labelled.y[0], len(active.failed)) == (1.0, 4)


def test_masked_labels_have_failed() -> None:
    active = learner()
    batch = active.ask(3)
    active.tell(batch, np.ma.masked_array([1.0, 9.0, 2.0], mask=[False, True, False]))
    assert (active.labelled.y.tolist(), active.failed.tolist()) == ([1.0, 2.0], [batch[1]])


def test_masked_labels_of_an_oracle_have_failed() -> None:
    active = learner()
    active.run(lambda X: np.ma.masked_array(bumpy(X), mask=np.arange(len(X)) == 3), sizes=[5])
    assert (len(active.labelled.y), len(active.failed)) == (5, 1)


def test_dates_are_no_labels() -> None:
    active = learner()
    batch = active.ask(1)
    with pytest.raises(ValueError, match="labels must be real numbers"):
        active.tell(batch, np.array(["2020-01-01"], dtype="datetime64[D]"))
    assert active.pending.tolist() == batch.tolist()


def test_masked_points_are_refused() -> None:
    boxed = learner(Box([0.0, 0.0], [1.0, 1.0], n_candidates=64))
    with pytest.raises(ValueError, match="points must have no gaps, got a masked or missing value at row 1, column 0"):
        boxed.tell(np.ma.masked_array(np.full((2, 2), 0.5), mask=[[False, False], [True, False]]), [1.0, 2.0])


def test_points_given_up_have_failed() -> None:
    active = learner()
    batch = active.ask(5)
    active.give_up(batch[:2])
    assert (active.failed.tolist(), active.pending.tolist()) == (batch[:2].tolist(), batch[2:].tolist())
    active.tell(batch[2], 1.0)
    active.give_up()
    assert (len(active.failed), len(active.pending), len(active.labelled.y)) == (4, 0, 1)


def test_an_oracle_that_always_raises_ends_the_run_and_gives_nothing_up() -> None:
    active = learner()

    def broken(X: np.ndarray) -> np.ndarray:
        raise OSError("no licence")

    with pytest.raises(RuntimeError, match="failed at all 20 points") as caught:
        active.run(broken, sizes=[20])
    assert isinstance(caught.value.__cause__, OSError)
    assert len(active.pending) == 20
    active.run(bumpy, sizes=[20])
    assert len(active.labelled.y) == 20


def test_an_oracle_of_the_wrong_shape_is_refused_and_its_points_stay_pending() -> None:
    active = learner()
    with pytest.raises(ValueError, match=r"20 points need as many labels, got the oracle\'s labels of shape \(20, 1\)"):
        active.run(lambda X: bumpy(X)[:, None], sizes=[20])
    assert len(active.pending) == 20


def test_interrupted_in_memory_a_run_goes_on_with_the_same_points() -> None:
    whole, active, calls = learner(), learner(), iter(range(100))
    whole.run(bumpy, sizes=[30, 60], points_per_call=10)

    def interrupted(X: np.ndarray) -> np.ndarray:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return bumpy(X)

    with pytest.raises(KeyboardInterrupt):
        active.run(interrupted, sizes=[30, 60], points_per_call=10)
    assert (len(active.labelled.y), len(active.pending)) == (40, 20)
    active.run(interrupted, sizes=[30, 60], points_per_call=10)
    assert np.array_equal(whole.labelled.X, active.labelled.X)
    assert np.array_equal(whole.labelled.y, active.labelled.y)


def test_expecting_a_point_twice_or_one_with_a_label_changes_nothing() -> None:
    active = learner()
    active.tell([3, 4], [1.0, math.nan])
    before = active.training_density()
    active.expect([3, 4])
    active.expect([])
    assert len(active.pending) == 0
    assert np.array_equal(active.training_density(), before)
    active.training_density()[:] = 0.0  # a copy
    assert np.array_equal(active.training_density(), before)


def test_workers_side_by_side_give_the_same_campaign() -> None:
    alone, together = learner(), learner()
    alone.run(bumpy, sizes=[30, 60])

    def late(X: np.ndarray) -> np.ndarray:
        time.sleep(0.003 * float(X[0, 0]))
        return bumpy(X)

    with ThreadPoolExecutor(4) as workers:
        together.run(late, sizes=[30, 60], executor=workers)
    assert np.array_equal(alone.labelled.X, together.labelled.X)
    assert np.array_equal(alone.labelled.y, together.labelled.y)


@pytest.mark.parametrize("draw", ["random", "low_dispersion"])
@pytest.mark.parametrize("space", [pool(), Box(0.0, 1.0, n_candidates=512)], ids=["pool", "box"])
def test_a_seed_repeats_the_campaign(space: Pool | Box, draw: str) -> None:
    runs = []
    for seed in (1, 1, 2):
        active = learner(space, seed=seed, draw=draw)
        active.run(bumpy, sizes=[20, 40])
        runs.append(active.labelled.X)
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.fixture(scope="module")
def seen() -> list[int]:
    """Numbers of labels when the callback of `active` was called."""
    return []


@pytest.fixture(scope="module")
def active(seen: list[int]) -> ActiveLearner:
    campaign = learner()
    campaign.run(bumpy, sizes=[30, 60, 90], callbacks=[lambda each: seen.append(len(each.labelled.y))])
    return campaign


def test_callbacks_see_every_size(active: ActiveLearner, seen: list[int]) -> None:
    assert seen == [30, 60, 90]


def test_the_record_has_a_step_for_every_batch(active: ActiveLearner) -> None:
    first, _, last = active.history
    assert active.history.sizes == (0, 30, 60)
    assert (first.gamma_1, first.gamma_2, first.noise) == (None, None, None)
    assert (last.number, last.batch, len(last.indices)) == (2, 30, 30)
    # The density so far has at most its labels' share in the next; in batches that double them that is one half.
    assert 0.0 <= last.gamma_2 < last.size / (last.size + last.batch)
    assert last.gamma_1 >= 1.0
    assert min(last.validation_error, last.noise, last.attainable) > 0.0
    assert last.attainable <= 1.0 + 1e-9


def test_densities_are_at_equal_norm_with_the_pool(active: ActiveLearner) -> None:
    p_X = active.candidates.pool_density.numpy()
    for density in (active.superior_density(), active.training_density()):
        assert np.mean(density / p_X) == pytest.approx(1.0, rel=1e-6)


def test_importance_weights_undo_the_active_density() -> None:
    active = learner(pool(3000))
    active.run(bumpy, sizes=[100, 400])
    x, w = active.labelled.X[:, 0], active.importance_weights()
    assert np.average(x, weights=w) == pytest.approx(0.5, abs=0.06)


def test_fits_take_importance_weights_and_inducing_weights_of_the_step_before(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    fit = MixtureRegressor.fit

    def recorded(model: MixtureRegressor, X: Any, y: Any, sample_weight: Any, **options: Any) -> MixtureRegressor:
        given.append({"sample_weight": sample_weight, **options})
        return fit(model, X, y, sample_weight, **options)

    monkeypatch.setattr(MixtureRegressor, "fit", recorded)
    active = learner()
    active.run(bumpy, sizes=[30])
    complexity, p_1 = active.local_complexity(), active.training_density()
    active.run(bumpy, sizes=[60])
    p_2, rows = active.training_density(), active.labelled.candidate
    assert active.model is not None
    assert len(given) == 2
    assert given[0]["inducing_weight"] is None  # there is no step before the first
    np.testing.assert_allclose(given[1]["inducing_weight"], np.sqrt(complexity / p_2)[rows], rtol=1e-9)
    q = active.candidates.test_density.numpy()
    assert not np.allclose(p_1, p_2)
    ratio = given[1]["sample_weight"] / (q / p_2)[rows]
    np.testing.assert_allclose(ratio, np.median(ratio), rtol=1e-9)


def test_importance_weights_make_up_for_failures() -> None:
    active = learner(pool(4000), model=None)
    batch = active.ask(1000)
    x = active.candidates.X[batch, 0]
    fails = (x > 0.5) & (np.random.default_rng(0).random(1000) < 0.8)
    active.tell(batch, np.where(fails, math.nan, x))
    assert len(active.failed) == fails.sum()
    x, w = active.labelled.X[:, 0], active.importance_weights()
    assert np.mean(x) < 0.4
    assert np.average(x, weights=w) == pytest.approx(0.5, abs=0.03)


def test_a_region_without_labels_does_not_take_ever_more_points() -> None:
    active = learner(pool(2000))

    def diverging(X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] > 0.8, math.nan, bumpy(X))

    active.run(diverging, sizes=[100, 120, 140, 160])  # batches so small that all of them could go there
    assert (active.candidates.X[active.failed, 0] > 0.8).all()
    late = np.concatenate([step.indices for step in active.history.steps[1:]])
    assert np.mean(active.candidates.X[late, 0] > 0.8) < 0.5


def test_the_superior_density_respects_noise_that_varies() -> None:
    doppler, rng = Doppler(heteroscedastic=True), np.random.default_rng(0)

    def variance(X: np.ndarray) -> np.ndarray:
        return doppler.noise_variance(X[:, 0])

    space = Pool(rng.random((800, 1)), test_density=lambda X: 1.0 + X[:, 0])
    active = learner(space, model=clone(MODEL).set_params(noise=variance))
    active.run(lambda X: doppler.labels(X[:, 0], rng), sizes=[50, 100])
    x, q = active.candidates.X, active.candidates.test_density.numpy()
    ratio = active.superior_density() / np.sqrt(active.local_complexity() * q * variance(x))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    np.testing.assert_allclose(active.model.noise_variance(x), variance(x))


def test_complexity_needs_labels() -> None:
    with pytest.raises(ValueError, match=r"need 10 labels .*, have 0; call ask\(\) and tell\(\)"):
        learner().local_complexity()


@pytest.mark.parametrize(
    ("batch", "labels", "message"),
    [
        ([1, 2], [1.0], "2 points need as many labels"),
        ([3, 1000], [1.0, 2.0], r"row numbers 0 \.\.\. 499"),
        ([0.5], [1.0], "row numbers"),
        ([-1], [1.0], "row numbers"),
    ],
)
def test_wrong_labels_are_refused(batch: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learner().tell(batch, labels)
