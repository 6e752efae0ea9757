"""Labels of all pending points of a campaign from an oracle, each recorded as soon as it arrives."""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from numpy import ndarray

from lobal.active.campaign.state import CampaignState
from lobal.active.oracles import Calls, Oracle


def label_pending(
    state: CampaignState,
    oracle: Oracle,
    *,
    executor: Executor | None,
    points_per_call: int,
    timeout: float | None,
    show: Callable[[], None],
) -> None:
    """Call the oracle, not holding the lock, and record every answer; `show` is called before and after each."""
    with state.lock:
        numbers = state.ledger.pending
        parts = [numbers[i : i + points_per_call] for i in range(0, len(numbers), points_per_call)]
        inputs = [state.model_inputs(part) for part in parts]
        is_working = bool(state.ledger.has_label(state.ledger.last_batch).any())  # before the run was interrupted

    def record(call: int, labels: ndarray | None) -> None:
        with state.lock:
            if labels is None:
                state.fail(parts[call])
            else:
                state.tell(parts[call], labels)
        show()

    show()
    check = partial(state.candidates.labels, name="the oracle's labels")
    calls = Calls(oracle, inputs, check=check, record=record, is_working=is_working)
    calls.run(executor, timeout=timeout)
