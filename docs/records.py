"""The records in docs/results, and how their numbers are written."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@cache
def record(name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """A record by the name of its file, with dots for folders."""
    return json.loads((RESULTS / f"{name.replace('.', '/')}.json").read_text())


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def mean(value: dict[str, float | None], form: str) -> str:
    """A mean and, if there is one, its standard error."""
    return " ± ".join(f"{part:{form}}" for part in value.values() if part is not None)
