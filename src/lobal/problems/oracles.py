"""Calling an oracle, which is somebody else's program and may fail."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from typing import Any

from jaxtyping import Float
from numpy import ndarray

from lobal.problems.spaces import Oracle


def labels_as_they_come(
    oracle: Oracle, calls: Sequence[Float[ndarray, "_ d"]], executor: Executor | None
) -> Iterator[tuple[int, Any]]:
    """The number of each call and what came back, labels or an exception, in the order they come.

    Without an executor the calls run one after the other. Calls that have not begun are cancelled when the caller
    stops listening, so that Ctrl-C does not wait for labels nobody will take.
    """
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
