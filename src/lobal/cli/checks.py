"""Checks of what a user typed; errors become messages with exit code 2."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import typer

# Beside that of `lobal.core.files`, which the library itself gives.
OTHER_ADVICE = {
    errno.ENOENT: "check the name",
    errno.EPERM: "get permission to write there, or choose another place",
}
CAMPAIGN = ("header.json", "journal.jsonl")  # a folder with these is one
TABLES = "tables.json"  # which a campaign of the command line has as well
MOST_NAMED = 10  # campaigns in a message
REPORT = b'<meta name="generator" content="lobal">'  # by which a page is known to be a report


def check_campaign(folder: Path) -> None:
    """Raise a FileNotFoundError if a folder is no campaign of the command line; says which are."""
    if (folder / TABLES).is_file():
        return
    if not folder.exists():
        found = "there is no such folder"
    elif not folder.is_dir():
        found = "it is a file; the folder of the campaign comes first"
    elif (folder / CAMPAIGN[0]).exists():
        found = f"it has no {TABLES}, so it was begun in Python; go on there, with lobal.ActiveLearner.load"
    else:
        found = f"it has no {TABLES}"
    raise FileNotFoundError(f"{folder} is no campaign of `lobal campaign`: {found}; {_campaigns_nearby()}")


def _campaigns_nearby() -> str:
    here = Path()
    if (here / TABLES).is_file():
        return "you are in the folder of a campaign: call it . or go up by one folder"
    found = sorted(path.parent.name for path in here.glob(f"*/{TABLES}"))
    if not found:
        return "begin one with `lobal campaign new`, or go to the folder that yours is in"
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"campaigns here: {', '.join(found[:MOST_NAMED])}{more}"


def check_files(paths: Sequence[Path]) -> None:
    """Raise a FileNotFoundError if one of the files to read is not there."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}; check the name")


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


def refuse_existing(outputs: Mapping[str, Path], *, force: bool) -> None:
    """Raise a ValueError if an output, by the option that names it, exists, unless it may be overwritten."""
    for option, output in outputs.items():
        if output.is_file() and not force:
            raise ValueError(f"{output} exists; choose another {option}, or overwrite it with --force")


def refuse_other_than_report(option: str, page: Path, *, force: bool) -> None:
    """Raise a ValueError if a page exists that is no earlier report, unless it may be overwritten."""
    if page.is_file():
        with page.open("rb") as file:
            is_report = REPORT in file.read(1000)
        refuse_existing({option: page}, force=force or is_report)


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


def make_places(outputs: Mapping[str, Path]) -> None:
    """Make the folders of files to write, by the options that name them; fails before the work, not after it."""
    for option, output in outputs.items():
        if output.is_dir():
            raise ValueError(f"{output} is a folder; name a file as {option}")
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(f"{output} would lie in a file, not in a folder; choose another {option}") from error
        if not os.access(output.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(output.parent))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a ValueError or OSError as a message with exit code 2, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        raise typer.BadParameter(_explained(error)) from error


def _explained(error: OSError) -> str:
    """What is wrong, where, and what to do about it, without the number of the error."""
    if error.errno is None:
        return str(error)
    from lobal.core.files import ADVICE

    advice = {**OTHER_ADVICE, **ADVICE}.get(error.errno, "")
    text = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    return text if not advice or advice in text else f"{text}; {advice}"
