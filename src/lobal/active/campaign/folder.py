"""The folder of one active learning campaign, readable after a crash at any instant."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

from torch import Tensor

from lobal.active.campaign.journal import NOTHING, Journal, journal_content, listed, parse_journal
from lobal.active.campaign.lock import Lock
from lobal.core.files import (
    NO_LINK,
    load_record,
    make_folder,
    read_plain,
    remove_unfinished,
    save_record,
    write_atomically,
)

HEADER, JOURNAL, LOCK, STEPS, POOLS = "header.json", "journal.jsonl", "lock", "steps", "pools"
# Of the folder as a whole; a step's file has its own. 2: kinds of candidates and surrogates. 3: lines of the journal
# have numbers and checks. All are read.
CURRENT_FORMAT = 3
CHECKED = 3  # the first format with checks
HASH = "sha256"  # of the header's other entries
# What is written atomically there, and may be left unfinished: files of other names are the user's.
OWN_FILES = re.compile(r"(header|tables)\.json|journal\.jsonl|(candidates|model)\.lobal|unrecorded-[0-9a-f]{8}\.json")
STEP_FILES = re.compile(r"[0-9]{4,}\.(lobal|model)")
POOL_FILES = re.compile(r"[0-9]{4,}\.lobal")
POOLS_KEPT = 2  # the last candidates, and those before: the journal may be cut there by hand
EVENTS = "events"  # field of a step's file: how many events were in the journal when it was written


@final
class LostEventsError(ValueError):
    """A journal ends before a step that was taken."""


@final
class Campaign:
    """One campaign's folder: `header.json`, `journal.jsonl`, `steps/NNNN.lobal`, `pools/NNNN.lobal` and `lock`.

    Made by `create`, `open` or `read`. Created or opened, it is locked until `close` or until the process ends in
    whatever way. A forked process cannot write to it. The header is written once, when the campaign is created;
    `format` and a hash are the folder's own entries. `events` is the journal, in order.
    """

    def __init__(self, path: Path, header: dict[str, Any], writer: tuple[Lock, Journal] | None = None) -> None:
        self.path, self.header, self._writer = path, header, writer
        try:
            last_step = _last_step(path)  # looked for first: another process may be taking steps
            self.events = _parsed(path / JOURNAL, header) if writer is None else writer[1].events
            self._check_complete(last_step)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        header: dict[str, Any],
        *,
        records: Mapping[str, dict[str, Tensor]] | None = None,
        events: Sequence[dict[str, Any]] = (),
    ) -> "Campaign":
        """A new campaign in a new folder, or in one that holds none; folders above it are made.

        Files of the user in that folder stay, hidden ones as well; of what an earlier creation left when it was killed,
        unfinished files of a campaign are removed.

        `records` are tensors by the name of their file in the folder, which `load_record` reads; `events` is what has
        happened before.

        Raises:
            FileExistsError: the path holds a campaign already, or is a file.
            BlockingIOError: another process is creating one there.
        """
        folder = Path(path).absolute()
        full = json.loads(json.dumps(header | {"format": CURRENT_FORMAT}, default=listed))
        content = json.dumps(full | {HASH: _hash(full)}, indent=2)
        journal_lines = journal_content(events)
        _check_vacant(folder)
        make_folder(folder)
        with ExitStack() as undo:
            lock = _locked(folder, undo)
            _check_vacant(folder)  # another process may have been faster
            remove_unfinished(folder, OWN_FILES)
            for name in (STEPS, POOLS):
                _subfolder(folder, name)
            for name, tensors in (records or {}).items():
                make_folder((folder / name).parent)
                save_record(folder / name, tensors, {})
            undo.callback(_remove_journal_of_none, folder)
            write_atomically(folder / JOURNAL, journal_lines)
            # The header comes last: with it the folder is a campaign, and a creation that was cut short can be redone.
            write_atomically(folder / HEADER, content.encode())
            journal = Journal(folder / JOURNAL, is_checked=True)
            undo.pop_all()
        return cls(folder, full, (lock, journal))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Campaign":
        """The campaign in a folder, to go on with. What a crash left incomplete is removed.

        Raises:
            FileNotFoundError: there is no such folder, or its journal is missing.
            ValueError: the folder is not a campaign, is damaged, or a newer lobal wrote it.
            BlockingIOError: it is in use already.
        """
        folder = Path(path).absolute()
        header = _read_header(folder)
        with ExitStack() as undo:
            lock = _locked(folder, undo)
            journal = Journal(_journal_path(folder), is_checked=header["format"] >= CHECKED)
            undo.callback(journal.close)
            remove_unfinished(folder, OWN_FILES)
            remove_unfinished(_subfolder(folder, STEPS), STEP_FILES)
            remove_unfinished(_subfolder(folder, POOLS), POOL_FILES)
            undo.pop_all()
        return cls(folder, header, (lock, journal))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Campaign":
        """The campaign in a folder as it is now, for reading only; another process may be writing to it.

        Raises as `open` does, except that the campaign may be in use.
        """
        folder = Path(path).absolute()
        header = _read_header(folder)
        _journal_path(folder)
        return cls(folder, header)

    @property
    def is_writable(self) -> bool:
        """Whether it was created or opened, not only read."""
        return self._writer is not None

    def append(self, event: dict[str, Any], following: Mapping[str, Any] = NOTHING) -> None:
        """Add an event to the journal; it is on disk when this returns, and not in the journal if this raises.

        Arrays and tuples become lists. Floats come back exactly. If the event is refused, what was to be recorded after
        it, `following`, is kept with it.

        Raises:
            ValueError: the event holds NaN or infinity, or the campaign is not open for writing.
            TypeError: the event holds what JSON cannot.
            RuntimeError: another process has changed the journal.
        """
        self._writable().append(event, following)

    def save_step(self, number: int, tensors: dict[str, Tensor], *, keep: int = 2) -> None:
        """Write a step's tensors, whole or not at all, and remove those of steps before the last ones to keep."""
        self._writable().check()
        make_folder(_subfolder(self.path, STEPS))
        save_record(self.step_path(number), tensors, {EVENTS: len(self.events)})
        # Not the step before: until this one is in the journal, the campaign goes on from that.
        self.step_path(number - keep).unlink(missing_ok=True)

    def save_pool(self, number: int, tensors: dict[str, Tensor]) -> None:
        """Write the tensors of the candidates after a growth, and remove those of growths before the last ones."""
        self._writable().check()
        make_folder(_subfolder(self.path, POOLS))
        save_record(self.pool_path(number), tensors, {})
        self.pool_path(number - POOLS_KEPT).unlink(missing_ok=True)

    def pool_path(self, number: int) -> Path:
        """The file of the candidates after a growth."""
        return self.path / pool_name(number)

    def load_step(self, number: int) -> dict[str, Tensor]:
        """A step's tensors.

        Raises:
            FileNotFoundError, ValueError: there is no such file, or it is damaged.
            LostEventsError: it was written after more events than there are.
        """
        tensors, fields = load_record(self.step_path(number))
        self._check_written(number, fields.get(EVENTS))
        return tensors

    def _check_complete(self, last: int) -> None:
        """Refuse a journal that ends before a step that was taken: it has lost events."""
        asked, most = _n_steps(self.events)
        if last < asked:
            return
        found = None
        with contextlib.suppress(ValueError, FileNotFoundError):  # not readable: it will be written again
            found = load_record(self.step_path(last))[1].get(EVENTS)
        self._check_written(last, found, is_known=last <= most)

    def _check_written(self, last: int, found: object, *, is_known: bool = True) -> None:
        needed = found if type(found) is int else last  # events before a step of an earlier version, at least
        if not is_known or needed > len(self.events):
            first = step_name(min(last, _n_steps(self.events)[0]))
            raise LostEventsError(
                f"{self.path / JOURNAL} has {len(self.events)} events, but {step_name(last)} was written after "
                f"{needed}: the journal has lost its end; restore it from a copy or, to go on from what is left, "
                f"remove the files from {self.path / first} on"
            )

    def step_path(self, number: int, suffix: str = "lobal") -> Path:
        """The file of a step."""
        return self.path / step_name(number, suffix)

    def close(self) -> None:
        """Release the folder, so that others may open it; a second time does nothing."""
        if self._writer is not None:
            lock, journal = self._writer
            journal.close()
            lock.release()

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _writable(self) -> Journal:
        if self._writer is None:
            raise ValueError(f"campaign {self.path} is open for reading only; load it to write to it")
        lock, journal = self._writer
        if not lock.is_held:
            raise ValueError(f"campaign {self.path} is not open in this process, or was closed; load it again")
        return journal


def step_name(number: int, suffix: str = "lobal") -> str:
    """The name of a step's file in the folder."""
    return f"{STEPS}/{number:04d}.{suffix}"


def pool_name(number: int) -> str:
    """The name of the candidates' file after a growth."""
    return f"{POOLS}/{number:04d}.lobal"


def _n_steps(events: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """How many steps are in force after all events, and the most that ever were: some may have been undone."""
    asked = most = 0
    for event in events:
        undone = event.get("steps") if event.get("event") == "undone" else 0
        asked += (event.get("event") == "asked") - (undone if type(undone) is int else 0)
        most = max(most, asked)
    return asked, most


def _last_step(folder: Path) -> int:
    """The highest number of a step's file."""
    steps = (file.stem for file in _subfolder(folder, STEPS).glob("*.lobal"))
    return max((int(stem) for stem in steps if stem.isascii() and stem.isdigit()), default=-1)


def _subfolder(folder: Path, name: str) -> Path:
    """A folder in which files are written and removed: none elsewhere that a link leads to."""
    if (folder / name).is_symlink():
        raise ValueError(f"{folder / name} is a link; put the folder itself in its place")
    if (folder / name).exists() and not (folder / name).is_dir():
        raise ValueError(f"{folder / name} is not a folder; restore it from a copy, or remove it")
    return folder / name


def _parsed(journal: Path, header: dict[str, Any]) -> list[dict[str, Any]]:
    content = read_plain(journal, flags=NO_LINK)
    return parse_journal(content, journal, is_checked=header["format"] >= CHECKED).events


def _hash(header: dict[str, Any]) -> str:
    """Of all entries but the hash itself, whatever their order and layout."""
    rest = {name: value for name, value in header.items() if name != HASH}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _remove_journal_of_none(folder: Path) -> None:
    """Remove the journal of a creation that was cut short; with the header in place there is a campaign."""
    if not (folder / HEADER).exists():
        (folder / JOURNAL).unlink(missing_ok=True)


def _locked(folder: Path, undo: ExitStack) -> Lock:
    lock = Lock(folder / LOCK, f"campaign {folder}")
    undo.callback(lock.release)
    return lock


def _check_vacant(folder: Path) -> None:
    """Refuse to create a campaign over a file or over another campaign, its header lost or not."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose another path for the campaign's folder")
    if (folder / HEADER).exists():
        raise FileExistsError(f"{folder} already holds a campaign; open it or choose another path")
    journal = folder / JOURNAL
    if journal.exists() and journal.stat().st_size > 0:
        raise FileExistsError(
            f"{folder} already holds a campaign, but its {HEADER} is missing; restore that from a copy or choose "
            "another path"
        )


def _journal_path(folder: Path) -> Path:
    """The journal, which must be there."""
    if not os.path.lexists(folder / JOURNAL):
        raise FileNotFoundError(f"campaign {folder} has lost its {JOURNAL}; restore it from a copy")
    return folder / JOURNAL


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    if not folder.is_dir():
        raise FileNotFoundError(f"no campaign at {folder}: there is no such folder; create it or check the path")
    if not os.path.lexists(path):
        raise ValueError(f"{folder} is not a campaign: it has no {HEADER}; check the path, or restore it from a copy")
    content = read_plain(path, flags=NO_LINK)
    try:
        header = json.loads(content.decode())
        version = header["format"]
        if type(version) is not int:
            raise TypeError(f"format must be a whole number, got {version!r}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not a campaign's header: {error!r}; restore it from a copy") from error
    if version > CURRENT_FORMAT:
        raise ValueError(f"{path} has format {version}, this lobal reads up to {CURRENT_FORMAT}; install a newer lobal")
    if header.get(HASH) != (_hash(header) if version >= CHECKED else None):
        raise ValueError(f"{path} does not have the hash it was written with; restore it from a copy")
    return {name: value for name, value in header.items() if name != HASH}
