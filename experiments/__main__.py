"""The command line of the experiments.

python -m experiments --list                                   # names, scales and figures of the paper
python -m experiments NAME [options]                           # one experiment; NAME --help lists its options
python -m experiments FIGURE --scale smoke|quick|paper         # FIGURE is a name, or a label such as fig:summary
python -m experiments all --scale smoke

With a scale, records and figures go to the folder `out/SCALE`, of the smoke scale to a temporary one; `--into FOLDER`
names another. Further options are added to those of the scale. Results that a record has are not computed again.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import typer

from experiments.registry import EXPERIMENTS, SCALES, commands
from lobal.cli.checks import plain_errors

ALL = "all"


def command(name: str) -> typer.Typer:
    """The experiment as a command line application; errors in its input become messages with exit code 2."""
    module, function = EXPERIMENTS[name].function.split(":")
    application = typer.Typer(name=name, add_completion=False)
    application.command()(_with_plain_errors(getattr(import_module(module), function)))
    return application


def _with_plain_errors(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:  # noqa: ANN401 - those of the function
        with plain_errors():
            function(*arguments, **options)

    return run


def run_scale(name: str, scale: str, folder: str, further: Sequence[str] = ()) -> None:
    """Run all commands of an experiment at a scale, and say how long they took."""
    begun = time.perf_counter()
    with plain_errors():
        lines = commands(name, scale, folder, " ".join(further))
    for first, *options in lines:
        print(f"python -m experiments {' '.join([first, *options])}", flush=True)
        status = command(first)(options, prog_name=f"python -m experiments {first}", standalone_mode=False)
        if status:
            raise SystemExit(status)
    print(f"{name}, {scale}: {time.perf_counter() - begun:.0f} seconds", flush=True)


def named(figure: str, scale: str) -> list[str]:
    """The experiments of that name, of that label in the paper, or all that have the scale and their data."""
    if figure == ALL:
        has_data = "LOBAL_DATA" in os.environ
        return [
            name for name, each in EXPERIMENTS.items() if scale in each.scales and (has_data or not each.needs_data)
        ]
    return [name for name, each in EXPERIMENTS.items() if figure == name or figure in each.figures]


def listing() -> str:
    """All experiments with their scales and the figures of the paper that they reproduce."""
    lines = []
    for name, experiment in EXPERIMENTS.items():
        scales = ", ".join(experiment.scales) + (", needs LOBAL_DATA" if experiment.needs_data else "")
        lines.append(f"  {name:25}{experiment.summary}" + (f" [{scales}]" if experiment.scales else ""))
        lines += [f"  {'':25}  {figure}" for figure in experiment.figures]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Run what is named first with the options that follow, or list all experiments."""
    figure, *words = arguments or ["--list"]
    scale, into = _taken(words, "--scale"), _taken(words, "--into")
    if scale is None and figure in EXPERIMENTS:
        command(figure)(words, prog_name=f"python -m experiments {figure}")
        return
    names = named(figure, scale or "")
    if scale is None or scale not in SCALES or not names:
        print(f"{__doc__}\n{listing()}")
        if figure in ("--list", "--help"):
            return
        known = names or figure == ALL
        raise SystemExit(f"\n--scale must be one of {', '.join(SCALES)}" if known else f"\nno experiment is {figure!r}")
    with _folder(scale, into) as folder:
        for name in names:
            run_scale(name, scale, folder, words)


def _folder(scale: str, into: str | None) -> AbstractContextManager[str]:
    """The folder of records and figures; that of the smoke scale is removed in the end."""
    if into is None and scale == "smoke":
        return TemporaryDirectory()
    return nullcontext(f"out/{scale}" if into is None else into)


def _taken(words: list[str], option: str) -> str | None:
    """The value that follows an option, which is removed from the words with it."""
    if option not in words[:-1]:
        return None
    place = words.index(option)
    _, value = words.pop(place), words.pop(place)
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
