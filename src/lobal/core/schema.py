"""What JSON read from a file must be: checks that are put together like the values they describe.

A check takes a value and its name, and raises a ValueError that has the name, what was expected and what was got.
Entries that a table does not name are passed over: a later version may have written them.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from lobal.core.checks import shown

Check: TypeAlias = Callable[[object, str], None]

FINITE, TINY = sys.float_info.max, sys.float_info.min
LARGEST = 1e60  # of numbers in files: squares of ratios of two are still finite
RESTORE = "restore it from a copy"


def _refuse(name: str, expected: str, got: object) -> None:
    raise ValueError(f"{name} must be {expected}, got {shown(got)}")


def whole(least: int = 0, most: int = 2**63 - 1) -> Check:
    """A whole number within the bounds."""

    def check(value: object, name: str) -> None:
        if type(value) is not int or not least <= value <= most:
            _refuse(name, f"a whole number from {least} to {most}", value)

    return check


def real(least: float = -LARGEST, most: float = LARGEST, *, words: tuple[float | None, ...] = ()) -> Check:
    """A number within the bounds, or one of the words, such as infinity or None."""

    def check(value: object, name: str) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (value in words or (is_number and least <= value <= most)):  # type: ignore[operator]  # a number
            others = "".join(f" or {word}" for word in words)
            _refuse(name, f"a number from {least:g} to {most:g}{others}", value)

    return check


def positive(*, words: tuple[float | None, ...] = ()) -> Check:
    """A number above zero, far from the smallest and the largest."""
    return real(1.0 / LARGEST, words=words)


def text(*words: str) -> Check:
    """A string: one of the words, if there are any."""

    def check(value: object, name: str) -> None:
        if not isinstance(value, str) or (words and value not in words):
            _refuse(name, f"one of {sorted(words)}" if words else "a string", value)

    return check


def flag(value: object, name: str) -> None:
    """True or false; 1 and 0 are the same in options."""
    if not isinstance(value, int) or value not in (0, 1):
        _refuse(name, "true or false", value)


def anything(value: object, name: str) -> None:
    """No check at all."""


def optional(check: Check) -> Check:
    """None, or what the check wants."""
    return lambda value, name: None if value is None else check(value, name)


def list_of(each: Check, length: int | None = None) -> Check:
    """A list of entries of one kind."""

    def check(value: object, name: str) -> None:
        if not isinstance(value, list | tuple) or length not in (None, len(value)):
            _refuse(name, "a list" if length is None else f"a list of {length}", value)
        for place, entry in enumerate(value):  # type: ignore[arg-type, var-annotated]  # a list
            each(entry, f"{name}[{place}]")

    return check


def table(required: Mapping[str, Check], **optional_entries: Check) -> Check:
    """A JSON object with the required entries; the optional ones are checked where they are there."""

    def check(value: object, name: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(name, "a JSON object", value)
            return
        missing = [key for key in required if key not in value]
        if missing:
            raise ValueError(f"{name} must have the entry {missing[0]!r}, got only {shown(sorted(map(str, value)))}")
        for key, entry in {**required, **optional_entries}.items():
            if key in value:
                entry(value[key], f"{name}.{key}")

    return check


@contextmanager
def read_from(
    path: str | os.PathLike[str], what: str, *, advice: str = RESTORE, origin: str = " that lobal saved"
) -> Iterator[None]:
    """Errors of checks as a ValueError that names the file, what it was taken for, and what to do."""
    try:
        yield
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:  # RuntimeError: of torch
        raise ValueError(f"{os.fspath(path)!r} is not {what}{origin}: {error}; {advice}") from error
