"""A lock that one process holds at a time, and that ends with the process however it ends."""

import os
import sys
import weakref
from pathlib import Path
from typing import BinaryIO, final

if sys.platform != "win32":
    import fcntl

NOTE = "The process of this number uses the campaign for as long as it lives. Deleting this file does not end that."


@final
class Lock:
    """Sole use of something, from creation until `release` or the end of the process.

    The system keeps the lock (flock); the file's text only tells others which process has it. The file is made if need
    be and never removed: a removed one could be held twice. Errors name what the lock is for, `guarded`.

    Raises:
        BlockingIOError: another holder, in this process or another, has it.
    """

    def __init__(self, path: Path, guarded: str) -> None:
        if sys.platform == "win32":
            raise OSError(f"{guarded} cannot be opened for writing: this system has no flock; use Linux or macOS")
        self._file: BinaryIO = path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(self._file)
            self._file.close()
            raise BlockingIOError(f"{guarded} is in use by {holder}; close it there first") from None
        except BaseException:
            self._file.close()
            raise
        _held.add(self)
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n{NOTE}\n".encode())

    @property
    def is_held(self) -> bool:
        """Whether this object, in this process, has the lock."""
        return not self._file.closed

    def release(self) -> None:
        """Let others have it; a second time does nothing."""
        if self.is_held:
            if sys.platform != "win32":
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()

    def forget(self) -> None:
        """Close the file without releasing the lock: a forked process has no share in what its parent holds."""
        self._file.close()


def _holder(file: BinaryIO) -> str:
    file.seek(0)
    number = file.read(32).split(b"\n")[0]
    # Empty for the instant between locking and writing.
    return f"process {int(number)}" if number.isdigit() else "another process"


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()
if sys.platform != "win32":
    # A forked worker would otherwise keep the lock when its parent is killed.
    os.register_at_fork(after_in_child=_forget_all)
