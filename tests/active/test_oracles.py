import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest

from lobal.active.oracles import Calls, attempt, is_complete
from lobal.core.real_numbers import as_numbers
from tests.active.campaign.processes import FORK_SERVER

CALLS = [np.array([[float(k)]]) for k in range(6)]


def check(values: Any, n: int) -> np.ndarray:
    labels = np.atleast_1d(as_numbers(values, name="the labels"))
    if labels.shape != (n,):
        raise ValueError(f"the labels must be {n}")
    return labels


def answers_of(oracle: Any, executor: Executor | None = None, *, timeout: float | None = None) -> list[tuple[int, Any]]:
    """What is recorded, in order."""
    answers: list[tuple[int, Any]] = []
    Calls(oracle, CALLS, check=check, record=lambda *answer: answers.append(answer)).run(executor, timeout=timeout)
    return answers


def moody(bad: set[int], way: Callable[[], Any]) -> Any:
    """An oracle that fails at some inputs, in its own way."""
    return lambda X: way() if int(X[0, 0]) in bad else X[:, 0]


def raising() -> Any:
    raise RuntimeError("diverged")


WAYS = {"raises": raising, "nan": lambda: [math.nan], "infinite": lambda: [math.inf]}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("workers", [0, 2])
def test_all_calls_are_answered_and_failures_have_no_finite_label(way: Callable[[], Any], workers: int) -> None:
    oracle = moody({0, 3}, way)
    with ThreadPoolExecutor(workers) if workers else nullcontext() as executor:
        answers = dict(answers_of(oracle, executor))
    assert sorted(answers) == list(range(6))
    failed = {number for number, labels in answers.items() if labels is None or not np.isfinite(labels).all()}
    assert failed == {0, 3}


def test_failures_are_held_back_until_there_is_a_label() -> None:
    made: list[int] = []
    recorded: list[tuple[int, int]] = []  # number of the call, and of calls made by then

    def oracle(X: np.ndarray) -> np.ndarray:
        made.append(int(X[0, 0]))
        return moody({0, 1, 3}, raising)(X)

    Calls(oracle, CALLS, check=check, record=lambda number, _: recorded.append((number, len(made)))).run()
    assert recorded == [(0, 3), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_oracle_without_a_single_label_is_broken(way: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"failed at all 6 points; none is given up: .*learner\.give_up\(\)"):
        answers_of(moody(set(range(6)), way))


@pytest.mark.parametrize("labels", [[1.0, 2.0], [], [[1.0]], 1.0j, "high", {"y": 1.0}], ids=str)
def test_anything_but_one_label_for_each_point_is_refused(labels: Any) -> None:
    with pytest.raises(ValueError, match="the labels"):
        answers_of(lambda _: labels)


def test_one_number_is_the_label_of_one_point_and_none_is_no_label() -> None:
    answers = dict(answers_of(lambda X: float(X[0, 0]) if X[0, 0] else None))
    assert np.isnan(answers[0]).all()
    assert answers[5].tolist() == [5.0]


# Errors, Ctrl-C, calls that hang and workers that are killed: what was paid for is recorded.


class Recorded(list[tuple[int, Any]]):
    """Calls in an executor, and what is recorded of them."""

    def run(self, oracle: Any, executor: Executor, **options: Any) -> None:
        record = lambda *answer: self.append(answer)  # noqa: E731
        Calls(oracle, CALLS, check=check, record=record).run(executor, **options)

    @property
    def numbers(self) -> list[int]:
        return sorted(number for number, labels in self if labels is not None)

    @property
    def failed(self) -> list[int]:
        return sorted(number for number, labels in self if labels is None)


def test_an_answer_of_wrong_shape_cancels_what_has_not_begun_and_keeps_the_labels_beside_it() -> None:
    made, is_running = [], Barrier(2)

    def oracle(X: np.ndarray) -> np.ndarray:
        made.append(int(X[0, 0]))
        if X[0, 0] < 2:
            is_running.wait()
        if X[0, 0] == 0:
            return np.ones(3)
        time.sleep(0.1)  # the wrong answer is there first
        return X[:, 0]

    recorded = Recorded()
    with ThreadPoolExecutor(2) as executor, pytest.raises(ValueError, match="the labels must be 1"):
        recorded.run(oracle, executor)
    assert recorded.numbers == sorted(set(made) - {0})
    assert len(made) < 6


def test_an_interrupt_keeps_the_labels_of_calls_that_are_running() -> None:
    def oracle(X: np.ndarray) -> np.ndarray:
        if X[0, 0] == 2:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return X[:, 0]

    recorded = Recorded()
    with ThreadPoolExecutor(2) as executor, pytest.raises(KeyboardInterrupt):
        recorded.run(oracle, executor)
    assert {0, 1, 2} <= set(recorded.numbers)


def test_a_second_interrupt_gives_running_calls_up(caplog: pytest.LogCaptureFixture) -> None:
    is_over = Event()

    def oracle(X: np.ndarray) -> np.ndarray:
        if X[0, 0] == 0:
            return X[:, 0]
        for _ in range(2):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        is_over.wait()
        return X[:, 0]

    recorded = Recorded()
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(KeyboardInterrupt):
            recorded.run(oracle, executor)
        is_over.set()
    assert recorded.numbers == [0]
    assert "waiting for 1 calls of the oracle; a second Ctrl-C gives them up" in caplog.text


def test_a_call_that_hangs_is_given_up_and_the_others_are_made() -> None:
    is_over, recorded = Event(), Recorded()

    def oracle(X: np.ndarray) -> np.ndarray:
        if X[0, 0] == 1:
            is_over.wait()
        return X[:, 0]

    with ThreadPoolExecutor(2) as executor:
        recorded.run(oracle, executor, timeout=0.2)
        is_over.set()
    assert (recorded.numbers, recorded.failed) == ([0, 2, 3, 4, 5], [1])


def test_a_run_whose_workers_all_hang_ends() -> None:
    is_over, recorded = Event(), Recorded()

    def oracle(X: np.ndarray) -> np.ndarray:
        if X[0, 0] > 0:
            is_over.wait()
        return X[:, 0]

    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(RuntimeError, match=r"no answer within 0.2 s from any worker: .* 4 more cannot be made"):
            recorded.run(oracle, executor, timeout=0.2)
        is_over.set()
    assert (recorded.numbers, recorded.failed) == ([0], [1])


def lethal(X: np.ndarray) -> np.ndarray:
    """Kills its process at one point, when the points before it have had time enough."""
    if X[0, 0] == 3:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return X[:, 0]


def test_a_killed_worker_is_a_failed_label_and_a_clear_error() -> None:
    recorded = Recorded()
    with ProcessPoolExecutor(1, mp_context=FORK_SERVER) as executor:
        for already in (False, True):
            with pytest.raises(
                RuntimeError, match=r"a worker of the executor was killed.*; run again with a new executor"
            ):
                (Recorded() if already else recorded).run(lethal, executor)
    assert (recorded.numbers, recorded.failed) == ([0, 1, 2], [3])


class StrangeError(Exception):
    """Cannot be read by another process: `pickle` makes it anew from its message alone."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(f"{reason} at {place}")


def failing_strangely(X: np.ndarray) -> np.ndarray:
    if X[0, 0] == 3:
        raise StrangeError("diverged", 3)
    return X[:, 0]


def test_an_error_that_no_other_process_can_read_fails_its_call_only(caplog: pytest.LogCaptureFixture) -> None:
    recorded = Recorded()
    with ProcessPoolExecutor(1, mp_context=FORK_SERVER) as executor:
        recorded.run(failing_strangely, executor)
    assert (recorded.numbers, recorded.failed) == ([0, 1, 2, 4, 5], [3])
    assert "StrangeError: diverged at 3" in caplog.text


def test_a_process_of_another_machine_does_not_look_for_its_campaign_on_its_own() -> None:
    no_process_here = 2**22 + 1  # the largest number of a process on Linux is 2^22
    with ProcessPoolExecutor(1, mp_context=FORK_SERVER) as executor:
        assert executor.submit(attempt, failing_strangely, CALLS[2], no_process_here).result().tolist() == [2.0]


def buying(X: np.ndarray) -> np.ndarray:
    time.sleep(0.2)
    with Path(os.environ["BOUGHT"]).open("a") as file:
        file.write(f"{X[0, 0]}\n")
    return X[:, 0]


def buy_in_a_pool() -> None:
    os.setsid()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor:
        Recorded().run(buying, executor)


def test_workers_of_a_killed_campaign_buy_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOUGHT", str(tmp_path / "bought"))
    process = multiprocessing.get_context("fork").Process(target=buy_in_a_pool)
    process.start()
    while not (tmp_path / "bought").exists():
        time.sleep(0.01)
    process.kill()
    process.join()
    time.sleep(0.8)
    assert process.pid is not None
    with suppress(ProcessLookupError):  # a worker without calls stays
        os.killpg(process.pid, signal.SIGKILL)
    assert len((tmp_path / "bought").read_text().split()) <= 2  # the call that was running comes to its end


def test_labels_are_numbers_and_complete_if_all_of_them_are_finite() -> None:
    assert is_complete(np.array([1.0, math.inf])).tolist() == [True, False]
    assert is_complete(np.array([[1.0, math.nan], [1.0, 2.0]])).tolist() == [False, True]
    with pytest.raises(ValueError, match="labels must be numbers, NaN where there is none, got 'high'"):
        as_numbers("high", name="labels")
