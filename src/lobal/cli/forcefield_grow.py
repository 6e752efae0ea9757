"""The body of `lobal forcefield grow`: from one configuration to a force field, and to a page about it.

Everything is in one folder: `start.jsonl`, the first trajectories, step by step; the campaign; and, in the end,
`labels.xyz`, `model.lobal` and `report.html`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from lobal.active.learner import ActiveLearner
from lobal.cli.checks import refuse_to_overwrite
from lobal.cli.forcefield import print_lines, status_messages
from lobal.core.arrays import resolve_device
from lobal.molecules.dynamics.growth import Growth, GrowthSettings, Round
from lobal.molecules.dynamics.start import StartSettings
from lobal.molecules.dynamics.walkers import SimulationOptions
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory
from lobal.molecules.oracles import oracle_named

START, LABELS, REPORT, LOCK = "start.jsonl", "labels", "report.html", "lock"
SETTINGS = ForceFieldSettings()  # of campaigns

Show: TypeAlias = Callable[[str], None]


@final
@dataclass(frozen=True, kw_only=True)
class GrowRequest:
    """The arguments of `lobal forcefield grow`."""

    molecule: Path
    output: Path
    oracle: str
    temperature: float
    budget: int
    charge: int
    multiplicity: int
    first: int
    validation: int
    ratio: float
    pool: int
    walkers: int
    interval: float
    time_step: float
    dimension: float | None
    workers: int
    timeout: float | None
    target: float | None  # meV / Angstrom
    seed: int
    device: str | None

    @property
    def start(self) -> StartSettings:
        """How the first frames are simulated."""
        options = {"first": self.first, "validation": self.validation, "temperature": self.temperature}
        return StartSettings(**options, time_step=self.time_step, seed=self.seed)  # type: ignore[arg-type]

    @property
    def growth(self) -> GrowthSettings:
        """How the campaign grows."""
        simulation = SimulationOptions(
            temperature=self.temperature,
            configurations=self.pool,
            walkers=self.walkers,
            interval=self.interval,
            time_step=self.time_step,
        )
        return GrowthSettings(
            budget=self.budget, first=self.first, ratio=self.ratio, simulation=simulation, seed=self.seed
        )


def grow(request: GrowRequest, *, quiet: bool) -> None:
    """Begin or continue; names and options are checked first, and the oracle tried."""
    resolve_device(request.device)
    growth, start = request.growth, request.start  # both are checked before anything is done
    refuse_to_overwrite({"name for it": request.output / START}, [request.molecule])
    reference = read_trajectory(request.molecule, labelled=False).at(slice(1))
    oracle = oracle_named(
        request.oracle,
        reference.species.tolist(),
        charge=request.charge,
        multiplicity=request.multiplicity,
        retries=0,  # failed calls are made once more by other processes
    )
    with status_messages(quiet):
        oracle.check(reference.R[0].numpy())
    printed: Callable[..., None] = (lambda *_: None) if quiet else print_lines
    with Workers(oracle, partial(processes, request.workers), timeout=request.timeout) as workers:
        try:
            learner = _learner(request, reference, workers, start, quiet=quiet)
            with learner:
                with _Rounds(quiet) as rounds:
                    _growth(learner, workers, reference, growth, rounds, request.target).run()
                printed(*_finish(request, learner, reference, oracle, quiet=quiet))
        except KeyboardInterrupt:
            print(f"stopped: all labels are saved in {request.output}; the same command continues", file=sys.stderr)
            raise


def _growth(
    learner: ActiveLearner,
    workers: Workers,
    reference: Trajectory,
    settings: GrowthSettings,
    rounds: "_Rounds",
    target: float | None,
) -> Growth:
    options: dict[str, Any] = {"show": rounds.show, "report": rounds.add}
    least = None if target is None else 1e-3 * target
    return Growth(learner, workers, reference.R[0], settings, target=least, **options)


COLUMNS = (
    ("round", lambda each: str(each.number)),
    ("labels", lambda each: str(each.labels)),
    ("forces, meV/A", lambda each: _thousandths(each.force_rmse)),
    ("energies, meV", lambda each: _thousandths(each.energy_rmse)),
    ("pool", lambda each: _or_dash(each.pool, "d")),
    ("resets", lambda each: _or_dash(each.resets, "d")),
    ("coverage", lambda each: _or_dash(each.coverage, ".0%")),
    ("expected savings", lambda each: _or_dash(each.savings, ".0%")),
    ("seconds", lambda each: f"{each.seconds:.0f}"),
)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _thousandths(value: float | None) -> str:
    return "-" if value is None else f"{1e3 * value:.1f}"


@final
class _Rounds:
    """The table of rounds on the error stream: live on a terminal, else line by line."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._rounds: list[Round] = []
        self._activity = ""
        self._live = Live(console=self._console, get_renderable=self._table, refresh_per_second=2)

    def __enter__(self) -> "_Rounds":
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print("  ".join(name for name, _ in COLUMNS), soft_wrap=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._activity = ""
        if self._console.is_terminal:
            self._live.stop()

    def show(self, activity: str) -> None:
        """What is being done."""
        self._activity = activity

    def add(self, finished: Round) -> None:
        """A further line."""
        self._rounds.append(finished)
        if not self._console.is_terminal:
            line = "  ".join(cell(finished).rjust(len(name)) for name, cell in COLUMNS)
            self._console.print(line, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(*(name for name, _ in COLUMNS), caption=self._activity, caption_justify="left")
        for each in self._rounds:
            table.add_row(*(cell(each) for _, cell in COLUMNS))
        return table


@contextmanager
def _shown(quiet: bool) -> Iterator[Show]:
    """A callback for one line on the error stream."""
    with Console(stderr=True, quiet=quiet).status("") as status:
        yield status.update
