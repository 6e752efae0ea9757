"""Calling an oracle, which is somebody else's program and may fail."""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import closing
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

logger = logging.getLogger(__name__)

# Labels of points given by their model inputs: for arrays, numbers (m,) of inputs (m, d).
Oracle: TypeAlias = Callable[[ndarray], Any]
# The checked labels of so many points, from whatever an oracle returned.
Check: TypeAlias = Callable[[Any, int], ndarray]


def labels_as_they_come(
    oracle: Oracle, calls: Sequence[ndarray], executor: Executor | None, check: Check
) -> Iterator[tuple[int, ndarray | None]]:
    """The number of each call and its labels, in the order they come; none where the oracle raised.

    Without an executor the calls run one after the other. Calls that have not begun are cancelled when the caller
    stops listening, so that Ctrl-C does not wait for labels nobody will take. Failures before the first label are held
    back until there is one: until then the oracle itself may be broken.

    Raises:
        RuntimeError: there is not a single label.
        ValueError: the oracle returned something other than one label for each input.
    """
    failures: list[tuple[int, ndarray | None]] = []
    error: Exception | None = None
    is_working = False
    with closing(_results(oracle, calls, executor)) as results:
        for number, result in results:
            labels: ndarray | None = None
            if isinstance(result, Exception):
                logger.warning("the oracle failed at %s: %r", calls[number].tolist(), result)
                error = result
            else:
                labels = check(result, len(calls[number]))
            is_working = is_working or (labels is not None and bool(is_complete(labels).any()))
            failures.append((number, labels))
            if is_working:
                yield from failures
                failures = []
    if failures:
        raise RuntimeError(
            f"the oracle failed at all {sum(map(len, calls))} points; none is given up: mend it and run again or, to "
            "do without them, learner.give_up()"
        ) from error


def as_labels(values: Any, *, name: str) -> Float[ndarray, "..."]:  # noqa: ANN401 - array-likes of any kind are welcome
    """The values as numbers, whatever their shape; None and NaN are labels that are missing."""
    try:
        return np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, NaN where there is none, got {values!r}: {error}") from error


def is_complete(labels: Float[ndarray, "n *label"]) -> Bool[ndarray, " n"]:
    """Which labels have nothing but finite numbers; the others are failures."""
    return np.asarray(np.isfinite(labels).reshape(len(labels), -1).all(axis=1))


def _results(oracle: Oracle, calls: Sequence[ndarray], executor: Executor | None) -> Generator[tuple[int, Any]]:
    if executor is None:
        yield from ((number, _attempt(oracle, X)) for number, X in enumerate(calls))
        return
    futures = {executor.submit(_attempt, oracle, X): number for number, X in enumerate(calls)}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _attempt(oracle: Oracle, X: ndarray) -> Any:  # noqa: ANN401 - labels or an exception
    try:
        return oracle(X)
    except Exception as error:  # whatever a stranger's program raises is a failed label, not the campaign's end
        return error
