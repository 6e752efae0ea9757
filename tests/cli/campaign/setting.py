"""Commands called as a user types them, and processes that are killed in the middle of one."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner, Result

import lobal
from lobal.cli.app import app

ROOT = Path(lobal.__file__).parents[1]
# Imports once, then calls every command in a child that kills itself at an operation on the disk.
KILLED = """
import json, os, signal, sys
from typer.testing import CliRunner
import lobal.cli.campaign.begin, lobal.cli.campaign.rounds, lobal.cli.campaign.views
from lobal.cli.app import app

def at(operation, k):
    count = 0
    def wrapped(*arguments, **options):
        nonlocal count
        count += 1
        if count == k:
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*arguments, **options)
    return wrapped

codes = []
for k, folder, arguments in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.chdir(folder)
        os.fsync = at(os.fsync, k)
        os._exit(CliRunner().invoke(app, arguments).exit_code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def said(result: Result) -> str:
    """What was printed, without the frame around errors and the line breaks it makes."""
    return " ".join(result.output.replace("│", " ").split())


def done(*arguments: object) -> str:
    """What a command printed that has to succeed."""
    result = call(*arguments)
    assert result.exit_code == 0, (result.output, repr(result.exception))
    return said(result)


def refused(*arguments: object) -> str:
    """What a command printed that has to be refused, without a traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, (result.output, repr(result.exception))
    return said(result)


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "400"}


def killed(calls: Sequence[tuple[int, Path, Sequence[object]]]) -> list[int]:
    """The exit codes of commands in folders, each killed when it flushes to disk for the k-th time; -9 if it was."""
    given = [(k, str(folder), [str(each) for each in arguments]) for k, folder, arguments in calls]
    words = [sys.executable, "-c", KILLED, json.dumps(given)]
    result = subprocess.run(words, capture_output=True, text=True, env=environment(), check=True)
    return [int(code) for code in json.loads(result.stdout)]


def rows_of(path: Path | str, separator: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter=separator))
