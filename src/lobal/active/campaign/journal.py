"""An append-only file of events, one JSON object a line, that survives a crash at any instant."""

import contextlib
import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np

from lobal.core.checks import shown

logger = logging.getLogger(__name__)

SHOWN = 200  # bytes of a dropped line that the warning quotes


@final
class Journal:
    """The events in a file, in order, open for more.

    A last line that a crash left torn is cut off. Nobody else may write to the file meanwhile.
    """

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.events, self._length = parse_journal(content, path)
        self._file = path.open("r+b", buffering=0)
        if self._length < len(content):
            dropped = content[self._length :]
            logger.warning("%s: dropped its last line, left incomplete by a crash: %r", path, dropped[:SHOWN])
            self._cut()
            os.fsync(self._file.fileno())

    def append(self, event: dict[str, Any]) -> None:
        """Add an event; it is on disk when this returns, and not in the journal if this raises."""
        line = journal_content([event])
        written = _event(line)
        self._cut()  # of what an append that failed may have left
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                self._cut()
            raise
        self._length += len(line)
        self.events.append(written)

    def close(self) -> None:
        """Close the file; the events stay."""
        self._file.close()

    def _cut(self) -> None:
        self._file.truncate(self._length)
        self._file.seek(self._length)


def journal_content(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as lines of a journal; NaN and infinity are refused."""
    return "".join(f"{json.dumps(event, allow_nan=False, default=listed)}\n" for event in events).encode()


def parse_journal(content: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """The events in a journal's content and the bytes they take, the rest being a torn last line.

    Every event is on disk before the next is written, so a crash can spoil none but the last line. It is torn if its
    newline is missing, and if the newline came to disk before what precedes it.

    Raises:
        ValueError: a line before the last is not an event; names `path` and the line.
    """
    *lines, torn = content.split(b"\n")
    events: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            events.append(_event(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not torn:
                return events, len(content) - len(line) - 1
            raise ValueError(
                f"{path}, line {number} is not an event: {error}; restore the file from a copy or repair the line"
            ) from error
    return events, len(content) - len(torn)


def _event(line: bytes) -> dict[str, Any]:
    event = json.loads(line.decode(), parse_constant=_not_a_number)
    if not isinstance(event, dict):
        raise ValueError(f"expected a JSON object, got {type(event).__name__}")
    return event


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"expected finite numbers, got {text}")


def listed(value: Any) -> Any:  # noqa: ANN401 - what JSON knows
    """NumPy's arrays and numbers as lists and numbers of Python, for `json.dumps`."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"JSON cannot hold {shown(value)}; give numbers, strings, arrays, lists or dictionaries of them")
