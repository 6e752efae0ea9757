"""Worker processes that label configurations, replaced where one of them dies or hangs."""

import logging
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.learner import ActiveLearner
from lobal.active.oracles import Calls, Oracle, OracleFailedError, kill_hanging
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.space import joined_labels

logger = logging.getLogger(__name__)

ExecutorFactory: TypeAlias = Callable[[], Executor]
Record: TypeAlias = Callable[[int, list[float] | None], None]

MOST_RESTARTS = 5  # of the workers without a single label between them


@final
class Workers:
    """An oracle and the executor that runs its calls; a new executor takes the place of one that is of no use any more.

    Args:
        oracle: returns energies (m,) in eV and forces (m, N, 3) in eV / Angstrom of positions (m, N, 3) in Angstrom.
        make_executor: makes an executor; none for calls in this process, one after the other.
        timeout: seconds without any answer after which the calls that are running have failed.
    """

    def __init__(
        self, oracle: Oracle, make_executor: ExecutorFactory | None = None, *, timeout: float | None = None
    ) -> None:
        self.oracle, self._make, self._timeout = oracle, make_executor, timeout
        self._executor: Executor | None = None
        self.calls = 0  # that were answered

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self._dismiss()

    @property
    def executor(self) -> Executor | None:
        """The present executor, made when it is first needed."""
        if self._executor is None and self._make is not None:
            self._executor = self._make()
        return self._executor

    def _dismiss(self) -> None:
        """Let the executor go, calls that may hang included."""
        if isinstance(self._executor, ProcessPoolExecutor):
            self._executor.shutdown(wait=False, cancel_futures=True)
        elif self._executor is not None:
            self._executor.shutdown(wait=False)
        self._executor = None

    def label(self, R: Positions, *, record: Record | None = None) -> Float[Tensor, "n w"]:
        """Energies and forces as rows; NaN where a configuration has failed twice.

        `record` takes the number of a configuration and its row, or none where it has failed, as soon as that is known.
        """
        rows = torch.full((len(R), 1 + R.shape[1] * 3), torch.nan, dtype=torch.float64)
        for _ in range(2):
            missing = torch.isnan(rows).any(1).nonzero()[:, 0].tolist()
            if missing:
                rows[missing] = self._labelled_once(R[missing], missing, record)
        if record is not None:
            for row in torch.isnan(rows).any(1).nonzero()[:, 0].tolist():
                record(row, None)
        self.calls += len(R)
        return rows

    def _labelled_once(self, R: Positions, numbers: list[int], record: Record | None) -> Float[Tensor, "n w"]:
        found = np.full((len(R), 1 + R.shape[1] * 3), np.nan)

        def take(call: int, labels: ndarray | None) -> None:
            if labels is not None and np.isfinite(labels).all():
                found[call] = labels[0]
                if record is not None:
                    record(numbers[call], labels[0].tolist())

        calls = Calls(
            self.oracle,
            [each[None] for each in R.numpy()],
            check=partial(_checked, n_atoms=R.shape[1]),
            record=take,
            is_working=True,
        )
        try:
            calls.run(self.executor, timeout=self._timeout)
        except RuntimeError as error:  # of the executor
            logger.warning("workers are replaced: %s", error)
            self._dismiss()
        finally:
            if calls.given_up:
                kill_hanging(self._executor, calls.given_up)
                self._dismiss()
        return torch.from_numpy(found)

    def run(self, learner: ActiveLearner, size: int) -> None:
        """Ask for points up to that number of labels and have them labelled, whatever becomes of the workers.

        Points that failed, as where their worker died or hung, are tried once more.

        Raises:
            RuntimeError: all points of a batch failed, or workers die again and again without a label between.
        """
        tried, restarts = {*learner.ledger.failed}, 0
        while True:
            n = learner.ledger.n_labels
            try:
                learner.run(self.oracle, sizes=[size], executor=self.executor, timeout=self._timeout)
                break
            except OracleFailedError:
                raise
            except RuntimeError as error:
                restarts = 1 if learner.ledger.n_labels > n else restarts + 1
                if self._executor is None or restarts > MOST_RESTARTS:
                    raise
                logger.warning("workers are replaced: %s", error)
                self._dismiss()
            tried |= self._retry(learner, tried)
        self._retry(learner, tried)

    def _retry(self, learner: ActiveLearner, tried: set[int]) -> set[int]:
        """Label points again that failed, but for those that were tried twice already; returns their numbers."""
        numbers = [number for number in learner.ledger.failed if number not in tried]
        if numbers:
            self._dismiss()  # fresh processes, and none that hangs
            points = learner.ledger.candidates(numbers)
            R = torch.from_numpy(learner.candidates.inputs_at(torch.from_numpy(points)))
            rows = self._labelled_once(R, [], None)
            is_label = ~torch.isnan(rows).any(1).numpy()
            learner.tell(learner.candidates.batch(points, np.empty(0))[is_label], rows.numpy()[is_label])
        return {*numbers}


def processes(workers: int) -> Executor:
    """Processes for calls of an oracle, begun afresh: a fork would have a copy of this one's threads' locks.

    Programs have one thread in each, whatever OMP_NUM_THREADS says of this process: two processes with two threads on
    two cores wait for each other a thousand times as long as they compute.
    """
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_use_one_thread)


def _use_one_thread() -> None:
    """Calculations then limit themselves (`molecules.single_thread`)."""
    os.environ.pop("OMP_NUM_THREADS", None)


def _checked(labels: object, n: int, *, n_atoms: int) -> Float[ndarray, "n w"]:
    return joined_labels(labels, (n, n_atoms), name="the oracle's labels")
