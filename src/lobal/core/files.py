"""Saving and loading without pickle: tensors in safetensors, everything else in JSON beside them."""

import errno
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

# 2: models may have an estimated noise and smoothness. 3: the engine of a model has its own options. All are read.
FORMAT_VERSION = 3

# A temporary file of `write_atomically`: hidden, with the name of the final file and a token.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")


def save_record(path: str | os.PathLike[str], tensors: dict[str, Tensor], fields: dict[str, Any]) -> None:
    """Write one self-contained file atomically: the tensors, with the fields as JSON in its header."""
    metadata = {"lobal": json.dumps({"format": FORMAT_VERSION, **fields})}
    write_atomically(Path(path), save({name: value.contiguous() for name, value in tensors.items()}, metadata))


def load_record(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and fields of a file that `save_record` wrote.

    Raises:
        ValueError: the file is not such a record, or was written by a newer version.
    """
    content = Path(path).read_bytes()
    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        fields = json.loads(header["__metadata__"]["lobal"])
        tensors = load(content)
        written_by_newer = fields["format"] > FORMAT_VERSION
    except Exception as error:
        raise ValueError(f"{os.fspath(path)!r} is not a file that lobal saved, or it is damaged") from error
    if written_by_newer:
        found = f"{os.fspath(path)!r} has format {fields['format']}"
        raise ValueError(f"{found}, this lobal reads up to {FORMAT_VERSION}; install a newer lobal")
    return tensors, fields


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that readers see either as it was or complete; on return, content and name are on disk."""
    # Not by the tempfile module, whose files are readable by their owner only.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


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


def remove_unfinished(folder: Path) -> None:
    """Remove what `write_atomically` left in a folder when its process was killed; no other process may write there."""
    for file in folder.glob(".*"):
        if _UNFINISHED.fullmatch(file.name):
            file.unlink()
