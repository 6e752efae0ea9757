"""Prints what was tried, at the end of the long form."""

import pytest

from tests.faults.counting import COUNTS, is_long


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if is_long():
        terminalreporter.write_line("tried: " + ", ".join(f"{n} {name}" for name, n in sorted(COUNTS.items())))
