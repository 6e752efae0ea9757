"""Prints what was tried, at the end of the long form, and writes the record of it that the documentation shows."""

import json
import os
from pathlib import Path

import pytest

from tests.faults.counting import COUNTS, is_long


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not is_long():
        return
    terminalreporter.write_line("tried: " + ", ".join(f"{n} {name}" for name, n in sorted(COUNTS.items())))
    failed = sum(len(terminalreporter.stats.get(kind, [])) for kind in ("failed", "error"))
    record = {"command": "make faults", "failed_tests": failed, "tried": dict(sorted(COUNTS.items()))}
    if path := os.environ.get("LOBAL_FAULTS_RECORD"):
        Path(path).write_text(json.dumps(record, indent=2) + "\n")
