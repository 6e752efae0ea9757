"""Ctrl-C that waits until something is whole."""

import signal
import threading
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, final


@final
class Uninterrupted:
    """A block that Ctrl-C does not cut in two: the signal is handled at its end. Blocks may be nested.

    Python runs handlers of signals in the main thread only, so that blocks in other threads need nothing. The handler
    is exchanged by one call, before which nothing of the block has happened, and after which all of it has.
    """

    def __init__(self) -> None:
        self._handler: Any = None  # None: nothing was exchanged
        self._is_due = False

    def __enter__(self) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._postpone)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._is_due:
                self._handler(signal.SIGINT, None)

    def _postpone(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_due = True


def import_whole(name: str) -> None:
    """Import a module that Ctrl-C does not cut in two: some cannot be imported again after half an import."""
    with Uninterrupted():
        import_module(name)


def prepare_optimisers() -> None:
    """Import what torch imports at its first optimiser, seconds that Ctrl-C would otherwise cut in two."""
    import_whole("torch._dynamo")
