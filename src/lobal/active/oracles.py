"""Calling an oracle, which is somebody else's program and may fail, hang or be killed."""

import logging
import multiprocessing
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from typing import Any, NoReturn, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.active.frames import first_rows, n_rows
from lobal.core.interrupts import Uninterrupted

logger = logging.getLogger(__name__)

KILLED_WITHIN = 10.0  # seconds that processes which were killed are waited for

# Labels of points: for arrays, numbers (m,) of inputs (m, d); tables of named columns for a search space.
Oracle: TypeAlias = Callable[[Any], Any]
# The checked labels of so many points, from whatever an oracle returned.
Check: TypeAlias = Callable[[Any, int], ndarray]
# Which points the labels of a call are labels of; at the others it failed.
HasLabel: TypeAlias = Callable[[ndarray], ndarray]
# Takes the number of a call and its labels, or none where the call failed.
Record: TypeAlias = Callable[[int, ndarray | None], None]


@final
class OracleFailedError(RuntimeError):
    """There is no label for any point of a batch."""


@final
class NoWorkersError(RuntimeError):
    """An oracle that has workers of its own cannot make calls at present; of their points nothing is known."""


@final
class Calls:
    """Calls of an oracle, each answer recorded as soon as it is there.

    Of an executor whose number of workers is known, each has one call at a time, and the next once an answer is
    recorded: where this process is killed, no more than one answer of each worker is lost.

    Failures before the first label are held back until there is one: until then the oracle itself may be broken, unless
    it is known to work (`is_working`).
    """

    def __init__(
        self,
        oracle: Oracle,
        inputs: Sequence[Any],
        *,
        check: Check,
        record: Record,
        is_working: bool = False,
        has_label: HasLabel | None = None,
    ) -> None:
        self._oracle, self._inputs, self._check, self._record = oracle, inputs, check, record
        self._left = deque(enumerate(inputs))  # calls that no worker has been given yet
        self._failures: list[tuple[int, ndarray | None]] = []  # held back
        self._is_working, self._has_label = is_working, is_complete if has_label is None else has_label
        self._error: BaseException | None = None  # of the last call that failed
        self.given_up: list[Future[Any]] = []  # calls that did not answer in time, and may still be running

    def run(self, executor: Executor | None = None, *, timeout: float | None = None) -> None:
        """Make all calls, without an executor one after the other.

        On Ctrl-C and on any error, calls that have not begun are cancelled and those that are running are waited for:
        their labels are paid. A second Ctrl-C gives them up.

        Args:
            executor: runs calls in parallel.
            timeout: seconds without any answer after which the calls that are running have failed.

        Raises:
            RuntimeError: there is not a single label, or the executor cannot go on; its points are left as they are.
            ValueError: the oracle returned something other than one label for each input.
        """
        if executor is None:
            for number, X in enumerate(self._inputs):
                result = attempt(self._oracle, X, os.getpid())
                with Uninterrupted():
                    self._take(number, result)
        else:
            self._run(executor, timeout)
        if self._failures:
            raise OracleFailedError(
                f"the oracle failed at all {sum(map(n_rows, self._inputs))} points; none is given up: mend it and run "
                "again or, to do without them, learner.give_up()"
            ) from self._error

    def _run(self, executor: Executor, timeout: float | None) -> None:
        futures: dict[Future[Any], int] = {}  # in the order of submission; those taken are removed
        try:
            while self._left or futures:
                self._submit(executor, futures)
                done = wait(futures, timeout, FIRST_COMPLETED).done
                with Uninterrupted():
                    if not done:
                        self._give_up(futures, f"no answer within {timeout} s")
                    for future in sorted(done, key=futures.__getitem__):
                        self._take_future(future, futures, executor)
        except BaseException:
            self._collect(futures)
            raise

    def _submit(self, executor: Executor, futures: dict[Future[Any], int]) -> None:
        """Submit the next calls, as many as there are workers for."""
        while self._left and len(futures) < n_workers(executor):
            with Uninterrupted():
                number, X = self._left.popleft()
                try:
                    futures[executor.submit(attempt, self._oracle, X, os.getpid())] = number
                except BrokenExecutor as error:
                    self._fail_broken(futures, executor, error)

    def _take_future(self, future: Future[Any], futures: dict[Future[Any], int], executor: Executor) -> None:
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            self._fail_broken(futures, executor, error)
        number = futures.pop(future)
        if isinstance(error, NoWorkersError) or not isinstance(error, Exception | None):
            raise error  # Ctrl-C, say, reached the worker as well
        self._take(number, future.result() if error is None else error)

    def _give_up(self, futures: dict[Future[Any], int], reason: str) -> None:
        """Fail calls that do not answer; without a worker left, the others cannot be made."""
        cancelled = [future for future in futures if future.cancel()]
        for future in [future for future in futures if not future.done()]:
            self.given_up.append(future)
            self._take(futures.pop(future), TimeoutError(reason))
        for future in cancelled:
            del futures[future]
        unmade = len(cancelled) + len(self._left)
        self._left.clear()
        if unmade and self._is_working:
            raise RuntimeError(
                f"{reason} from any worker: calls that were running have failed, {unmade} more cannot be made and "
                "are pending; restart the executor's workers and run again"
            )

    def _fail_broken(self, futures: dict[Future[Any], int], executor: Executor, error: BaseException) -> NoReturn:
        """Fail the calls that were running when a worker was killed."""
        wait(futures)  # all have an answer or this error by now, or will in an instant
        lost = [future for future in futures if isinstance(future.exception(), BrokenExecutor)]
        for future in [future for future in futures if future not in lost]:
            self._take_future(future, futures, executor)
        running = lost if self._is_working and isinstance(executor, ProcessPoolExecutor) else []  # one for each worker
        for future in running:
            self._take(futures.pop(future), error)
        raise RuntimeError(
            "a worker of the executor was killed, perhaps for want of memory, and the executor is of no use any more; "
            f"the {len(running)} calls that were running have failed, the other points are pending; run again with a "
            "new executor"
        ) from error

    def _collect(self, futures: dict[Future[Any], int]) -> None:
        """Record the labels of calls that have been paid for; what else is wrong does not matter any more."""
        running = [future for future in futures if not future.cancel()]
        if n_awaited := sum(not future.done() for future in running):
            logger.warning("waiting for %d calls of the oracle; a second Ctrl-C gives them up", n_awaited)
        try:
            wait(running)
        finally:
            for future in running:
                if future.done() and future.exception() is None and not isinstance(future.result(), Exception):
                    with Uninterrupted():
                        self._take_if_possible(futures.pop(future), future.result())

    def _take_if_possible(self, number: int, result: object) -> None:
        try:
            self._take(number, result)
        except Exception as error:  # the error that ended the run is the one to raise
            logger.warning("the oracle's answer at %s is not recorded: %s", first_rows(self._inputs[number]), error)

    def _take(self, number: int, result: object) -> None:
        """Record an answer, or hold a failure back."""
        labels: ndarray | None = None
        if isinstance(result, BaseException):
            logger.warning("the oracle failed at %s: %r", first_rows(self._inputs[number]), result)
            self._error = result
        else:
            labels = self._check(result, n_rows(self._inputs[number]))
        self._is_working = self._is_working or (labels is not None and bool(self._has_label(labels).any()))
        self._failures.append((number, labels))
        while self._is_working and self._failures:
            self._record(*self._failures.pop(0))


def n_workers(executor: Executor | None) -> int:
    """How many calls an executor can run at a time, as far as that is known; otherwise very many."""
    is_known = isinstance(executor, ProcessPoolExecutor | ThreadPoolExecutor)
    return executor._max_workers if is_known else sys.maxsize  # type: ignore[union-attr]  # one of the two


def check_workers(executor: Executor | None, given_up: Sequence[Future[Any]]) -> None:
    """Refuse to make calls if all workers still hang in calls that were given up."""
    hanging = sum(not future.done() for future in given_up)
    if hanging >= n_workers(executor):
        raise RuntimeError(
            f"all {hanging} workers of the executor hang in calls that have failed; the other points are pending; run "
            "again with a new executor"
        )


def kill_hanging(executor: Executor | None, given_up: Sequence[Future[Any]]) -> None:
    """Kill the processes of an executor that has calls which hang: the end of one is the end of all."""
    hanging = sum(not future.done() for future in given_up)
    if hanging == 0 or not isinstance(executor, ProcessPoolExecutor):
        return
    logger.warning("%d calls of the oracle hang: the processes of their executor are killed; make a new one", hanging)
    kill_processes(executor)


def kill_processes(executor: ProcessPoolExecutor) -> None:
    """Kill the processes of an executor, whatever they do: it is of no use any more."""
    processes = list((executor._processes or {}).values())  # none are left after a shutdown
    manager: Any = executor._executor_manager_thread  # takes note of their end
    executor.shutdown(wait=False, cancel_futures=True)  # first, or calls that were cancelled would be in its way
    for process in processes:
        process.kill()
    if manager is not None:
        manager.join(KILLED_WITHIN)


def is_complete(labels: Float[ndarray, "n *label"]) -> Bool[ndarray, " n"]:
    """Which labels have nothing but finite numbers; the others are failures."""
    return np.asarray(np.isfinite(labels).reshape(len(labels), -1).all(axis=1))


def attempt(oracle: Oracle, X: Any, owner: int) -> Any:  # noqa: ANN401 - inputs or a table; labels or an exception
    """The oracle's answer, or what it raised; a worker whose campaign has died buys nothing more."""
    parent = multiprocessing.parent_process()
    # Of executors on other machines, where the number says nothing, the parent is another process.
    if parent is not None and parent.pid == owner and not _is_alive(owner):
        os._exit(1)
    try:
        return oracle(X)
    except NoWorkersError:
        raise
    except Exception as error:  # whatever a stranger's program raises is a failed label, not the campaign's end
        return error if os.getpid() == owner else _portable(error)


def _portable(error: Exception) -> Exception:
    """The error, if another process can read it: one that it cannot would end an executor with all calls in it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # of a stranger's class
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # workers end with their campaign there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
