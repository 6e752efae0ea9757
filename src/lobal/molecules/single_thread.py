"""One thread for the libraries of a program, while calculations run."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
        self._blas = ExitStack()
        self._controller: Any = None

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
        with controller.limit(limits=1, user_api="openmp"):
            self._begin(controller)
            try:
                yield
            finally:
                self._end()

    def _begin(self, controller: Any) -> None:  # noqa: ANN401 - threadpoolctl has no types
        with self._lock:
            if self._running == 0:
                self._blas.enter_context(controller.limit(limits=1, user_api="blas"))
            self._running += 1

    def _end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._blas.close()
