import math
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal import ActiveLearner, Box, MixtureRegressor, Pool
from lobal.learner import no_further_gain, target_error

MODEL = MixtureRegressor(max_epochs=10, patience=3, n_inducing=40, n_gate_inducing=10)


def bumpy(X: np.ndarray) -> np.ndarray:
    """Complex on the left, simple on the right, with a little reproducible noise."""
    noise = np.sin(1e5 * X[:, 0])
    return np.sin(3.0 / (X[:, 0] + 0.05)) + 0.05 * noise


def pool(n: int = 500, seed: int = 0) -> Pool:
    return Pool(np.random.default_rng(seed).random((n, 1)))


def learner(space: Pool | Box | None = None, **changes: Any) -> ActiveLearner:
    return ActiveLearner(pool() if space is None else space, **{"seed": 0, "model": MODEL, **changes})


def oracle_of(active: ActiveLearner) -> Any:
    return lambda batch: bumpy(np.asarray(active.candidates.X)[batch])


def test_asked_points_are_distinct_rows_and_never_come_twice() -> None:
    active = learner(pool(100))
    seen: list[int] = []
    for n in (30, 30, 40):
        batch = active.ask(n)
        active.tell(batch, bumpy(active.candidates.X[batch]))
        seen += batch.tolist()
    assert sorted(seen) == list(range(100))


def test_asking_for_more_than_there_is_says_so() -> None:
    active = learner(pool(20))
    active.ask(15)
    with pytest.raises(ValueError, match=r"6.*5|5.*6"):
        active.ask(6)


def test_a_box_is_asked_for_inputs_inside_it() -> None:
    active = learner(Box([-1.0, 5.0], [1.0, 6.0], n_candidates=256))
    first = active.ask(30)
    active.tell(first, first[:, 0])
    second = active.ask(30)
    for X in (first, second):
        assert X.shape == (30, 2)
        assert ((X >= [-1.0, 5.0]) & (X <= [1.0, 6.0])).all()


def test_more_points_go_where_the_function_is_complex() -> None:
    active = learner(pool(4000), model=MixtureRegressor(max_epochs=60, n_inducing=100))
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


def test_points_nobody_asked_for_are_learned_from() -> None:
    active = learner()
    rows = np.arange(50)
    active.tell(rows, bumpy(active.candidates.X[rows]))
    assert len(active.labelled.y) == 50
    assert not set(active.ask(30)) & set(rows)


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


def test_the_density_of_points_nobody_asked_for_is_estimated() -> None:
    active = learner(pool(1000))
    left = np.flatnonzero(active.candidates.X[:, 0] < 0.5)[:200]
    active.tell(left, bumpy(active.candidates.X[left]))
    density = active.training_density()
    assert density[active.candidates.X[:, 0] < 0.45].mean() > 5 * density[active.candidates.X[:, 0] > 0.6].mean()


def test_a_failed_point_that_is_labelled_after_all_counts() -> None:
    active = learner()
    row = int(active.ask(1)[0])
    active.tell(row, math.nan)
    active.tell(row, 1.0)
    assert active.labelled.y.tolist() == [1.0]
    assert active._ledger.size == 1


def test_failed_labels_are_neither_learned_nor_asked_for_again() -> None:
    active = learner(pool(60))
    batch = active.ask(30)
    labels = bumpy(active.candidates.X[batch])
    labels[:5] = math.nan
    active.tell(batch, labels)
    assert len(active.labelled.y) == 25
    assert not len(active.pending)
    assert not set(active.ask(30)) & set(batch[:5])


def test_an_oracle_that_sometimes_raises_loses_those_points_only() -> None:
    active = learner()

    def moody(X: np.ndarray) -> np.ndarray:
        if X[0, 0] > 0.8:
            raise RuntimeError("diverged")
        return bumpy(X)

    active.run(moody, sizes=[40], points_per_call=1)
    assert 20 < len(active.labelled.y) < 40
    assert active.labelled.X.max() <= 0.8


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


def test_an_oracle_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"20 points .*\(20, 1\)"):
        learner().run(lambda X: bumpy(X)[:, None], sizes=[20])


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
        active.run(bumpy, sizes=[30, 60])
        runs.append(active.labelled.X)
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_stopping_rules_end_the_run() -> None:
    for rule in (target_error(100.0), no_further_gain(0.0), lambda _: True):
        active = learner()
        active.run(bumpy, sizes=[30, 60, 120], stop=[rule])
        assert len(active.labelled.y) == 30
    active = learner()
    active.run(bumpy, sizes=[30, 60], stop=[target_error(0.0), no_further_gain(1.0)])
    assert len(active.labelled.y) == 60


def test_callbacks_see_every_size() -> None:
    sizes: list[int] = []
    learner().run(bumpy, sizes=[20, 40], callbacks=[lambda active: sizes.append(len(active.labelled.y))])
    assert sizes == [20, 40]


def test_the_record_has_a_step_for_every_batch() -> None:
    active = learner()
    active.run(bumpy, sizes=[30, 60, 90])
    assert active.history.sizes == (0, 30, 60)
    assert active.history[0].gamma_1 is None
    found = active.history[2].to_fields()
    assert found["gamma_1"] >= 1.0
    assert found["validation_error"] > 0.0
    assert 0.0 < found["attainable"] <= 1.0 + 1e-9


def test_densities_are_at_equal_norm_with_the_pool() -> None:
    active = learner()
    active.run(bumpy, sizes=[60])
    p_X = active.candidates.pool_density.numpy()
    for density in (active.superior_density(), active.training_density()):
        assert np.mean(density / p_X) == pytest.approx(1.0, rel=1e-6)


def test_importance_weights_undo_the_active_density() -> None:
    active = learner(pool(3000))
    active.run(bumpy, sizes=[100, 400])
    x, w = active.labelled.X[:, 0], active.importance_weights()
    assert np.average(x, weights=w) == pytest.approx(0.5, abs=0.06)


def test_complexity_needs_labels() -> None:
    with pytest.raises(ValueError, match="from 10 labels on, there are 0"):
        learner().local_complexity()


@pytest.mark.parametrize(
    ("batch", "labels", "message"),
    [
        ([1, 2], [1.0], "2 points need as many labels"),
        ([1000], [1.0], r"row numbers 0 \.\.\. 499"),
        ([0.5], [1.0], "row numbers"),
        ([-1], [1.0], "row numbers"),
    ],
)
def test_wrong_labels_are_refused(batch: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learner().tell(batch, labels)


@pytest.mark.parametrize("options", [{"draw": "lots"}, {"exploration": 1.5}], ids=str)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"got .*{next(iter(options.values()))}"):
        learner(**options)


# On disk.


@pytest.mark.parametrize("space", [pool(), Box(0.0, 1.0, n_candidates=512)], ids=["pool", "box"])
def test_a_loaded_campaign_goes_on_as_if_it_had_not_stopped(space: Pool | Box, tmp_path: Path) -> None:
    whole = learner(space)
    whole.run(bumpy, sizes=[30, 60, 90])
    kept = learner(space, path=tmp_path / "campaign")
    kept.run(bumpy, sizes=[30, 60])
    kept.close()
    with ActiveLearner.load(tmp_path / "campaign") as again:
        again.run(bumpy, sizes=[30, 60, 90])
    assert np.array_equal(whole.labelled.X, again.labelled.X)
    assert whole.history == again.history


def test_a_campaign_saved_late_is_the_same_campaign(tmp_path: Path) -> None:
    active = learner(validation=(np.linspace(0, 1, 20)[:, None], np.zeros(20)))
    active.run(bumpy, sizes=[30, 60])
    active.save(tmp_path / "campaign")
    active.close()
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert np.array_equal(again.ask(20), active_copy_ask(active, 20))


def active_copy_ask(active: ActiveLearner, n: int) -> np.ndarray:
    active._campaign = None  # asked in memory only
    return active.ask(n)


def test_a_memory_mapped_pool_stays_in_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", np.random.default_rng(0).random((300, 2)))
    active = learner(Pool.from_npy(tmp_path / "pool.npy"), path=tmp_path / "campaign")
    batch = active.ask(20)
    active.tell(batch, np.asarray(active.candidates.X)[batch, 0])
    active.close()
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert isinstance(again.candidates.X, np.memmap)
    (tmp_path / "pool.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"pool\.npy, which is gone"):
        ActiveLearner.load(tmp_path / "campaign")


def test_a_running_campaign_can_be_looked_at(tmp_path: Path) -> None:
    with learner(path=tmp_path / "campaign") as active:
        active.run(bumpy, sizes=[30])
        assert np.array_equal(ActiveLearner.read(tmp_path / "campaign").labelled.y, active.labelled.y)
        with pytest.raises(BlockingIOError):
            ActiveLearner.load(tmp_path / "campaign")


def slow_campaign(folder: Path, calls: Path) -> None:
    """What a campaign's own process does, from the start or from where the last one died."""

    def slow(X: np.ndarray) -> np.ndarray:
        time.sleep(0.004)
        with calls.open("a") as file:
            file.write(f"{float(X[0, 0])!r}\n")
        return bumpy(X)

    started = (folder / "header.json").exists()
    with ActiveLearner.load(folder) if started else learner(path=folder) as active:
        active.run(slow, sizes=[20, 40, 60])


def run_for(seconds: float, folder: Path, calls: Path) -> bool:
    """Run the campaign in a process of its own, killed after so long; true if it came to its end."""
    process = multiprocessing.get_context("fork").Process(target=slow_campaign, args=(folder, calls))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == 0


def test_killed_at_any_instant_a_campaign_resumes_with_the_same_points(tmp_path: Path) -> None:
    whole = learner()
    whole.run(bumpy, sizes=[20, 40, 60])
    rng, kills = np.random.default_rng(0), 0
    while kills < 30:
        folder, calls, before = tmp_path / f"after_{kills}", tmp_path / f"calls_{kills}", kills
        while not run_for(0.8 * rng.random(), folder, calls):
            kills += 1
        with ActiveLearner.load(folder) as again:
            assert np.array_equal(whole.labelled.X, again.labelled.X)
            assert np.array_equal(whole.labelled.y, again.labelled.y)
        assert whole.history == again.history
        # A label is bought twice only if the process died between the oracle's answer and the journal.
        bought = calls.read_text().split()
        assert len(set(bought)) == 60 <= len(bought) <= 60 + kills - before
