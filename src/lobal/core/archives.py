"""Arrays of npz files, which are read only if the file can hold as much as it says."""

import io
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from numpy import ndarray
from numpy.lib import format as npy

from lobal.core.files import open_plain

LARGEST_RATIO = 1032  # of deflated content to its bytes in the file: zlib's own bound
LONGEST_HEADER = 10_000  # bytes of an array's header, as NumPy has it
PLAIN = "biufSU"  # kinds of numbers and text


class Archive(NamedTuple):
    """Some arrays of a file by name, and the names of all."""

    arrays: dict[str, ndarray]
    names: list[str]


def read_npz(path: Path, wanted: Iterable[str]) -> Archive:
    """The arrays of these names that an npz file has.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not an npz file of plain arrays, or is damaged.
    """
    with open_plain(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                names, size = [name.removesuffix(".npy") for name in archive.namelist()], path.stat().st_size
                return Archive({name: _array(archive, name, size) for name in wanted if name in names}, names)
        except Exception as error:  # of zipfile, zlib and NumPy, which have no common class
            raise ValueError(
                f"{path} cannot be read as an npz file of plain arrays, though it is named like one: "
                f"{error or type(error).__name__}; restore it from a copy, or write it anew with numpy.savez"
            ) from error


def _array(archive: zipfile.ZipFile, name: str, size: int) -> ndarray:
    entry = archive.getinfo(f"{name}.npy")
    if entry.file_size > LARGEST_RATIO * size:
        raise ValueError(f"{name!r} cannot have {entry.file_size} bytes in a file of {size}")
    with archive.open(entry) as content:
        _check_size(io.BytesIO(content.read(LONGEST_HEADER)), entry.file_size, name)
    with archive.open(entry) as content:
        array: ndarray = npy.read_array(content, allow_pickle=False, max_header_size=LONGEST_HEADER)
    return array


def _check_size(content: io.BytesIO, size: int, name: str) -> None:
    """Refuse an array whose shape and type need more bytes than there are, before memory is taken for it."""
    version = npy.read_magic(content)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(content, max_header_size=LONGEST_HEADER)
    if dtype.kind not in PLAIN or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{name!r} has {size} bytes, which do not hold an array of shape {shape} and type {dtype}")
