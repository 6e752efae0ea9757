"""Saving and loading without pickle: tensors in safetensors, everything else in JSON beside them."""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any, BinaryIO

from safetensors.torch import load, save
from torch import Tensor

# 2: models may have an estimated noise and smoothness. 3: the engine of a model has its own options. 4: factors that
# can be computed again are left out. 5: inputs may have units of their own. All are read.
FORMAT_VERSION = 5

# What to do about errors of the system that are nobody's mistake.
ADVICE = {
    errno.ENOSPC: "free some space and repeat the call",
    errno.EDQUOT: "your quota is used up: remove some files and repeat the call",
    errno.EIO: "the disk reports an error: check it, and go on with a copy on another one",
    errno.EROFS: "the file system can only be read: mount it for writing, or go on with a copy elsewhere",
    errno.EACCES: "get permission to write there, or go on with a copy elsewhere",
}
# The hash of a record stands in its own header; while it is computed, as many zeros stand there.
_NO_HASH = "0" * 64
# A temporary file of `write_atomically`: hidden, with the name of the final file and a token.
_UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}")
# Opening a named pipe to read from it waits for a writer without this.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def save_record(path: str | os.PathLike[str], tensors: dict[str, Tensor], fields: dict[str, Any]) -> None:
    """Write one self-contained file atomically: the tensors, with the fields and a hash as JSON in its header."""
    metadata = {"lobal": json.dumps({"format": FORMAT_VERSION, **fields}), "sha256": _NO_HASH}
    content = save({name: value.contiguous() for name, value in tensors.items()}, metadata)
    write_atomically(Path(path), content.replace(_NO_HASH.encode(), _hash(content).encode(), 1))


def load_record(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and fields of a file that `save_record` wrote.

    Raises:
        ValueError: the file is not such a record, is damaged, or was written by a newer version.
    """
    content = read_plain(path)
    try:
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        fields = json.loads(metadata["lobal"])
        _check_hash(content, metadata.get("sha256"))
        tensors = load(content)
        if type(fields["format"]) is not int:
            raise TypeError(f"format must be a whole number, got {fields['format']!r}")
        written_by_newer = fields["format"] > FORMAT_VERSION
    except Exception as error:
        raise ValueError(
            f"{os.fspath(path)!r} is not a file that lobal saved, or it is damaged; restore it from a copy"
        ) from error
    if written_by_newer:
        found = f"{os.fspath(path)!r} has format {fields['format']}"
        raise ValueError(f"{found}, this lobal reads up to {FORMAT_VERSION}; install a newer lobal")
    return tensors, fields


def read_plain(path: str | os.PathLike[str], *, flags: int = 0) -> bytes:
    """The content of a regular file; `flags` may be `NO_LINK`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, a named pipe or a device, or a link where none is followed.
    """
    with open_plain(path, os.O_RDONLY | flags) as file:
        return file.read()


def open_plain(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> BinaryIO:
    """A regular file, opened at once or refused; raises what `read_plain` raises."""
    try:
        number = os.open(path, flags | _AT_ONCE, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{os.fspath(path)} is a link; put the file itself in its place") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):  # ENXIO: a socket
            raise ValueError(_not_plain(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ValueError(_not_plain(path))
    if flags & os.O_APPEND:
        return open(path, "a+b", buffering=0, opener=lambda *_: number)
    return open(path, "rb", opener=lambda *_: number)


def _not_plain(path: str | os.PathLike[str]) -> str:
    return f"{os.fspath(path)} is a folder, a pipe or a device, not a file; restore it from a copy, or remove it"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_hash(content: bytes, found: str | None) -> None:
    """Refuse a record that is not as it was written; those of earlier versions have no hash."""
    if found is not None and _hash(content.replace(found.encode(), _NO_HASH.encode(), 1)) != found:
        raise ValueError("its content does not have the hash it was written with")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that readers see either as it was or complete; on return, content and name are on disk.

    Raises:
        OSError: the disk is full, or the file cannot be written for another reason; what was there is unchanged.
    """
    # Not by the tempfile module, whose files are readable by their owner only.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        write_synced(beside, content)
        beside.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        explain(error, path, "what was there before is unchanged")
        raise
    sync_folder(path.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file; on return its content is on disk, its name not yet."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        write_all(file, content)
        os.fsync(file)
    finally:
        os.close(file)


def write_all(file: int, content: bytes) -> None:
    """Write everything; the system may take it in parts."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def explain(error: BaseException, path: Path, state: str, *, otherwise: str | None = None) -> None:
    """Raise an error of the system again, naming the file, what has become of it and what to do.

    Others are passed over, and so are rare ones of the system if it is not said what to do `otherwise`.
    """
    advice = ADVICE.get(error.errno or 0, otherwise) if isinstance(error, OSError) else None
    if isinstance(error, OSError) and advice is not None:
        message = f"{error.strerror}: {path} cannot be written, {state}; {advice}"
        raise type(error)(error.errno, message) from error


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk: a flushed file can still lose its name in a power cut."""
    if os.name == "nt":  # Windows cannot open folders
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:
        # Some network file systems cannot flush folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they do not exist, with their names flushed to disk."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in made:
        sync_folder(folder.parent)


def remove_unfinished(folder: Path, names: re.Pattern[str]) -> None:
    """Remove what `write_atomically` left of files of these names when its process was killed, and nothing else.

    No other process may write such files there. Folders and links are none of these, whatever they are called.
    """
    for file in folder.glob(".*"):
        found = _UNFINISHED.fullmatch(file.name)
        if found and names.fullmatch(found[1]) and file.is_file() and not file.is_symlink():
            file.unlink()
