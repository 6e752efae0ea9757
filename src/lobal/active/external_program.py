"""An oracle that runs an external program, once for each point: JSON in, JSON out."""

import contextlib
import json
import logging
import math
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.active.campaign.journal import listed
from lobal.active.frames import rows_of
from lobal.active.oracles import KILLED_WITHIN
from lobal.core.checks import real_number, shown, whole_number
from lobal.core.files import write_atomically

logger = logging.getLogger(__name__)

CALLS, INPUT, OUTPUT, RESULT = "calls", "input.json", "output.json", "result.json"
PLACES = ("{input}", "{output}")
FEWEST_DIGITS = 4  # of a call's number
LARGEST_OUTPUT = 2**20  # bytes

Row = Mapping[str, Any]  # the named values of a point


class Folder(NamedTuple):
    """The folder of one call."""

    path: Path

    @property
    def input(self) -> Path:
        """What the program reads."""
        return self.path / INPUT

    @property
    def output(self) -> Path:
        """What the program writes."""
        return self.path / OUTPUT

    @property
    def result(self) -> Path:
        """What became of the call, once it has ended."""
        return self.path / RESULT


class FailedCallError(RuntimeError):
    """A call ended without a label."""


@final
class ExternalProgram:
    """Labels of points from an external program; threads may call it at the same time.

    Every call has a folder of its own, `calls/0000`, `calls/0001` and so on, with `input.json`, `output.json`,
    `stdout.txt` and `stderr.txt`; nothing in them is ever removed. If the program fails, takes too long or writes no
    number, the label is NaN, and the reason is logged. A point whose result is there already, as after a campaign that
    was killed, is not bought again: to have it computed anew, remove the folder of its call.

    Args:
        command: the program with its arguments, such as `"./simulate {input} {output}"`; no shell is involved. The
            program reads a JSON object with the named values of the point from the file `{input}`, and writes to the
            file `{output}` a number, or a JSON object of numbers; NaN and null say that it failed, and that one output
            did where there are others.
        folder: where `calls` are kept.
        timeout: seconds after which the program is killed, with all processes that it has started.
        retries: how many more times a call that failed is made.
        names: of the columns, for points that come as arrays, as in `run`; by default x0, x1, ...
        outputs: names of the values to return, in this order, where the program writes several.

    Raises:
        TypeError, ValueError: an option is of the wrong kind or out of range.
    """

    def __init__(
        self,
        command: str,
        folder: str | os.PathLike[str],
        timeout: float | None = None,
        retries: int = 0,
        *,
        names: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        self._command = _checked_command(command)
        self._calls = Path(folder).absolute() / CALLS
        self._timeout = None if timeout is None else real_number("timeout", timeout, above=0.0, hint="in seconds")
        self._retries = whole_number("retries", retries, least=0)
        self._names = None if names is None else tuple(names)
        self._outputs = None if outputs is None else tuple(outputs)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False
        self._calls.mkdir(parents=True, exist_ok=True)
        self._known = self._earlier_results()

    def __call__(self, points: Any) -> Float[ndarray, "n *outputs"]:  # noqa: ANN401 - as said below
        """Labels of points: rows of an array, a table, or one or more mappings with named values."""
        labels = [self._label(row) for row in self._rows(points)]
        return np.array(labels, dtype=np.float64)

    def stop(self) -> None:
        """Kill the calls that are running, and make no more."""
        with self._lock:
            self._is_stopped = True
            running = [*self._running]
        for process in running:
            _kill_group(process)

    def _rows(self, points: Any) -> list[Row]:  # noqa: ANN401 - an array, a table or rows
        if isinstance(points, Mapping) and not any(isinstance(value, ndarray | list) for value in points.values()):
            return [points]
        if not isinstance(points, ndarray):
            return [*rows_of(points)]
        names = self._names or tuple(f"x{column}" for column in range(points.shape[1]))
        if len(names) != points.shape[1]:
            raise ValueError(f"expected points of {len(names)} columns, {list(names)}, got {points.shape[1]}")
        return [dict(zip(names, row, strict=True)) for row in points.tolist()]

    def _label(self, row: Row) -> list[float] | float:
        content = json.dumps(row, default=listed, allow_nan=False)
        with self._lock:
            known = self._known.get(content)
        if known is not None:
            return self._shaped(known)
        for attempt in range(self._retries + 1):
            try:
                values = self._attempt(content)
            except FailedCallError as error:
                if self._is_stopped:
                    break
                logger.warning("attempt %d of %d failed: %s", attempt + 1, self._retries + 1, error)
            else:
                with self._lock:
                    self._known[content] = values
                return self._shaped(values)
        return self._shaped([math.nan] * len(self._outputs or (0,)))

    def _shaped(self, values: list[float]) -> list[float] | float:
        return values[0] if self._outputs is None else values

    def _attempt(self, content: str) -> list[float]:
        """The values of a call that is made now."""
        folder = self._new_folder()
        write_atomically(folder.input, content.encode())
        try:
            self._run(folder)
            values = self._values(folder)
        except FailedCallError as error:
            write_atomically(folder.result, json.dumps({"failed": str(error)}).encode())
            raise FailedCallError(f"{folder.path}: {error}") from error
        write_atomically(folder.result, json.dumps({"values": values}).encode())
        return values

    def _new_folder(self) -> Folder:
        """A folder with the next number; other processes may make some at the same time."""
        with self._lock:
            numbers = [int(file.name) for file in self._calls.iterdir() if re.fullmatch(r"\d{1,9}", file.name)]
            number = max(numbers, default=-1) + 1
            while True:
                path = self._calls / f"{number:0{FEWEST_DIGITS}d}"
                with contextlib.suppress(FileExistsError):
                    path.mkdir()
                    return Folder(path)
                number += 1

    def _run(self, folder: Folder) -> None:
        """Run the program to its end, or kill it with all that it has started."""
        files = dict(zip(PLACES, (str(folder.input), str(folder.output)), strict=True))
        words = [re.sub(r"\{(?:in|out)put\}", lambda found: files[found[0]], word) for word in self._command]
        with (folder.path / "stdout.txt").open("wb") as out, (folder.path / "stderr.txt").open("wb") as err:
            process = self._begun(words, out, err)
            try:
                code = process.wait(self._timeout)
            except subprocess.TimeoutExpired as error:
                raise FailedCallError(f"no result within {self._timeout:g} s; killed") from error
            finally:
                _kill_group(process)
                with self._lock:
                    self._running.discard(process)
        if code != 0:
            raise FailedCallError(f"the program ended with status {code}; see stderr.txt: {_end_of(folder)}")

    def _begun(self, words: list[str], out: BinaryIO, err: BinaryIO) -> "subprocess.Popen[bytes]":
        """The process of a call, in a group of its own; under the lock, so that none is begun once all are stopped."""
        with self._lock:
            if self._is_stopped:
                raise FailedCallError("it was stopped before it began")
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            except OSError as error:
                raise FailedCallError(f"{words[0]} cannot be run: {error}; check the command") from error
            self._running.add(process)
        return process

    def _values(self, folder: Folder) -> list[float]:
        """The numbers that the program has written.

        Raises:
            FailedCallError: there are none, or others than expected.
        """
        try:
            with folder.output.open("rb") as file:
                content = file.read(LARGEST_OUTPUT + 1)
            written = json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            raise FailedCallError(f"{OUTPUT} cannot be read: {error}; the program has to write JSON to it") from error
        return _numbers(written, self._outputs)

    def _earlier_results(self) -> dict[str, list[float]]:
        """Values by the content of their input, of calls that ended well or were cut off after their result."""
        known: dict[str, list[float]] = {}
        for path in sorted(self._calls.iterdir()):
            with contextlib.suppress(OSError, ValueError, FailedCallError, RecursionError):
                known[Folder(path).input.read_text()] = self._earlier(Folder(path))
        return known

    def _earlier(self, folder: Folder) -> list[float]:
        if folder.result.exists():
            result = json.loads(folder.result.read_text())
            if "failed" in result:
                raise FailedCallError(result["failed"])
        elif not folder.output.read_bytes().rstrip().endswith(b"}"):
            raise FailedCallError("a number may be incomplete where the call was cut off")
        return self._values(folder)


def _checked_command(command: object) -> list[str]:
    """The words of a command, which must name both files."""
    if not isinstance(command, str):
        raise TypeError(f"command must be a string such as './simulate {{input}} {{output}}', got {shown(command)}")
    words = shlex.split(command)
    missing = [place for place in PLACES if not any(place in word for word in words[1:])]
    if missing:
        raise ValueError(
            f"command must have {' and '.join(missing)} among its arguments, as './simulate {{input}} {{output}}' has, "
            f"got {command!r}"
        )
    return words


def _numbers(written: object, outputs: Sequence[str] | None) -> list[float]:
    """What a program wrote as a list of numbers, of which one at least is finite."""
    values = dict(written) if isinstance(written, dict) else {"": written}
    if outputs is None:
        if len(values) != 1:
            raise FailedCallError(
                f"expected one value in {OUTPUT}, got {shown(sorted(values))}; name those to return: outputs=[...]"
            )
        chosen = list(values.values())
    else:
        missing = [name for name in outputs if name not in values]
        if missing and not (len(outputs) == 1 and [*values] == [""]):
            raise FailedCallError(f"expected the values {list(outputs)} in {OUTPUT}, got {shown(sorted(values))}")
        chosen = list(values.values()) if missing else [values[name] for name in outputs]
    numbers = [_number(value) for value in chosen]
    if not any(map(math.isfinite, numbers)):
        raise FailedCallError(f"the program says that it failed: {OUTPUT} has {chosen[0]}")
    return numbers


def _number(value: object) -> float:
    """A finite number, or NaN for an output that failed."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FailedCallError(f"expected numbers in {OUTPUT}, got {shown(value)}")
    return float(value)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of a program and of all processes it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # its own group: start_new_session
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_WITHIN)


def _end_of(folder: Folder) -> str:
    """The last line that the program wrote to its standard error."""
    with (folder.path / "stderr.txt").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1000))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return repr(lines[-1]) if lines else "it is empty"
