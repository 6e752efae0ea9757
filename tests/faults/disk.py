"""The file layer of a campaign with faults injected: every change of a file goes through here while it is in use.

A fault happens at one operation: the process is killed, the power is cut, or the operation fails.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import pytest

CHANGES = ("open", "write", "fsync", "replace", "unlink", "mkdir", "ftruncate")
Fault = Callable[["Disk"], None]


class Killed(BaseException):
    """The end of the process; nothing that runs after it reaches the disk."""


@final
class Disk:
    """Counts operations, has a fault at one of them, or several in a row, and knows what a power cut would leave."""

    def __init__(self, root: Path, *, fault_at: int = -1, fault: Fault | None = None, times: int = 1) -> None:
        self.root, self.operations = root, 0
        self._faults, self._fault = range(fault_at, fault_at + times), fault
        self._is_dead = False
        self._open: list[int] = []  # files are kept open, so that no inode is used twice
        self._synced: dict[int, bytes] = {}  # contents by inode
        self._names: dict[int, dict[str, int]] = {}  # of folders by inode: names that are on disk, and their inodes

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CHANGES:
                patch.setattr(os, name, self._watched(name, getattr(os, name)))
            try:
                yield
            finally:
                for file in self._open:
                    os.close(file)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)  # changes nothing
            if self._is_dead:
                raise Killed
            self.operations += 1
            if self.operations - 1 in self._faults and self._fault is not None:
                self._fault(self)
            if name == "fsync":
                return self._sync(arguments[0])
            result = real(*arguments, **options)
            if name == "open":
                self._open.append(os.dup(result))
            return result

        return operation

    def _sync(self, file: int) -> None:
        """Remember what is on disk for certain; the disk itself need not be bothered."""
        about = os.fstat(file)
        if stat.S_ISDIR(about.st_mode):
            self._names[about.st_ino] = {entry.name: entry.inode() for entry in os.scandir(file)}
        else:
            self._synced[about.st_ino] = Path(f"/proc/self/fd/{file}").read_bytes()  # it may be open for writing only

    def die(self) -> None:
        self._is_dead = True
        raise Killed

    # Power cuts.

    def write_remains(self, target: Path, *, all_names: bool, zeros: bool) -> None:
        """What a power cut leaves: contents that were flushed, under names that were flushed or under all.

        Of files that have grown since, the new part may be there as zeros.
        """
        now = self._contents(self.root)
        self._write_folder(self.root, self.root.stat().st_ino, target, now, all_names=all_names, zeros=zeros)

    def _contents(self, folder: Path) -> dict[int, bytes]:
        return {file.stat().st_ino: file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def _write_folder(
        self, folder: Path, inode: int, target: Path, now: dict[int, bytes], *, all_names: bool, zeros: bool
    ) -> None:
        target.mkdir()
        current = {path.name: path.stat().st_ino for path in folder.iterdir()} if folder.is_dir() else {}
        for name, child in (current if all_names else self._names.get(inode, {})).items():
            if (folder / name).is_dir():
                self._write_folder(folder / name, child, target / name, now, all_names=all_names, zeros=zeros)
            else:
                content = self._synced.get(child, b"")
                missing = len(now.get(child, b"")) - len(content)
                (target / name).write_bytes(content + b"\0" * max(0, missing if zeros else 0))


def failing(number: int) -> Fault:
    """The operation fails with this error of the system."""

    def fault(_: Disk) -> None:
        raise OSError(number, os.strerror(number))

    return fault
