"""Threads that share a learner: every label is there once."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner, Pool
from tests.faults.counting import counted, is_long
from tests.faults.setting import NearestSurrogate, X, begun, label


def in_threads(*works: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def attempt(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=attempt, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_labels_told_from_four_threads_are_all_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # which takes most of the time
    n = 20_000 if is_long() else 800
    pool = Pool(np.linspace(0.0, 1.0, n)[:, None], density=np.ones(n))
    active = ActiveLearner(pool, model=NearestSurrogate(), intrinsic_dimension=1.0, path=tmp_path / "campaign")
    active.expect(np.arange(n))
    labels = np.random.default_rng(0).random(n)

    def tell(first: int) -> Callable[[], None]:
        return lambda: [active.tell(row, labels[row]) for row in range(first, n, 4)].clear()

    in_threads(*map(tell, range(4)))
    active.close()
    again = ActiveLearner.read(tmp_path / "campaign")
    for each in (active, again):
        assert np.array_equal(each.labelled.y, labels)
        assert len(each.pending) == 0
    counted("labels from threads", n)


def calls_of(work: Callable[[], None]) -> int:
    """How many functions are called, those written in C as well."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_label_takes_as_much_work_among_many_points_as_among_few(tmp_path: Path) -> None:
    """So that the time of all labels is linear in their number."""
    work = []
    for n in (100, 1000):
        pool = Pool(np.linspace(0.0, 1.0, n)[:, None], density=np.ones(n))
        options = {"model": NearestSurrogate(), "intrinsic_dimension": 1.0, "path": tmp_path / str(n)}
        with ActiveLearner(pool, **options) as active:
            active.expect(np.arange(n))
            active.tell(np.arange(n // 2), np.ones(n // 2))
            work.append(calls_of(lambda: active.tell(n - 1, 1.0)))  # noqa: B023
    assert work[1] < 1.2 * work[0]


def test_threads_that_ask_tell_expect_and_look_leave_a_campaign_that_loads(tmp_path: Path) -> None:
    active = begun(tmp_path / "campaign")
    told: list[int] = []

    def work() -> None:
        for _ in range(4):
            batch = active.ask(3)
            active.tell(batch, label(X[batch]))
            told.extend(batch.tolist())

    def expect() -> None:
        for row in range(0, 60, 20):
            active.expect(row)

    def look() -> None:
        for _ in range(20):
            assert len(active.labelled.y) <= 48
            assert len(active.training_density()) == 60
            assert active.expected_savings() is None or active.model is not None

    in_threads(work, work, work, work, expect, look)
    active.close()
    assert len(set(told)) == len(told) == 48
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert len(again.history) == 16
        assert {*again.labelled.candidate, *again.failed} == set(told) | (set(again.labelled.candidate) - set(told))
        assert np.array_equal(again.labelled.y, active.labelled.y)


@pytest.mark.parametrize("answer", [7.5, np.nan])
def test_labels_of_points_that_another_thread_took_back_are_labels_of_these_points(
    answer: float, tmp_path: Path
) -> None:
    active, others = begun(tmp_path / "campaign"), list[int]()

    def oracle(points: np.ndarray) -> np.ndarray:
        if not others:
            active.undo()
            first = int(np.abs(X[:, 0] - points[0, 0]).argmin())
            others.extend(row for row in range(60) if row != first)
            active.expect(others[:5])
            return np.array([answer])
        return points[:, 0]

    active.run(oracle, sizes=[5])
    labels = dict(zip(active.labelled.candidate.tolist(), active.labelled.y.tolist(), strict=True))
    assert not {*others[:5]} & {*active.failed.tolist()}
    assert {row: y for row, y in labels.items() if y != X[row, 0]} == (
        {} if np.isnan(answer) else {next(row for row in range(60) if row not in others): 7.5}
    )
    active.close()
    assert np.array_equal(ActiveLearner.read(tmp_path / "campaign").labelled.y, active.labelled.y)


def test_a_clock_that_is_wrong_loses_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(tmp_path / "campaign") as active:
        monkeypatch.setattr(time, "time", lambda: -3600.0)
        active.tell(7, 2.5)
    assert ActiveLearner.read(tmp_path / "campaign").labelled.y.tolist() == [2.5]
