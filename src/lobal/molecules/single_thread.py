"""One thread for the libraries of a program, while calculations run."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@final
class SingleThread:
    """Limits OpenMP and BLAS to one thread during calculations, unless OMP_NUM_THREADS says otherwise.

    Several threads may calculate at the same time. Those of OpenMP are limited for each, those of BLAS for the process
    as a whole: until the last calculation has ended, when it has as many again as the models of the learner had.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._controller: Any = None
        self._blas: Any = None  # the libraries that are limited, and the limit
        self._limit: Any = None

    def look_for_libraries(self) -> None:
        """Look for the libraries that have been loaded by now; a millisecond or two."""
        self._controller = ThreadpoolController()

    @contextmanager
    def calculation(self) -> Iterator[None]:
        """One thread, from here to the end of the calculation."""
        if "OMP_NUM_THREADS" in os.environ:
            yield
            return
        controller = self._controller
        # Of these libraries alone: at its end, a limit sets all libraries of its controller to what they had.
        with controller.select(user_api="openmp").limit(limits=1):
            self._begin(controller)
            try:
                yield
            finally:
                self._end()

    def _begin(self, controller: Any) -> None:  # noqa: ANN401 - threadpoolctl has no types
        with self._lock:
            if self._running == 0:
                self._blas = controller.select(user_api="blas")
                with _from_any_thread(self._blas):
                    self._limit = self._blas.limit(limits=1)
            self._running += 1

    def _end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                with _from_any_thread(self._blas):
                    self._limit.restore_original_limits()


@contextmanager
def _from_any_thread(libraries: Any) -> Iterator[None]:  # noqa: ANN401 - threadpoolctl has no types
    """Let this thread set numbers of threads.

    Since version 3.8, threadpoolctl leaves OpenBLAS to the thread that has set them first, and passes over all others.
    """
    try:
        _let_go(libraries)
        yield
    finally:
        _let_go(libraries)


def _let_go(libraries: Any) -> None:  # noqa: ANN401 - threadpoolctl has no types
    for library in libraries.lib_controllers:
        let_go = getattr(library, "clear_controlling_thread", None)
        if let_go is not None:
            let_go(force=True)
