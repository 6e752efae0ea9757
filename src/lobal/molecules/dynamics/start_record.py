"""What is on disk of the first trajectories: every answer of the oracle when it is there, and every step when done.

The file is a journal with three kinds of events after the first: `step`, all walkers after a time step; `call`, one
walker's energy and forces for the step that is to follow; and `label`, those of a frame, where walkers follow the
forces of another program.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch

from lobal.active.campaign.folder import LOCK
from lobal.active.campaign.journal import Journal, journal_content
from lobal.active.campaign.lock import Lock
from lobal.core.files import make_folder, write_atomically
from lobal.core.schema import anything, optional, read_from, table, text, whole
from lobal.molecules.dynamics.motion import Motion

LONGEST = 60  # characters of a value in a message
BEGUN, STEP, CALL, LABEL = "begun", "step", "call", "label"

Row: TypeAlias = list[float] | None  # energy and forces; none where the oracle has failed
Rows: TypeAlias = dict[int, Row]


@final
class StartRecord:
    """The steps and labels of a file, which is made if it is not there.

    Args:
        path: of the file.
        about: what the start depends on, with the atomic numbers `species`; a file of another start is refused.
        walkers: number of trajectories.

    The folder is locked until `close`, by the file that its campaign will have as its lock.

    Raises:
        ValueError: the file is of another start, or damaged.
        BlockingIOError: another process has the folder.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, walkers: int) -> None:
        self._shape = (walkers, len(about["species"]), 3)
        self._steps: list[Mapping[str, Any]] = []
        self.calls: Rows = {}  # of the step that is to follow, by the walker's number
        self.labels: Rows = {}  # by the frame's number
        first = json.loads(json.dumps({"event": BEGUN, **about}))  # as it will be read
        make_folder(path.parent)
        self._open = ExitStack()
        self._open.callback(Lock(path.parent / LOCK, f"campaign {path.parent}").release)
        try:
            if not path.exists():
                write_atomically(path, journal_content([first]))
            self._journal = Journal(path, is_checked=True)
            self._open.callback(self._journal.close)
            _check_first(self._journal.events, first, path)
            with read_from(path, "the start of a campaign"):
                for event in self._journal.events[1:]:
                    self._take(event)
        except BaseException:
            self.close()
            raise

    @property
    def steps(self) -> int:
        """How many there are; the first is the beginning."""
        return len(self._steps)

    @property
    def failures(self) -> int:
        """How often a walker has begun again."""
        return int(self._steps[-1]["failures"]) if self._steps else 0

    def motion(self, number: int) -> Motion:
        """The walkers after a step."""
        event = self._steps[number]
        R, V, F, E = (torch.tensor(event[name], dtype=torch.float64) for name in ("R", "V", "F", "E"))
        return Motion(R, V, E, F)

    def keep_step(self, motion: Motion, failed: list[int]) -> None:
        """Add a step, in which some walkers have begun again."""
        arrays = {"R": motion.R, "V": motion.V, "E": motion.energies, "F": motion.forces}
        listed = {name: part.tolist() for name, part in arrays.items()}
        self._append({"event": STEP, "number": self.steps, "failures": self.failures + len(failed), **listed})

    def keep_call(self, walker: int, row: Row) -> None:
        """Add the oracle's answer for a walker in the step that is to follow."""
        self._append({"event": CALL, "step": self.steps, "walker": walker, "row": row})

    def keep_label(self, frame: int, row: Row) -> None:
        """Add the oracle's answer for a frame."""
        self._append({"event": LABEL, "frame": frame, "row": row})

    def close(self) -> None:
        """Close the file, and let others have the folder."""
        self._open.close()

    def _append(self, event: dict[str, Any]) -> None:
        self._journal.append(event)
        self._take(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        """Add an event that is on disk to what is known.

        Raises:
            ValueError: it is none, or does not follow the ones before.
        """
        text(STEP, CALL, LABEL)(event.get("event"), "an event")
        if event["event"] == STEP:
            self._check_step(event)
            self._steps.append(event)
            self.calls = {}
            return
        is_call = event["event"] == CALL
        name = "walker" if is_call else "frame"
        entries = {name: whole(0, self._shape[0] - 1) if is_call else whole(), "row": optional(anything)} | (
            {"step": whole(self.steps, self.steps)} if is_call else {}
        )
        table(entries)(event, f"a {event['event']} after step {self.steps - 1}")
        if event["row"] is not None:
            _check_numbers(event["row"], (1 + 3 * self._shape[1],), f"the row of {name} {event[name]}")
        (self.calls if is_call else self.labels)[event[name]] = event["row"]

    def _check_step(self, event: Mapping[str, Any]) -> None:
        number = self.steps
        arrays = {"R": self._shape, "V": self._shape, "F": self._shape, "E": self._shape[:1]}
        entries = {"number": whole(number, number), "failures": whole(self.failures)} | dict.fromkeys(arrays, anything)
        table(entries)(event, f"step {number}")
        for name, shape in arrays.items():
            _check_numbers(event[name], shape, f"{name} of step {number}")


def _check_first(events: list[dict[str, Any]], expected: Mapping[str, Any], path: Path) -> None:
    """Raise a ValueError where a file begins otherwise than expected."""
    there = _flat(events[0] if events else {})
    wanted = _flat(expected)
    for name in [*wanted, *there]:
        if there.get(name) != wanted.get(name) and name in ("R", "species"):
            raise ValueError(
                f"{path} is of another campaign: it began with another configuration, of atomic numbers "
                f"{_shortened(there.get('species'))}; use the same file, or another folder"
            )
        if there.get(name) != wanted.get(name):
            began, got = (_shortened(values[name]) if name in values else "none" for values in (there, wanted))
            raise ValueError(
                f"{path} is of another campaign: it began with {name} {began}, got {got}; use the same, or another "
                "folder"
            )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of dictionaries in place of these."""
    parts = [value.items() if isinstance(value, dict) else [(name, value)] for name, value in values.items()]
    return {name: value for part in parts for name, value in part}


def _check_numbers(values: object, shape: tuple[int, ...], name: str) -> None:
    try:
        array = np.array(values)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.shape != shape or array.dtype.kind not in "fi" or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {shape} finite numbers, got shape {array.shape} of type {array.dtype}")
