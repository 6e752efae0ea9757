"""Sizes are reached exactly although labels fail, also by runs that are interrupted; calls that hang are ended."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner
from tests.active.campaign.processes import FORK_SERVER
from tests.faults.setting import X, begun, label, state_of


def test_the_last_size_is_reached_exactly_although_labels_fail() -> None:
    active, seen = begun(), list[int]()
    active.run(label, sizes=[10, 20, 30], callbacks=[lambda learner: seen.append(len(learner.labelled.y))])
    assert len(active.failed) > 0
    assert len(active.labelled.y) == 30
    assert seen[-1] == 30
    assert len(seen) == 3
    assert {step.target for step in active.history} == {10, 20, 30}


@pytest.mark.parametrize("last", [1, 9, 21, 22, 23, 24, 25])
def test_a_run_that_was_interrupted_buys_the_same_batches(last: int, tmp_path: Path) -> None:
    def failing(X: np.ndarray) -> np.ndarray:
        return np.where(np.sin(40 * X[:, 0]) > 0.2, np.nan, X[:, 0])

    def interrupted(X: np.ndarray) -> np.ndarray:
        made.append(0)
        if len(made) == last:
            raise KeyboardInterrupt
        return failing(X)

    whole, made = begun(), list[int]()
    whole.run(failing, sizes=[6, 20], points_per_call=1)
    with begun(tmp_path / "campaign") as first, pytest.raises(KeyboardInterrupt):
        first.run(interrupted, sizes=[6, 20])
    with ActiveLearner.load(tmp_path / "campaign") as again:
        again.run(interrupted, sizes=[6, 20])
        assert state_of(again) == state_of(whole)
    assert len(whole.labelled.y) == 20


def test_after_three_rounds_in_vain_the_run_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    active, made = begun(), list[int]()

    def dying(X: np.ndarray) -> np.ndarray:
        made.extend([0] * len(X))
        return X[:, 0] if len(made) <= 15 else np.full(len(X), np.nan)

    active.run(dying, sizes=[18], points_per_call=1)
    assert "15 labels in place of 18: 3 rounds of further points all failed; run again to go on" in caplog.text
    assert (len(active.labelled.y), len(active.failed), len(active.pending)) == (15, 12, 0)
    active.run(lambda X: X[:, 0], sizes=[18])
    assert len(active.labelled.y) == 18


def test_many_points_that_all_fail_stay_pending() -> None:
    active, made = begun(), list[int]()

    def dying(X: np.ndarray) -> np.ndarray:
        made.extend([0] * len(X))
        return X[:, 0] if len(made) <= 5 else np.full(len(X), np.nan)

    with pytest.raises(RuntimeError, match="the oracle failed at all 15 points; none is given up"):
        active.run(dying, sizes=[20], points_per_call=1)
    assert (len(active.labelled.y), len(active.failed), len(active.pending)) == (5, 15, 15)


def test_without_points_left_the_run_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    active = begun()
    active.run(label, sizes=[58])
    assert len(active.labelled.y) + len(active.failed) == len(X)
    assert "in place of 58: the pool has no points left" in caplog.text


# Calls that hang.


LARGEST = X.max()


def hanging(X: np.ndarray) -> np.ndarray:
    if X[0, 0] == LARGEST:
        time.sleep(600)
    return X[:, 0]


def test_processes_that_hang_are_killed_at_the_end_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    active, begin = begun(), time.monotonic()
    with ProcessPoolExecutor(2, mp_context=FORK_SERVER) as executor:
        executor.submit(hanging, np.zeros((1, 1))).result()  # started
        active.expect([int(X[:, 0].argmax())])
        active.run(hanging, sizes=[6, 12], executor=executor, timeout=10.0)  # processes take time to start
    assert (len(active.labelled.y), len(active.failed)) == (12, 1)
    assert time.monotonic() - begin < 300
    assert multiprocessing.active_children() == []
    assert "hang: the processes of their executor are killed; make a new one" in caplog.text


def always_hanging(X: np.ndarray) -> np.ndarray:
    if X[0, 0] != 0.0:
        time.sleep(600)
    return X[:, 0]


def test_calls_that_wait_for_a_process_that_hangs_are_pending() -> None:
    active = begun()
    active.tell([0, 1], [0.0, 1.0])
    with ProcessPoolExecutor(1, mp_context=FORK_SERVER) as executor:
        executor.submit(always_hanging, np.zeros((1, 1))).result()  # started
        with pytest.raises(RuntimeError, match=r"hang in calls that have failed|failed at all 6 points|more cannot be"):
            active.run(always_hanging, sizes=[8], executor=executor, timeout=1.0)
    assert len(active.pending) >= 5
