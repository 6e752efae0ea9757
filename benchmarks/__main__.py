"""`python -m benchmarks`: time the engines on the Doppler function, print the numbers and keep them in a file."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, final

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


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure."""

    sizes: Sequence[int]
    methods: Sequence[str]
    m: int = 512
    device: str = "cpu"
    threads: int = 1
    max_epochs: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < SMALLEST_N:
            raise ValueError(f"sizes must be numbers of at least {SMALLEST_N} labels, got {list(self.sizes)}")
        resolve_device(self.device)
        available(self.methods)

    def task(self, n: int) -> Task:
        """The data of one size, and how to fit them."""
        device = resolve_device(self.device)
        return Task.of_size(n, m=self.m, device=device, seed=self.seed, max_epochs=self.max_epochs)


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
        methods = [name.strip() for name in engines.split(",")]
        options: dict[str, Any] = {"m": m, "device": device, "threads": threads, "max_epochs": max_epochs, "seed": seed}
        plan = Plan(sizes=whole_numbers(sizes), methods=methods, **options)
        output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
        if len(available(methods)) < len(methods):
            typer.echo(WITHOUT_GPYTORCH)
        bench(replace(plan, methods=available(methods)), output / "bench.json", quiet=quiet)


def bench(plan: Plan, path: Path, *, quiet: bool) -> None:
    """Measure with the plan's threads, print the numbers, and write them to the file."""
    torch.set_num_threads(plan.threads)
    with threadpool_limits(plan.threads):
        rates, rows, stages = _measured(
            plan, (lambda _: None) if quiet else (lambda doing: typer.echo(doing, err=True))
        )
    device, n = resolve_device(plan.device), max(plan.sizes)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{plan.threads} CPU thread(s)"
    lines = [f"Doppler function, m = {plan.m}, {machine}", HEADER, *map(_row_line, rows)]
    lines += [f"analytic fit at n = {n}: seconds, floor, ratio", *map(_stage_line, stages)] if stages else []
    lines += [f"floors at {rates.flops / 1e9:.3g} Gflop/s (matrix product) and {rates.bytes / 1e9:.3g} GB/s (copy)"]
    powers = {method: growth(rows, method) for method in plan.methods}
    lines += [f"{NAMES[name]}: seconds grow as n^{power:.2f}" for name, power in powers.items() if power is not None]
    typer.echo("\n".join(lines))
    record = {
        "experiment": "seconds to fit the Doppler function",
        "command": typed_command(),
        "machine": machine,
        "versions": versions() | ({"gpytorch": version("gpytorch")} if "svgp" in plan.methods else {}),
        "rates": asdict(rates),
        "rows": [asdict(row) for row in rows],
        "growth": powers,
        "stages": {"n": n, "measured": [stage._asdict() for stage in stages]},
    }
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def _measured(plan: Plan, on_status: Callable[[str], None]) -> tuple[Rates, list[Row], list[Stage]]:
    """The rates of the machine, the fits of all methods and sizes, and the stages of the largest analytic fit."""
    on_status("warming up, and measuring the machine")
    small = replace(plan, m=min(plan.m, 16), max_epochs=2).task(WARM_UP)
    for method in plan.methods:
        fit_row(method, small)
    rates, rows = machine_rates(resolve_device(plan.device)), []
    for n in plan.sizes:
        task = plan.task(n)
        for method in plan.methods:
            on_status(f"n = {n}: {NAMES[method]}")
            rows.append(fit_row(method, task))
    return rates, rows, _stages(plan, max(plan.sizes), rates, rows) if ANALYTIC in plan.methods else []


def _stages(plan: Plan, n: int, rates: Rates, rows: Sequence[Row]) -> list[Stage]:
    """The stages at n labels, the whole fit, a learner's step, and an epoch of Adam if that was measured."""
    found, device = {row.method: row for row in rows if row.n == n}, resolve_device(plan.device)
    stages = measured_stages(plan.task(n).sample, plan.m, device, rates, seed=plan.seed)
    floor = fit_floor(n, plan.m, L, rates)
    stages.append(Stage("whole fit", found[ANALYTIC].seconds, floor))
    if n <= MOST_STEPPED:
        stages.append(Stage(STEP, learner_step_seconds(n, plan.m, device, seed=plan.seed), floor))
    epoch = found[ADAM].seconds_per_epoch if ADAM in found else None
    if epoch is not None:
        stages.append(Stage(EPOCH, epoch, stage_floors(n, plan.m, L)[EPOCH].floor(rates)))
    return stages


def _row_line(row: Row) -> str:
    epoch = "" if row.seconds_per_epoch is None else f"{row.seconds_per_epoch:.4f}"
    line = f"{row.n:7} {row.method:9}{row.seconds:9.2f}{row.epochs:8}{epoch:>10}{1000 * row.seconds / row.n:10.3f}"
    return f"{line}{row.peak_mib:7.0f}{row.rmse:9.4f}{'' if row.is_finished else ' (cut off)'}"


def _stage_line(stage: Stage) -> str:
    floor = "" if stage.floor is None else f"{stage.floor:10.3g}{stage.seconds / stage.floor:8.1f}"
    return f"  {stage.name:16}{stage.seconds:10.3g}{floor}"


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
