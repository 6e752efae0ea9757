"""One thread at a time, and Ctrl-C that waits until an event is whole."""

import signal
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, final, runtime_checkable

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@runtime_checkable
class Owner(Protocol):
    """What has a state that one thread at a time may use: with a `lock`, and `check_whole`."""

    _state: Any


OwnerType = TypeVar("OwnerType", bound=Owner)


def exclusive(
    method: Callable[Concatenate[OwnerType, Arguments], Result],
) -> Callable[Concatenate[OwnerType, Arguments], Result]:
    """The method, which one thread at a time runs; others wait."""

    @wraps(method)
    def alone(owner: OwnerType, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with owner._state.lock:
            owner._state.check_whole()
            return method(owner, *arguments, **options)

    return alone


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
