"""`python -m benchmarks`: time the engines on the Doppler function, print the numbers and keep them in a file."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import torch
import typer
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.measuring import Rates, machine_rates
from benchmarks.stages import EPOCH, STEP, Stage, fit_floor, learner_step_seconds, measured_stages, stage_floors
from benchmarks.timing import ADAM, ANALYTIC, NAMES, WITHOUT_GPYTORCH, Row, Task, available, fit_row, growth
from experiments.doppler import PAPER, SMALLEST_N
from experiments.repetitions import typed_command
from lobal.cli.checks import plain_errors, whole_numbers
from lobal.core.arrays import resolve_device
from lobal.core.files import write_atomically
from lobal.core.versions import versions

L = len(PAPER.bandwidths)
MOST_STEPPED = 2**15  # most labels at which a learner's step is timed, since it takes a campaign to get there
WARM_UP = 64  # labels of a first fit that is not counted, which loads libraries and starts threads
HEADER = f"{'n':>7} {'method':9}{'seconds':>9}{'epochs':>8}{'s/epoch':>10}{'ms/label':>10}{'MiB':>7}{'RMSE':>9}"

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def main(
    sizes: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = "1024,2048,4096",
    engines: Annotated[
        str, typer.Option(help="What to time, separated by commas: analytic, adam, svgp.", metavar="A,B,C")
    ] = "analytic,adam,svgp",
    m: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = 512,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads on the CPU.")] = 1,
    max_epochs: Annotated[int, typer.Option(min=1, help="Largest number of epochs of the SVGP.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for the numbers.")] = Path("out/bench"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No status messages.")] = False,
) -> None:
    """Time lobal on the Doppler function, compared with a stock SVGP and with what the machine allows.

    **analytic** and **adam** are lobal's engines, **svgp** is a single sparse Gaussian process in stock GPyTorch.
    Training that **--max-epochs** cuts off is marked. Every number is the wall time of one run.

    Example: **python -m benchmarks --sizes 1024,2048,4096 --m 512 --device cpu --threads 1 --output out/bench**

    Growth of time and memory: **python -m benchmarks --engines analytic --sizes 4096,8192,16384,32768,65536,131072**
    """
    with plain_errors():
        methods, numbers = [name.strip() for name in engines.split(",")], whole_numbers(sizes)
        if min(numbers) < SMALLEST_N:
            raise ValueError(f"sizes must be numbers of at least {SMALLEST_N} labels, got {numbers}")
        place, found = resolve_device(device), available(methods)
        task = partial(Task.of_size, m=m, device=place, seed=seed, max_epochs=max_epochs)
        output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
        if len(found) < len(methods):
            typer.echo(WITHOUT_GPYTORCH)
        torch.set_num_threads(threads)
        with threadpool_limits(threads):
            measured = _measured(task, numbers, found, lambda doing: None if quiet else typer.echo(doing, err=True))
        machine = torch.cuda.get_device_name(place) if place.type == "cuda" else f"{threads} CPU thread(s)"
        _report(*measured, machine, output / "bench.json")


def _measured(
    task: Callable[[int], Task], sizes: Sequence[int], methods: Sequence[str], on_status: Callable[[str], None]
) -> tuple[Rates, list[Row], list[Stage]]:
    """The rates of the machine, the fits of all methods and sizes, and the stages of the largest analytic fit."""
    on_status("warming up, and measuring the machine")
    small = task(WARM_UP)
    for method in methods:
        fit_row(method, replace(small, m=min(small.m, 16), max_epochs=2))
    rates, rows = machine_rates(small.device), []
    for n in sizes:
        on_status(f"n = {n}: {', '.join(NAMES[method] for method in methods)}")
        rows += [fit_row(method, task(n)) for method in methods]
    return rates, rows, _stages(task(max(sizes)), rates, rows) if ANALYTIC in methods else []


def _stages(task: Task, rates: Rates, rows: Sequence[Row]) -> list[Stage]:
    """The stages of a task, the whole fit, a learner's step, and an epoch of Adam if that was measured."""
    n, m = len(task.sample.y), task.m
    found = {row.method: row for row in rows if row.n == n}
    stages = measured_stages(task.sample, m, task.device, rates, seed=task.seed)
    floor = fit_floor(n, m, L, rates)
    stages.append(Stage("whole fit", found[ANALYTIC].seconds, floor))
    if n <= MOST_STEPPED:
        stages.append(Stage(STEP, learner_step_seconds(n, m, task.device, seed=task.seed), floor))
    epoch = found[ADAM].seconds_per_epoch if ADAM in found else None
    if epoch is not None:
        stages.append(Stage(EPOCH, epoch, stage_floors(n, m, L)[EPOCH].floor(rates)))
    return stages


def _report(rates: Rates, rows: Sequence[Row], stages: Sequence[Stage], machine: str, path: Path) -> None:
    """Print the numbers, and write them to the file."""
    n, methods = max(row.n for row in rows), list(dict.fromkeys(row.method for row in rows))
    lines = [f"Doppler function, {machine}", HEADER, *map(_row_line, rows)]
    lines += [f"analytic fit at n = {n}: seconds, floor, ratio", *map(_stage_line, stages)] if stages else []
    lines += [f"floors at {rates.flops / 1e9:.3g} Gflop/s (matrix product) and {rates.bytes / 1e9:.3g} GB/s (copy)"]
    powers = {method: growth(rows, method) for method in methods}
    lines += [f"{NAMES[name]}: seconds grow as n^{power:.2f}" for name, power in powers.items() if power is not None]
    typer.echo("\n".join(lines))
    record = {
        "experiment": "seconds to fit the Doppler function",
        "command": typed_command(),
        "machine": machine,
        "versions": versions() | ({"gpytorch": version("gpytorch")} if "svgp" in methods else {}),
        "rates": asdict(rates),
        "rows": [asdict(row) for row in rows],
        "growth": powers,
        "stages": {"n": n, "measured": [stage._asdict() for stage in stages]},
    }
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def _row_line(row: Row) -> str:
    epoch = "" if row.seconds_per_epoch is None else f"{row.seconds_per_epoch:.4f}"
    line = f"{row.n:7} {row.method:9}{row.seconds:9.2f}{row.epochs:8}{epoch:>10}{1000 * row.seconds / row.n:10.3f}"
    return f"{line}{row.peak_mib:7.0f}{row.rmse:9.4f}{'' if row.is_finished else ' (cut off)'}"


def _stage_line(stage: Stage) -> str:
    floor = "" if stage.floor is None else f"{stage.floor:10.3g}{stage.seconds / stage.floor:8.1f}"
    return f"  {stage.name:16}{stage.seconds:10.3g}{floor}"


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
