"""The body of `python -m benchmarks`: measure, print tables, and write the numbers."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.measuring import Rates, machine_rates
from benchmarks.stages import (
    EPOCH,
    STEP,
    Stage,
    fit_floor,
    learner_step_seconds,
    measured_stages,
    stage_floors,
)
from benchmarks.timing import (
    ADAM,
    ANALYTIC,
    NAMES,
    WITHOUT_GPYTORCH,
    Row,
    Task,
    available,
    fit_row,
    growth,
)
from experiments.doppler import PAPER, SMALLEST_N
from experiments.repetitions import typed_command
from lobal.core.arrays import resolve_device
from lobal.core.files import write_atomically
from lobal.core.versions import versions
from lobal.experts.features import CACHE_BYTES

L = len(PAPER.bandwidths)
CUT = "*"  # marks a training that did not come to its end
MOST_STEPPED = 2**15  # most labels at which a learner's step is timed, since it takes a campaign to get there
WARM_UP = 64  # labels of a first fit that is not counted, which loads libraries and starts threads


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


class Outcome(NamedTuple):
    """All measurements; the stages are those of one size."""

    plan: Plan
    rates: Rates
    rows: list[Row]
    stages: list[Stage]
    stages_at: int


def bench(plan: Plan, output: Path, *, quiet: bool = False) -> None:
    """Measure, print tables, and write bench.json to the folder."""
    console = Console()
    output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
    methods = available(plan.methods)
    if len(methods) < len(plan.methods):
        console.print(WITHOUT_GPYTORCH, markup=False)
    if not methods:
        return
    status = Console(stderr=True, quiet=quiet)
    outcome = run(replace(plan, methods=methods), lambda doing: status.print(doing, highlight=False))
    for table in (timing_table(outcome), stage_table(outcome)):
        if table.row_count:
            console.print(table)
    for line in remarks(outcome):
        console.print(line)
    write_atomically(output / "bench.json", (json.dumps(record(outcome), indent=1) + "\n").encode())
    console.print(f"numbers in {output / 'bench.json'}")


def run(plan: Plan, notify: Callable[[str], None]) -> Outcome:
    """The measurements, method by method within each size, each in this process with the plan's threads."""
    torch.set_num_threads(plan.threads)
    with threadpool_limits(plan.threads):
        return _run(plan, notify)


def _run(plan: Plan, notify: Callable[[str], None]) -> Outcome:
    notify("warming up, and measuring the machine")
    device = resolve_device(plan.device)
    small = replace(plan, m=min(plan.m, 16), max_epochs=2).task(WARM_UP)
    for method in plan.methods:
        fit_row(method, small)
    rates = machine_rates(device)
    rows: list[Row] = []
    for n in plan.sizes:
        task = plan.task(n)
        for method in plan.methods:
            notify(f"n = {n}: {NAMES[method]}")
            rows.append(fit_row(method, task))
    stages: list[Stage] = []
    n = max(plan.sizes)
    if ANALYTIC in plan.methods:
        notify(f"n = {n}: stages of the analytic fit")
        stages = _stages(plan, n, rates, rows)
    return Outcome(plan, rates, rows, stages, n)


def _stages(plan: Plan, n: int, rates: Rates, rows: Sequence[Row]) -> list[Stage]:
    """The stages at n labels, the whole fit, a learner's step, and an epoch of Adam where that was measured."""
    found = {row.method: row for row in rows if row.n == n}
    stages = measured_stages(plan.task(n).sample, plan.m, resolve_device(plan.device), rates, seed=plan.seed)
    whole = found[ANALYTIC]
    floor = fit_floor(n, plan.m, L, rates)
    stages.append(Stage("whole fit", whole.seconds, floor))
    if n <= MOST_STEPPED:
        step = learner_step_seconds(n, plan.m, resolve_device(plan.device), seed=plan.seed)
        stages.append(Stage(STEP, step, floor))
    epoch = found[ADAM].seconds_per_epoch if ADAM in found else None
    if epoch is not None:
        stages.append(Stage(EPOCH, epoch, stage_floors(n, plan.m, L)[EPOCH].floor(rates)))
    return stages


def timing_table(outcome: Outcome) -> Table:
    """Seconds, memory and errors of every fit."""
    plan = outcome.plan
    title = f"Doppler function, m = {plan.m}, {machine(plan)}"
    columns = ("seconds", "epochs", "s/epoch", "ms/label", "peak\nMiB", "RMSE", "valid.\nRMSE")
    table = _table(title, "n", "method", numbers=columns)
    for row in outcome.rows:
        table.add_row(
            str(row.n),
            row.method,
            f"{row.seconds:.2f}{'' if row.is_finished else CUT}",
            str(row.epochs),
            "" if row.seconds_per_epoch is None else f"{row.seconds_per_epoch:.4f}",
            f"{1000 * row.seconds_per_label:.3f}" if row.is_finished else "",
            f"{row.peak_mib:.0f}",
            f"{row.rmse:.4f}",
            f"{row.validation_rmse:.4f}",
        )
    return table


def stage_table(outcome: Outcome) -> Table:
    """Seconds of the stages beside their floors."""
    title = f"Analytic fit at n = {outcome.stages_at}"
    table = _table(title, "stage", numbers=("seconds", "floor", "ratio"))
    for stage in outcome.stages:
        floor = "" if stage.floor is None else f"{stage.floor:.3g}"
        table.add_row(stage.name, f"{stage.seconds:.3g}", floor, _number(stage.ratio))
    return table


def remarks(outcome: Outcome) -> list[str]:
    """Notes on the tables, and the growth of time."""
    rates = outcome.rates
    lines = [f"floors at {rates.flops / 1e9:.3g} Gflop/s (matrix product) and {rates.bytes / 1e9:.3g} GB/s (copy)"]
    if any(not row.is_finished for row in outcome.rows):
        lines.append(f"{CUT} cut off by --max-epochs {outcome.plan.max_epochs} before the learning rate was spent")
    for method in outcome.plan.methods:
        power = growth(outcome.rows, method)
        if power is not None:
            lines.append(f"{NAMES[method]}: seconds grow as n^{power:.2f}")
    if ANALYTIC in outcome.plan.methods:
        kept = CACHE_BYTES // (8 * L * outcome.plan.m)
        lines.append(f"features are kept up to n = {kept} ({CACHE_BYTES / 2**30:g} GiB), recomputed in parts beyond")
    return lines


def record(outcome: Outcome) -> dict[str, Any]:
    """Everything as JSON can hold it."""
    plan = outcome.plan
    return {
        "experiment": "seconds to fit the Doppler function",
        "command": typed_command(),
        "machine": machine(plan),
        "versions": versions() | _gpytorch_version(),
        "rates": asdict(outcome.rates),
        "rows": [asdict(row) for row in outcome.rows],
        "growth": {method: growth(outcome.rows, method) for method in plan.methods},
        "stages": {"n": outcome.stages_at, "measured": [stage._asdict() for stage in outcome.stages]},
    }


def machine(plan: Plan) -> str:
    """The GPU, or the number of CPU threads."""
    device = resolve_device(plan.device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{plan.threads} CPU thread{'s' if plan.threads > 1 else ''}"


def _gpytorch_version() -> dict[str, str]:
    try:
        return {"gpytorch": version("gpytorch")}
    except PackageNotFoundError:
        return {}


def _table(title: str, *words: str, numbers: Sequence[str]) -> Table:
    """A table narrow enough for 80 columns, the width in a file."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in words:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
