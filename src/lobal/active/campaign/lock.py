"""A lock that one process holds at a time, and that ends with the process however it ends."""

import contextlib
import errno
import logging
import os
import socket
import sys
import weakref
from pathlib import Path
from typing import BinaryIO, NamedTuple, final

from lobal.core.files import NO_LINK, explain, open_plain, write_all

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # of Linux: another one after every start of the machine
MOST_TEXT = 1024  # bytes of a lock's file that are read
NOTE = "The process of this number uses the campaign for as long as it lives. Deleting this file does not end that."


@final
class Lock:
    """Sole use of something, from creation until `release` or the end of the process.

    The system keeps the lock (flock); the file's text only tells others which process has it, on which machine. The
    file is made if need be and never removed: a removed one could be held twice. Errors name what the lock is for,
    `guarded`. Where the last holder was on another machine and did not release the lock, a warning is logged: some
    network file systems lock within a machine only.

    Raises:
        BlockingIOError: another holder, in this process or another, has it.
        OSError: the file system cannot lock.
        ValueError: the path is that of a link, a folder or a pipe, or the file has another name as well.
    """

    def __init__(self, path: Path, guarded: str) -> None:
        if sys.platform == "win32":
            raise OSError(f"{guarded} cannot be opened for writing: this system has no flock; use Linux or macOS")
        self._file: BinaryIO = open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_LINK)
        try:
            self._take(guarded)
        except BaseException as error:
            self._let_go()
            explain(error, path, f"{guarded} is not opened")
            raise
        _held.add(self)

    def _take(self, guarded: str) -> None:
        before = _holder(self._file)
        if os.fstat(self._file.fileno()).st_nlink > 1:  # its text would be written over
            raise ValueError(f"{self._file.name} is a hard link to another file; remove it if nobody uses {guarded}")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"{guarded} is in use by {before}; close it there first") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            raise OSError(
                error.errno,
                f"{error.strerror}: {guarded} cannot be opened for writing, its file system does not lock files; "
                "use a folder on a local disk",
            ) from error
        if before.machine and all(theirs != ours for theirs, ours in zip(before.machine, _machine(), strict=True)):
            logger.warning("%s was not closed by %s; make sure that it does not run any more", guarded, before)
        os.ftruncate(self._file.fileno(), 0)
        write_all(self._file.fileno(), "\n".join([str(os.getpid()), *_machine(), NOTE, ""]).encode())

    @property
    def is_held(self) -> bool:
        """Whether this object, in this process, has the lock."""
        return not self._file.closed

    def release(self) -> None:
        """Let others have it; a second time does nothing."""
        if self.is_held:
            with contextlib.suppress(OSError):  # it is only a text
                os.ftruncate(self._file.fileno(), 0)
            self._let_go()

    def _let_go(self) -> None:
        if sys.platform != "win32":
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a forked process may have the file open as well
        self._file.close()

    def forget(self) -> None:
        """Close the file without releasing the lock: a forked process has no share in what its parent holds."""
        self._file.close()


class Holder(NamedTuple):
    """What a lock's file says about who holds it; nothing where the lock was released, or has not been signed yet."""

    process: str = ""
    machine: tuple[str, str] | None = None  # host and boot id

    def __str__(self) -> str:
        host = "" if self.machine is None or self.machine == _machine() else f" on {self.machine[0]}"
        return f"process {self.process}{host}" if self.process else "another process"


def _holder(file: BinaryIO) -> Holder:
    file.seek(0)
    lines = file.read(MOST_TEXT).decode(errors="replace").split("\n")
    if not lines[0].isdigit():
        return Holder()
    return Holder(lines[0], (lines[1], lines[2]) if len(lines) > 4 else None)


def _machine() -> tuple[str, str]:
    """The name of this machine, and when it was started."""
    return socket.gethostname(), BOOT_ID.read_text().strip() if BOOT_ID.exists() else "-"


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()
if sys.platform != "win32":
    # A forked worker would otherwise keep the lock when its parent is killed.
    os.register_at_fork(after_in_child=_forget_all)
