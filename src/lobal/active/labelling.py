"""Labels of all pending points of a campaign from an oracle, each recorded as soon as it arrives."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, final

from numpy import ndarray

from lobal.active.campaign.state import CampaignState
from lobal.active.oracles import Calls, Oracle, check_workers, kill_hanging
from lobal.core.checks import real_number, whole_number


@final
class Labelling:
    """How a run has points labelled, checked; `ActiveLearner.run` says what the options mean.

    Raises:
        TypeError, ValueError: an option is of the wrong kind or out of range.
    """

    def __init__(
        self,
        state: CampaignState,
        oracle: Oracle,
        *,
        executor: Executor | None,
        points_per_call: int | None,
        timeout: float | None,
    ) -> None:
        if not callable(oracle):
            raise TypeError(f"oracle must be a function of inputs (m, d) that returns labels (m,), got {oracle!r}")
        if timeout is not None and executor is None:
            raise ValueError(f"timeout={timeout!r} needs an executor: a call of this process itself cannot be given up")
        if timeout is not None:
            timeout = real_number("timeout", timeout, above=0.0, hint="give a number of seconds")
        if points_per_call is None and (executor is not None or state.is_saved):
            points_per_call = 1
        if points_per_call is not None:
            points_per_call = whole_number("points_per_call", points_per_call, least=1)
        self._state, self._oracle, self._executor = state, oracle, executor
        self._points_per_call, self._timeout = points_per_call, timeout  # None: the whole batch, and any time
        self._given_up: list[Future[Any]] = []

    def label_pending(self, show: Callable[[], None]) -> None:
        """Call the oracle, not holding the lock, and record every answer; `show` is called before and after each."""
        state = self._state
        with state.lock:
            numbers = state.ledger.pending
            n = self._points_per_call or len(numbers)
            parts = [numbers[i : i + n] for i in range(0, len(numbers), n)]
            inputs = [state.oracle_inputs(part) for part in parts]
            points = [state.points(part) for part in parts]  # numbers may be those of others once a step was undone
            is_working = state.is_answered  # before the run was interrupted

        def record(call: int, labels: ndarray | None) -> None:
            with state.lock:
                is_same = state.has(parts[call], points[call])
                if labels is None:
                    state.fail(parts[call] if is_same else state.known(points[call]))
                elif is_same:
                    state.tell(parts[call], labels)
                else:
                    state.tell_points(points[call], labels)
            show()

        show()
        check = partial(state.candidates.labels, name="the oracle's labels")
        calls = Calls(
            self._oracle,
            inputs,
            check=check,
            record=record,
            is_working=is_working,
            has_label=state.candidates.has_label,
        )
        check_workers(self._executor, self._given_up)
        try:
            calls.run(self._executor, timeout=self._timeout)
        finally:
            self._given_up += calls.given_up

    def __enter__(self) -> None:
        """Nothing has been given up yet."""

    def __exit__(self, *_: object) -> None:
        """Kill processes that hang, which nothing else would end."""
        kill_hanging(self._executor, self._given_up)
