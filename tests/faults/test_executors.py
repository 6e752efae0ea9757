"""Runs with many workers that end early: every call that was paid for has its label on disk."""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner
from tests.faults.counting import counted
from tests.faults.setting import answered, begun, label


def interrupt(X: np.ndarray) -> np.ndarray:
    os.kill(os.getpid(), signal.SIGINT)
    return label(X)


def wrong_shape(X: np.ndarray) -> np.ndarray:
    return np.ones(3)


@pytest.mark.parametrize(
    ("ending", "error"), [(interrupt, KeyboardInterrupt), (wrong_shape, ValueError)], ids=["Ctrl-C", "wrong shape"]
)
@pytest.mark.parametrize("last", [9, 20, 30])
def test_a_run_that_ends_early_keeps_what_was_paid_for(
    last: int, ending: Callable[[np.ndarray], np.ndarray], error: type[BaseException], tmp_path: Path
) -> None:
    paid: list[float] = []
    wrong: list[float] = []

    def oracle(X: np.ndarray) -> np.ndarray:
        time.sleep(0.01)
        paid.append(float(X[0, 0]))
        if len(paid) == last:
            wrong.extend(X[:, 0] if ending is wrong_shape else [])
            return ending(X)
        return label(X)

    active = begun(tmp_path / "campaign")
    with ThreadPoolExecutor(8) as executor, pytest.raises(error):
        active.run(oracle, sizes=[40], executor=executor)
    active.close()
    again = ActiveLearner.read(tmp_path / "campaign")
    assert answered(again) == set(paid) - set(wrong)
    assert len(paid) >= last
    counted("paid calls", len(paid))


def test_a_call_that_hangs_is_a_failed_label_and_the_run_goes_on() -> None:
    active, is_over, hanging = begun(), threading.Event(), list[float]()

    def oracle(X: np.ndarray) -> np.ndarray:
        if len(hanging) == 0 and X[0, 0] > 0.5:
            hanging.append(float(X[0, 0]))
            is_over.wait()
        return X[:, 0]

    with ThreadPoolExecutor(2) as executor:
        active.run(oracle, sizes=[12, 16], executor=executor, timeout=0.3)
        is_over.set()
    assert active.candidates.X[active.failed, 0].tolist() == hanging
    assert len(active.labelled.y) == 16
    with pytest.raises(ValueError, match=r"timeout=5.0 needs an executor"):
        active.run(oracle, sizes=[20], timeout=5.0)
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=r"timeout must be above 0, got -1"):
        active.run(oracle, sizes=[20], executor=executor, timeout=-1.0)
