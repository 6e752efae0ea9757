"""The table of the rounds of `lobal forcefield grow`."""

import io

import pytest
from rich.console import Console

from lobal.cli import growth_table
from lobal.cli.growth_table import GrowthTable
from lobal.molecules.dynamics.growth import Round


def test_all_columns_can_be_read_on_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    screen = Console(file=terminal, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(growth_table, "Console", lambda **_: screen)
    with GrowthTable(quiet=False) as rounds:
        rounds.add(Round(12, 12345, 0.1234, 0.00123, 12345, 0.99, 20_000, 0.12, 12345.0))
    shown = terminal.getvalue()
    assert "…" not in shown
    for word in ("meV/", "Angstrom", "resets", "coverage", "expected", "savings", "seconds", "12345", "99%"):
        assert word in shown
