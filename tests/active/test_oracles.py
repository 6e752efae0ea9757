import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Event
from typing import Any

import numpy as np
import pytest

from lobal.active.oracles import as_labels, is_complete, labels_as_they_come

CALLS = [np.array([[float(k)]]) for k in range(6)]


def check(values: Any, n: int) -> np.ndarray:
    labels = as_labels(values, name="the labels")
    if labels.shape != (n,):
        raise ValueError(f"the labels must be {n}")
    return labels


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
        answers = dict(labels_as_they_come(oracle, CALLS, executor, check))
    assert sorted(answers) == list(range(6))
    failed = {number for number, labels in answers.items() if labels is None or not np.isfinite(labels).all()}
    assert failed == {0, 3}


def test_failures_are_held_back_until_there_is_a_label() -> None:
    made: list[int] = []

    def oracle(X: np.ndarray) -> np.ndarray:
        made.append(int(X[0, 0]))
        return moody({0, 1, 3}, raising)(X)

    answers = labels_as_they_come(oracle, CALLS, None, check)
    assert (next(answers)[0], made) == (0, [0, 1, 2])
    assert [number for number, _ in answers] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_oracle_without_a_single_label_is_broken(way: Callable[[], Any]) -> None:
    answers = labels_as_they_come(moody(set(range(6)), way), CALLS, None, check)
    with pytest.raises(RuntimeError, match=r"failed at all 6 points; none is given up: .*learner\.give_up\(\)"):
        next(answers)


@pytest.mark.parametrize("labels", [[1.0, 2.0], [], [[1.0]], 1.0j, "high", {"y": 1.0}], ids=str)
def test_anything_but_one_label_for_each_point_is_refused(labels: Any) -> None:
    with pytest.raises(ValueError, match="the labels"):
        list(labels_as_they_come(lambda _: labels, CALLS, None, check))


def test_one_number_is_the_label_of_one_point_and_none_is_no_label() -> None:
    answers = dict(labels_as_they_come(lambda X: float(X[0, 0]) if X[0, 0] else None, CALLS, None, check))
    assert np.isnan(answers[0]).all()
    assert answers[5].tolist() == [5.0]


def test_an_error_cancels_the_calls_that_have_not_begun() -> None:
    made, is_cancelled = [], Event()

    def oracle(X: np.ndarray) -> np.ndarray:
        made.append(float(X[0, 0]))
        if len(made) > 1:
            is_cancelled.wait()
        return np.ones(3)  # of the wrong length: the first answer ends it

    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ValueError, match="the labels"):
            list(labels_as_they_come(oracle, CALLS, executor, check))
        is_cancelled.set()
    assert len(made) <= 2


def test_labels_are_numbers_and_complete_if_all_of_them_are_finite() -> None:
    assert is_complete(np.array([1.0, math.inf])).tolist() == [True, False]
    assert is_complete(np.array([[1.0, math.nan], [1.0, 2.0]])).tolist() == [False, True]
    assert as_labels(3, name="labels").tolist() == [3.0]
    with pytest.raises(ValueError, match="labels must be numbers, NaN where there is none, got 'high'"):
        as_labels("high", name="labels")
