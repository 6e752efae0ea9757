"""Workers that label configurations, in other processes or on other machines.

    with Workers(oracle, processes, 4, timeout=600.0) as workers:
        workers.run(learner, 500)

A call that raises, returns NaN, kills its worker or does not end in time is made once more, by another worker where its
own is lost; then it has failed. Where call after call fails, one that worked before is repeated: if that fails too, the
points are left as they are, and the run ends.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.learner import ActiveLearner
from lobal.active.oracles import Calls, NoWorkersError, Oracle, attempt, kill_processes
from lobal.core.checks import real_number, shown, whole_number
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.space import joined_labels

logger = logging.getLogger(__name__)

ExecutorFactory: TypeAlias = Callable[[], Executor]
Record: TypeAlias = Callable[[int, list[float] | None], None]

ATTEMPTS = 2  # of every call
# Attempts of each worker that fail one after the other, none between them having an answer, before it is asked whether
# the workers are of any use. Where a tenth of all configurations fail, one of 10^5 begins such a row.
PATIENCE = 10
# Seconds beyond the time-out after which a call is given up whose worker ends itself after the time-out: it may first
# have to wait for its worker, and the worker to import lobal. Until the worker has ended, it may be sent other calls.
GRACE = 60.0
# Where a worker is forked from a process that has imported lobal, not from this one, whose threads may hold locks.
PRELOADED = ["lobal.molecules.dynamics.workers", "lobal.molecules.oracles"]


@final
class Workers:
    """An oracle that has its calls made by workers, which are replaced where they die or hang.

    Args:
        oracle: returns energies (m,) in eV and forces (m, N, 3) in eV / Angstrom of positions (m, N, 3) in Angstrom.
        make_executor: makes an executor for the calls of one worker, such as `processes`, or, with a Dask client,
            `partial(client.get_executor, pure=False)`; without it, calls are made in this process.
        number: how many workers there are; with Dask, the number of the cluster's threads.
        timeout: seconds that a call may take. The worker of a call that takes longer is killed, if it is a process.

    Raises:
        TypeError: there is an executor in place of a function that makes one.
        ValueError: there are several workers or a time-out, but calls are made in this process.
    """

    def __init__(
        self,
        oracle: Oracle,
        make_executor: ExecutorFactory | None = None,
        number: int = 1,
        *,
        timeout: float | None = None,
    ) -> None:
        whole_number("the number of workers", number, least=1)
        if timeout is not None:
            timeout = real_number("timeout", timeout, above=0.0, hint="give a number of seconds")
        if not (make_executor is None or callable(make_executor)):
            raise TypeError(
                "make_executor must be a function that returns an executor, a new one for each worker, such as "
                f"processes, got {shown(make_executor)}"
            )
        if make_executor is None and (number > 1 or timeout is not None):
            raise ValueError(
                f"{number} workers and timeout={timeout} need make_executor, such as lobal.molecules.dynamics.workers."
                "processes: a call in this process can neither be given up nor made beside another"
            )
        self.oracle, self._make, self._timeout = oracle, make_executor, timeout
        # One thread waits for each worker.
        self._threads = None if make_executor is None else ThreadPoolExecutor(number, "worker")
        self._most_failures = PATIENCE * number
        self._own = threading.local()  # the thread's worker
        self._workers: list[_Worker] = []  # of all threads
        self._lock = threading.Lock()
        self._failures = 0  # attempts since the last answer
        self._known_good: ndarray | None = None  # a configuration that had a label

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, calls that hang included."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()

    def run(self, learner: ActiveLearner, size: int) -> None:
        """Ask for points up to that number of labels and have them labelled, whatever becomes of the workers.

        Raises:
            RuntimeError: all points of a batch failed, or no worker is of use; the points are pending.
        """
        learner.run(self, sizes=[size], executor=self._threads, points_per_call=1)

    def label(self, R: Positions, *, record: Record | None = None) -> Float[Tensor, "n w"]:
        """Energies and forces as rows; NaN where a configuration has failed.

        `record` takes the number of a configuration and its row, or none where it has failed, as soon as that is known.

        Raises:
            RuntimeError: no worker is of use.
        """
        rows = np.full((len(R), 1 + R[0].numel()), np.nan)

        def take(call: int, labels: ndarray | None) -> None:
            is_label = labels is not None and bool(np.isfinite(labels).all())
            if labels is not None and is_label:
                rows[call] = labels[0]
            if record is not None:
                record(call, rows[call].tolist() if is_label else None)

        check = partial(_checked, n_atoms=R.shape[1])
        Calls(self, [each[None] for each in R.numpy()], check=check, record=take, is_working=True).run(self._threads)
        return torch.from_numpy(rows)

    def __call__(self, R: Float[ndarray, "m N 3"]) -> Any:  # noqa: ANN401 - what the oracle returns
        """The oracle's labels, by this thread's worker.

        Raises:
            NoWorkersError: no worker is of use.
            Exception: what the oracle raised, both times.
        """
        answer: Any = None
        for left in reversed(range(ATTEMPTS)):
            answer = self._attempt(R)
            if not has_failed(answer):
                return self._noted(R, answer)
            self._note_failure(answer)
            if left:
                logger.warning("%s; trying again", reason_of(answer))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _attempt(self, R: ndarray) -> Any:  # noqa: ANN401 - labels, or what was raised
        """What the oracle returned or raised, or why there is no answer."""
        if self._make is None:
            return attempt(self.oracle, R, os.getpid())
        try:
            return self._worker(self._make).answer(self.oracle, R, self._timeout)
        except LostWorkerError as error:
            return error

    def _worker(self, make: ExecutorFactory) -> "_Worker":
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = _Worker(make)
            with self._lock:
                self._workers.append(worker)
        return worker

    def _noted(self, R: ndarray, answer: Any) -> Any:  # noqa: ANN401 - labels
        """The answer, after which failures are counted anew."""
        with self._lock:
            self._failures = 0
            if self._known_good is None:
                self._known_good = R.copy()
        return answer

    def _note_failure(self, answer: Any) -> None:  # noqa: ANN401 - labels, or what was raised
        """Raise a NoWorkersError if so many calls have failed that the oracle itself does not work any more."""
        with self._lock:
            self._failures += 1
            if self._failures < self._most_failures:
                return
            known_good = self._known_good
        if known_good is None or has_failed(self._attempt(known_good)):
            once = "never worked since this process began" if known_good is None else "worked before and fails now too"
            raise NoWorkersError(
                f"{self._failures} attempts failed one after the other, and a call that {once}; the last one: "
                f"{reason_of(answer)}. Points without a label are pending, all labels are kept: mend the oracle or its "
                "workers, and run again"
            )
        with self._lock:
            self._failures = 0


@final
class LostWorkerError(RuntimeError):
    """A worker died or was given up, without an answer."""


@final
class _Worker:
    """The executor of one call at a time, and another in its place where it is of no use any more."""

    def __init__(self, make: ExecutorFactory) -> None:
        self._make = make
        self._executor: Executor | None = None
        self._future: Future[Any] | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def answer(self, oracle: Oracle, R: ndarray, timeout: float | None) -> Any:  # noqa: ANN401 - labels or an error
        """What the oracle returned, or the exception that it raised.

        Raises:
            LostWorkerError: there is no answer.
            NoWorkersError: the worker was closed.
        """
        try:
            if self._executor is None:
                self._begin()
            if timeout is None or isinstance(self._executor, ProcessPoolExecutor | ThreadPoolExecutor):
                return self._await(attempt, oracle, R, os.getpid(), patience=timeout)
            return self._await(_attempt_within, timeout, oracle, R, os.getpid(), patience=timeout + GRACE)
        except (Exception, SystemExit) as error:  # of any executor; or the oracle has called sys.exit
            self._dismiss()
            if self._is_closed:
                raise NoWorkersError("the workers were closed; open others") from error
            is_late = isinstance(error, TimeoutError)
            reason = f"no answer within {timeout} s" if is_late else f"its worker is lost: {reason_of(error)}"
            raise LostWorkerError(reason) from error

    def _begin(self) -> None:
        """Wait for a worker, however long it takes. If it dies before it has a call, that is not the call's fault."""
        for left in reversed(range(ATTEMPTS)):
            try:
                self._await(os.getpid)
                return
            except Exception:
                if self._is_closed or not left:
                    raise
                self._dismiss()

    def _await(self, call: Callable[..., Any], *arguments: Any, patience: float | None = None) -> Any:  # noqa: ANN401
        with self._lock:
            if self._is_closed:
                raise NoWorkersError
            self._executor = self._executor or self._make()
            self._future = future = self._executor.submit(call, *arguments)
        result = future.result(patience)
        with self._lock:
            self._future = None  # Dask makes a call again whose worker dies while anybody has its future
        return result

    def close(self) -> None:
        """Give the call up that is running, if there is one."""
        self._is_closed = True
        self._dismiss()

    def _dismiss(self) -> None:
        """Let the executor go, with a call that may hang."""
        with self._lock:
            executor, self._executor = self._executor, None
            future, self._future = self._future, None
        if future is not None:
            future.cancel()
        if isinstance(executor, ProcessPoolExecutor):
            kill_processes(executor)
        elif executor is not None:
            executor.shutdown(wait=False)


def _attempt_within(timeout: float, oracle: Oracle, R: ndarray, owner: int) -> Any:  # noqa: ANN401 - as of `attempt`
    """The oracle's answer, or what it raised, in a worker that cannot be killed from here, as on another machine.

    It ends itself after that time, unless it is a thread of the campaign's process.
    """
    if os.getpid() == owner:
        return attempt(oracle, R, owner)
    clock = threading.Timer(timeout, os._exit, [1])
    clock.daemon = True
    clock.start()
    try:
        return attempt(oracle, R, owner)
    finally:
        clock.cancel()


def has_failed(answer: object) -> bool:
    """Whether an answer is an exception, or labels that are not finite; wrong shapes are the caller's to see."""
    if isinstance(answer, Exception):
        return True
    try:
        parts = [np.asarray(part, dtype=np.float64) for part in (answer if isinstance(answer, tuple) else (answer,))]
    except (TypeError, ValueError):
        return False
    return not all(np.isfinite(part).all() for part in parts)


def reason_of(answer: object) -> str:
    """Why an attempt failed, in one line."""
    named = f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else "the labels are not finite"
    return " ".join(named.split())


def processes() -> Executor:
    """One process for calls of an oracle.

    It has one thread, whatever OMP_NUM_THREADS says of this process: two processes with two threads on two cores wait
    for each other a thousand times as long as they compute. Ctrl-C is this process's to see, and where this process is
    killed it ends.
    """
    return ProcessPoolExecutor(1, mp_context=_context(), initializer=_begin_worker)


def _context() -> Any:  # noqa: ANN401 - of one of several kinds
    """How processes begin: afresh, since a fork would have a copy of this one's threads' locks."""
    if sys.platform != "linux":  # frameworks of macOS must not be used after a fork; Windows has none
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _begin_worker() -> None:
    os.environ.pop("OMP_NUM_THREADS", None)  # calculations then limit themselves: molecules.single_thread
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process where its parent has ended: what it computes has no reader."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _checked(labels: object, n: int, *, n_atoms: int) -> Float[ndarray, "n w"]:
    return joined_labels(labels, (n, n_atoms), name="the oracle's labels")
