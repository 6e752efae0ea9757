"""Ctrl-C at every line of the bookkeeping, and going on in the same process."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from lobal import ActiveLearner
from lobal.active import learner as learner_module
from lobal.core import interrupts
from tests.faults.counting import counted, is_long
from tests.faults.disk import Disk
from tests.faults.setting import X, begun, label, state_of

OTHERS = [1, 2]  # that nobody asks for
ROOM = str(Path(learner_module.__file__).parent), interrupts.__file__


class InterruptedAt:
    """Presses Ctrl-C at one line that is run in the room of the learner, or raises an exception there."""

    def __init__(self, place: int, error: BaseException | None = None) -> None:
        self.place, self.error, self.lines = place, error, 0

    def __call__(self, work: Callable[[], Any]) -> None:
        sys.settrace(self._trace)
        try:
            work()
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.place + 1:
                if self.error is not None:
                    raise self.error
                signal.raise_signal(signal.SIGINT)
        return self._trace


def prepared(folder: Path | None) -> ActiveLearner:
    active = begun(folder)
    batch = active.ask(12)
    active.tell(batch, label(X[batch]))
    active.ask(3)
    return active


WORKS: dict[str, Callable[[ActiveLearner], Any]] = {
    "ask": lambda active: active.ask(4),
    "tell": lambda active: active.tell(active.pending, [1.0, np.nan, 3.0]),
    "tell others": lambda active: active.tell(OTHERS, [1.0, 2.0]),
    "expect": lambda active: active.expect(OTHERS),
    "give up": lambda active: active.give_up(),
    "undo": lambda active: active.undo(),
    "run": lambda active: active.run(label, sizes=[16], points_per_call=1),
}


def assert_same_on_disk(active: ActiveLearner, folder: Path) -> None:
    assert state_of(ActiveLearner.read(folder)) == state_of(active)


@pytest.mark.parametrize("name", WORKS)
def test_after_ctrl_c_at_any_line_the_process_goes_on_as_the_disk_does(name: str, tmp_path: Path) -> None:
    work, step = WORKS[name], 1 if is_long() else 23
    for place in range(0, 100_000, step):
        folder, interrupt = tmp_path / str(place), InterruptedAt(place)
        folder.mkdir()
        with Disk(folder).in_use(), prepared(folder / "campaign") as active:
            before = state_of(active)
            try:
                interrupt(lambda: work(active))
            except KeyboardInterrupt:
                counted("interrupted lines")
            assert_same_on_disk(active, folder / "campaign")
            if name == "tell others" and state_of(active) != before:
                assert not {*OTHERS} & {*active.pending.tolist()}
            if name in (
                "ask",
                "tell",
                "tell others",
            ):  # events that belong together: all or none
                after = state_of(active)
                if after == before:
                    work(active)
                    assert state_of(active) != before
            active.tell(active.ask(2), [0.5, 0.6])
            assert_same_on_disk(active, folder / "campaign")
        if interrupt.lines <= place:
            break
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("name", ["ask", "tell", "give up"])
@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "in memory"])
def test_what_cannot_be_deferred_loses_nothing_and_is_noticed(name: str, is_saved: bool, tmp_path: Path) -> None:
    """As after a memory error: either nothing has happened, or the learner goes on, or it says how to go on."""
    refusals = 0
    for place in range(0, 100_000, 1 if is_long() else 11):
        folder, interrupt = tmp_path / str(place), InterruptedAt(place, MemoryError("none left"))
        folder.mkdir()
        with Disk(folder).in_use():
            active = prepared(folder / "campaign" if is_saved else None)
            told = active.labelled.y.tolist()
            try:
                interrupt(lambda: WORKS[name](active))  # noqa: B023
            except MemoryError:
                counted("interrupted lines")
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the error may have come before it was set back
            try:
                active.tell(active.ask(2), [0.5, 0.6])
                told += [0.5, 0.6]
            except RuntimeError as error:
                refusals += 1
                if not any(words in str(error) for words in ("was cut short", "is not as it was left")):
                    raise
                if not is_saved:
                    active.save(folder / "campaign")
            active.close()
            if is_saved or (folder / "campaign").exists():
                with ActiveLearner.load(folder / "campaign") as again:
                    assert set(told) <= set(again.labelled.y.tolist())
                    again.ask(2)
        if interrupt.lines <= place:
            break
    assert refusals > 0 or not is_long()
