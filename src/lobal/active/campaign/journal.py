"""An append-only file of events, one JSON object a line, that survives a crash at any instant and notices damage.

A line is `{"seq": 3, "event": "told", ..., "check": "9f1c22d0a8b3e417"}`: its number, the event, and a hash of all that
stands before the check. Lines of earlier versions have neither number nor check.
"""

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from lobal.core.checks import shown
from lobal.core.files import NO_LINK, explain, open_plain, write_all, write_atomically

logger = logging.getLogger(__name__)

SHOWN = 200  # bytes of a dropped line that the warning quotes
MOST_QUOTED = 4096  # bytes of an event that an error message quotes; of labels, which may have been paid for, all
SEQ, CHECK = "seq", "check"
NOTHING: Mapping[str, Any] = MappingProxyType({})
CHECK_BYTES = 8  # of the hash
CHECK_LENGTH = len(f', "{CHECK}": ""}}') + 2 * CHECK_BYTES  # characters at the end of a line


@final
class Journal:
    """The events in a file, in order, open for more.

    A last line that a crash left torn is cut off. Nobody else may write to the file meanwhile: before each event its
    name, length and links are compared with what this object left, and what another wrote is never cut.

    Raises:
        ValueError: a line is damaged, doubled or missing.
    """

    def __init__(self, path: Path, *, is_checked: bool) -> None:
        self._path, self._left = path, b""  # bytes that an append which failed may have left at the end
        # Every write goes to the end, wherever that is by then. The file is closed with this object, if not before.
        self._handle = open_plain(path, os.O_RDWR | os.O_APPEND | NO_LINK)
        try:
            self._handle.seek(0)
            content = self._handle.read()
            self.events, self._length = parse_journal(content, path, is_checked=is_checked)
            self._mend(content)
        except BaseException:
            self._handle.close()
            raise

    def _mend(self, content: bytes) -> None:
        """Cut off a torn last line, or complete one of which only the newline is missing."""
        if self._length < len(content):
            self._left = content[self._length :]
            logger.warning("%s: dropped its last line, left incomplete by a crash: %r", self._path, self._left[:SHOWN])
            self._cut()
        elif content and not content.endswith(b"\n"):
            self._write(b"\n")
            self._length += 1

    def append(self, event: dict[str, Any], following: Mapping[str, Any] = NOTHING) -> None:
        """Add an event; it is on disk when this returns, and not in the journal if this raises.

        If it is refused, what was to be recorded after it, `following`, is kept with it.

        Raises:
            RuntimeError: another process has changed the file; the event is kept beside it, or in the message.
            OSError: the disk is full or broken.
        """
        line = journal_content([event], first=len(self.events))
        written = _checked(line[:-1], len(self.events))
        lost = line + (json.dumps(following, default=listed).encode() + b"\n" if following else b"")
        self.check(lost)
        self._write(line, quoted=lost if "labels" in (*event, *following) else lost[:MOST_QUOTED])
        if os.fstat(self._file).st_size != self._length + len(line):
            self._refuse("another process wrote to it at the same time", lost)
        self.events.append(written)
        self._length += len(line)  # last: where something comes between, the next event is refused

    def check(self, lost: bytes = b"") -> None:
        """Refuse to go on if the file is not as this object left it; names what is lost by that."""
        self._cut()
        ours = os.fstat(self._file)
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            self._refuse("it was removed, or its folder was removed or renamed", lost)
        if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino) or ours.st_nlink == 0:
            self._refuse("another file has taken its name, as when an editor saves it", lost)
        if ours.st_size != self._length:
            self._refuse(f"it has {ours.st_size} bytes in place of {self._length}: another process writes to it", lost)

    def close(self) -> None:
        """Close the file; the events stay."""
        self._handle.close()

    @property
    def _file(self) -> int:
        return self._handle.fileno()

    def _write(self, line: bytes, *, quoted: bytes = b"") -> None:
        try:
            write_all(self._file, line)
            os.fsync(self._file)
        except BaseException as error:
            self._left = line
            with contextlib.suppress(OSError):
                self._cut()
            state = f"the event is not recorded: {quoted.decode(errors='replace').strip()}"
            explain(error, self._path, state, otherwise="repeat the call, or go on with a copy on another disk")
            raise

    def _cut(self) -> None:
        """Remove what an append that failed, or a crash, left at the end, if it is that and nothing else."""
        if not self._left:
            return
        tail = os.pread(self._file, len(self._left) + 1, self._length)
        if tail and self._left.startswith(tail):
            os.ftruncate(self._file, self._length)
            os.fsync(self._file)
        self._left = b""

    def _refuse(self, reason: str, lost: bytes) -> NoReturn:
        advice = "close all programs that use the campaign and load it again"
        if not lost:
            raise RuntimeError(f"{self._path} is not as it was left: {reason}; {advice}")
        beside = self._path.with_name(f"unrecorded-{secrets.token_hex(4)}.json")
        try:
            write_atomically(beside, lost)
            kept = f"is kept in {beside}"
        except OSError:
            kept = f"is {lost.decode().strip()}"
        raise RuntimeError(
            f"{self._path} is not as it was left: {reason}; {advice}, then tell again what was not recorded, "
            f"which {kept}"
        )


class Parsed(NamedTuple):
    """What is in a journal: the events, and the bytes they take; the rest is a torn last line."""

    events: list[dict[str, Any]]
    length: int


def journal_content(events: Iterable[dict[str, Any]], *, first: int = 0) -> bytes:
    """The events as lines of a journal, the first with this number; NaN and infinity are refused."""
    return b"".join(_line(event, number) for number, event in enumerate(events, start=first))


def _line(event: dict[str, Any], number: int) -> bytes:
    body = json.dumps({SEQ: number, **event}, allow_nan=False, default=listed)[:-1].encode()
    return body + f', "{CHECK}": "{_check_of(body)}"}}\n'.encode()


def _check_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=CHECK_BYTES).hexdigest()


def parse_journal(content: bytes, path: Path, *, is_checked: bool) -> Parsed:
    """The events in a journal's content.

    Every event is on disk before the next is written, so a crash can spoil none but the last line. It is torn if its
    newline is missing, or came to disk before what precedes it: that reads as zeros. Anything else is damage.

    Args:
        content: of the file.
        path: of the file, for messages.
        is_checked: whether all lines must have a number and a check; otherwise those before the first that has them
            may lack them.

    Raises:
        ValueError: a line is damaged, doubled or missing; names `path` and the line, and says how to go on.
    """
    *lines, rest = content.split(b"\n")
    events: list[dict[str, Any]] = []
    start = 0
    for line in lines:
        is_checked = is_checked or _has_check(line)
        try:
            events.append((_checked if is_checked else _unchecked)(line, len(events)))
        except (ValueError, RecursionError) as error:
            is_last = start + len(line) + 1 == len(content)
            if is_last and (not is_checked or line.count(0) > 1):
                return Parsed(events, start)
            raise _damaged(path, len(events), start, str(error)) from error
        start += len(line) + 1
    if rest and _is_whole(rest, len(events)):
        return Parsed([*events, _checked(rest, len(events))], len(content))
    if rest and _is_whole(rest[:-1], len(events)):
        raise _damaged(path, len(events), start, f"expected a newline at its end, got {rest[-1:]!r}")
    return Parsed(events, start)


def _damaged(path: Path, number: int, start: int, reason: str) -> ValueError:
    return ValueError(
        f"{path}, line {number + 1} is not the event that was written there: {reason}; restore the file from a copy "
        f"or, to go on from the {number} events before it, keep its first {start} bytes only"
    )


def _has_check(line: bytes) -> bool:
    return line.startswith(f'{{"{SEQ}": '.encode()) or f'"{CHECK}": "'.encode() in line[-CHECK_LENGTH:]


def _is_whole(line: bytes, number: int) -> bool:
    try:
        _checked(line, number)
    except (ValueError, RecursionError):
        return False
    return True


def _checked(line: bytes, number: int) -> dict[str, Any]:
    """The event of a line with a number and a check, both of which must be right."""
    body, end = line[:-CHECK_LENGTH], line[-CHECK_LENGTH:]
    if end != f', "{CHECK}": "{_check_of(body)}"}}'.encode():
        raise ValueError("its check does not fit its content")
    event = _unchecked(line, number)
    if event[SEQ] != number:
        raise ValueError(f"it has number {event[SEQ]}, expected {number}: lines are missing, doubled or out of order")
    return {name: value for name, value in event.items() if name not in (SEQ, CHECK)}


def _unchecked(line: bytes, number: int) -> dict[str, Any]:
    del number
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
