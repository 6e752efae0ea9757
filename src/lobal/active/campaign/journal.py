"""An append-only file of events, one JSON object a line, that survives a crash at any instant."""

import contextlib
import json
import logging
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np

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
    """The events as lines of a journal, checked to be what JSON can hold, without NaN and infinity."""
    lines = (json.dumps(plain(event, "event", finite=True), allow_nan=False) for event in events)
    return "".join(f"{line}\n" for line in lines).encode()


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


def plain(
    value: Any,  # noqa: ANN401 - whatever may hold numbers
    name: str,
    *,
    finite: bool,
) -> Any:  # noqa: ANN401 - what JSON knows
    """`value` as JSON holds it: arrays and tuples become lists, NumPy's numbers Python's, nothing is rounded.

    Errors call it `name`. NaN and infinity are refused where numbers must be `finite`.
    """
    match value:
        case np.ndarray() | np.generic():
            items = value.tolist()
            if isinstance(items, np.generic):  # long double, for which Python has no type
                raise TypeError(f"{name} is of type {type(value).__name__}, which JSON cannot hold; make it a float")
            return plain(items, name, finite=finite)
        case float():
            if finite and not math.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}; leave it out or give None")
            return value
        case None | bool() | int() | str():
            return value
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise TypeError(f"the keys of {name} must be strings, got {list(value)}")
            return {str(key): plain(item, f"{name}[{key!r}]", finite=finite) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, f"{name}[{i}]", finite=finite) for i, item in enumerate(value)]
    raise TypeError(
        f"{name} is of type {type(value).__name__}, which JSON cannot hold; give numbers, strings, arrays, lists or "
        "dictionaries of them"
    )
