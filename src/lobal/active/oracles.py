"""Calling an oracle, which is somebody else's program and may fail."""

import logging
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import closing
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.active.spaces import Oracle

logger = logging.getLogger(__name__)


def labels_as_they_come(
    oracle: Oracle, calls: Sequence[Float[ndarray, "_ d"]], executor: Executor | None
) -> Iterator[tuple[int, Float[ndarray, " _"]]]:
    """The number of each call and its labels, in the order they come; NaN where the oracle raised.

    Without an executor the calls run one after the other. Calls that have not begun are cancelled when the caller
    stops listening, so that Ctrl-C does not wait for labels nobody will take. Failures before the first label are held
    back until there is one: until then the oracle itself may be broken.

    Raises:
        RuntimeError: there is not a single label.
        ValueError: the oracle returned something other than one label for each input.
    """
    failures: list[tuple[int, Float[ndarray, " _"]]] = []
    error: Exception | None = None
    is_working = False
    with closing(_results(oracle, calls, executor)) as results:
        for number, result in results:
            if isinstance(result, Exception):
                logger.warning("the oracle failed at %s: %r", calls[number].tolist(), result)
                error, labels = result, np.full(len(calls[number]), np.nan)
            else:
                labels = _checked(result, len(calls[number]))
            is_working = is_working or bool(np.isfinite(labels).any())
            failures.append((number, labels))
            if is_working:
                yield from failures
                failures = []
    if failures:
        raise RuntimeError(
            f"the oracle failed at all {sum(map(len, calls))} points; none is given up: mend it and run again or, to "
            "do without them, learner.tell(learner.pending, [math.nan] * len(learner.pending))"
        ) from error


def as_labels(values: Any, *, name: str) -> Float[ndarray, "..."]:  # noqa: ANN401 - array-likes of any kind are welcome
    """The values as numbers, whatever their shape; None and NaN are labels that are missing."""
    try:
        return np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, NaN where there is none, got {values!r}: {error}") from error


def _checked(result: Any, number: int) -> Float[ndarray, " _"]:  # noqa: ANN401 - whatever an oracle returns
    labels = as_labels(result, name="the oracle's labels")
    if labels.shape != (number,):
        raise ValueError(
            f"the oracle was given {number} points and has to return labels of shape ({number},), got {labels.shape}"
        )
    return labels


def _results(
    oracle: Oracle, calls: Sequence[Float[ndarray, "_ d"]], executor: Executor | None
) -> Generator[tuple[int, Any]]:
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


def _attempt(oracle: Oracle, X: Float[ndarray, "_ d"]) -> Any:  # noqa: ANN401 - labels or an exception
    try:
        return oracle(X)
    except Exception as error:  # whatever a stranger's program raises is a failed label, not the campaign's end
        return error
