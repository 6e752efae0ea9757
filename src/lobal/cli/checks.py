"""Checks of what a user typed; errors become messages with exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


def whole_numbers(text: str) -> list[int]:
    """Numbers from a list separated by commas."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"expected whole numbers separated by commas, got {text!r}") from error


def refuse_to_overwrite(output: Path, read: list[Path]) -> None:
    """Raise a ValueError if the output is one of the input files."""
    if output.resolve() in [path.resolve() for path in read]:
        raise ValueError(f"{output} is an input file and would be overwritten; choose another --output")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a ValueError or OSError as a message with exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
