"""The table of rounds of `lobal forcefield grow`: live on a terminal, else line by line."""

from collections.abc import Callable
from typing import Any, final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from lobal.molecules.dynamics.growth import Round

# Names are broken into lines so short that the table fits into a terminal of 80 columns.
COLUMNS: tuple[tuple[str, Callable[[Round], str]], ...] = (
    ("round", lambda each: str(each.number)),
    ("labels", lambda each: str(each.labels)),
    ("force\nRMSE,\nmeV/\nAngstrom", lambda each: _thousandths(each.force_rmse)),
    ("energy\nRMSE,\nmeV", lambda each: _thousandths(each.energy_rmse)),
    ("pool", lambda each: _or_dash(each.pool, "d")),
    ("resets", lambda each: _or_dash(each.resets, "d")),
    ("coverage", lambda each: _or_dash(each.coverage, ".0%")),
    ("expected\nsavings", lambda each: _or_dash(each.savings, ".0%")),
    ("seconds", lambda each: f"{each.seconds:.0f}"),
)
IN_ONE_LINE = tuple(name.replace("/\n", "/").replace("\n", " ") for name, _ in COLUMNS)


def _or_dash(value: float | int | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _thousandths(value: float | None) -> str:
    return "-" if value is None else f"{1e3 * value:.3g}"


@final
class GrowthTable:
    """The rounds so far, and what is being done, on the error stream."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._rounds: list[Round] = []
        self._activity = ""
        live: Any = Live  # its arguments are not annotated
        self._live = live(console=self._console, get_renderable=self._table, refresh_per_second=2)

    def __enter__(self) -> "GrowthTable":
        if self._console.is_terminal:
            self._live.start()
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
        if not self._rounds and not self._console.is_terminal:
            self._console.print("  ".join(IN_ONE_LINE), soft_wrap=True)
        self._rounds.append(finished)
        if not self._console.is_terminal:
            cells = (cell(finished) for _, cell in COLUMNS)
            line = "  ".join(cell.rjust(len(name)) for cell, name in zip(cells, IN_ONE_LINE, strict=True))
            self._console.print(line, soft_wrap=True)

    def _table(self) -> Table:
        make: Any = Table  # its arguments are not annotated
        look = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
        table: Table = make(caption=self._activity, caption_justify="left", **look)
        for name, _ in COLUMNS:
            table.add_column(name, justify="right", vertical="bottom", no_wrap=True)
        for each in self._rounds:
            table.add_row(*(cell(each) for _, cell in COLUMNS))
        return table
