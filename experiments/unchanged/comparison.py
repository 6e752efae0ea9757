"""Present results beside the record: how far they differ, and whether the same points were chosen."""

import json
import math
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from experiments.unchanged.calls import Quantity, Result, run_case
from experiments.unchanged.cases import CASES
from lobal.core.versions import versions

RECORD = Path("docs/results/unchanged")
TOLERANCE = 1e-8  # in units of each quantity's scale: of predictions, the labels' standard deviation
DIFFERS = "DIFFERS"


class Record(NamedTuple):
    """What was written down under version 0.1.0."""

    versions: dict[str, str]
    results: dict[str, Result]
    sensitivities: dict[str, float]


class Comparison(NamedTuple):
    """A case beside its record."""

    worst: str  # the quantity that differs most, or what is wrong
    difference: float
    same_choices: bool | None  # none where there are none to compare


def read_record(folder: Path) -> Record:
    """The record in a folder."""
    record = Record({}, {}, {})
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        record.versions.update(content["versions"])
        record.sensitivities.update(content["sensitivity"])
        for case, quantities in content["cases"].items():
            record.results[case] = {key: Quantity(*quantity) for key, quantity in quantities.items()}
    return record


def compared(recorded: Result, result: Result) -> Comparison:
    """By how much a result differs from the record; infinitely if a quantity is missing or new."""
    if recorded.keys() != result.keys():
        return Comparison(f"only in one: {', '.join(sorted(recorded.keys() ^ result.keys()))}", math.inf, None)
    differences = {name: quantity.difference(result[name]) for name, quantity in recorded.items()}
    worst = max(differences, key=lambda name: differences[name])
    choices = [difference <= TOLERANCE for name, difference in differences.items() if name.startswith("chosen")]
    return Comparison(worst, differences[worst], all(choices) if choices else None)


def main(
    folder: Annotated[Path, typer.Option(help="Folder of the record.")] = RECORD,
    case: Annotated[list[str] | None, typer.Option(help="Cases to run; may be repeated.", show_default="all")] = None,
) -> None:
    """Compare the present lobal with the record; exit code 1 where any case differs."""
    unknown = sorted({*(case or [])} - CASES.keys())
    if unknown:
        raise ValueError(f"cases are {', '.join(CASES)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    record, console = read_record(folder), Console(width=140, highlight=False)
    for name, version in versions().items():
        if record.versions.get(name) not in (None, version):
            console.print(f"{name} was {record.versions[name]}, is {version}")
    table = Table("case", "difference", "of", "sensitivity", "same choices", "verdict")
    failed = False
    for name in case or CASES:
        with threadpool_limits(1):
            comparison = compared(record.results[name], run_case(CASES[name]))
        verdict = "same" if comparison.difference <= TOLERANCE else DIFFERS
        failed |= verdict == DIFFERS
        choices = {True: "yes", False: "NO", None: "-"}[comparison.same_choices]
        numbers = f"{comparison.difference:.1e}", comparison.worst, f"{record.sensitivities[name]:.1e}"
        table.add_row(name, *numbers, choices, verdict)
    console.print(table)
    raise typer.Exit(int(failed))
