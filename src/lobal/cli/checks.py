"""Checks of what a user typed; errors become messages with exit code 2."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import typer

CAMPAIGN = ("header.json", "journal.jsonl")  # a folder with these is one


def whole_numbers(text: str) -> list[int]:
    """Numbers from a list separated by commas."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"expected whole numbers separated by commas, got {text!r}") from error


def refuse_to_overwrite(outputs: Mapping[str, Path], read: Sequence[Path]) -> None:
    """Raise a ValueError if an output, by the option that names it, is an input, another output or a campaign's file.

    Links count as the files that they lead to, and a hard link as the same file.
    """
    for option, output in outputs.items():
        if any(_is_same(output, path) for path in read):
            raise ValueError(f"{output} is an input file and would be overwritten; choose another {option}")
        if is_of_campaign(output):
            raise ValueError(f"{output} is or would be one of a campaign's own files; choose another {option}")
    for (first, one), (second, other) in combinations(outputs.items(), 2):
        if _is_same(one, other):
            raise ValueError(f"{first} and {second} are both {one}; choose another file for one of them")


def is_of_campaign(path: Path) -> bool:
    """Whether a file, there or not, has a name that lobal uses in the folder of a campaign; reports may be there."""
    target = path.resolve()
    folders = [folder for folder in (target, *target.parents) if all((folder / name).exists() for name in CAMPAIGN)]
    return any(_is_own(target.relative_to(folder)) for folder in folders)


def own_files(campaign: Path) -> list[Path]:
    """The files that lobal keeps in a campaign's folder."""
    return [path for path in campaign.rglob("*") if _is_own(path.relative_to(campaign))]


def _is_own(name: Path) -> bool:
    return name.parts[:1] in [(), ("lock",), ("steps",)] or name.suffix in (".json", ".jsonl", ".lobal")


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a ValueError or OSError as a message with exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
