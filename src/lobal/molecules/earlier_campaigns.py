"""Campaigns of force fields that version 0.1.0 wrote, in the present format.

They kept rows, density and symmetries in `pool.lobal`, and not the positions: the pool has to be given again. Their
journals know rows of the pool in place of point numbers. Events appended since are in the present format already.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from lobal.active.campaign.folder import CURRENT_FORMAT, HEADER, JOURNAL
from lobal.active.campaign.ledger import Event
from lobal.core.files import load_record
from lobal.core.schema import FINITE, anything, list_of, read_from, real, table, text, whole
from lobal.core.stored_tensors import StoredTensors
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.space import IDENTITY
from lobal.molecules.surrogate import MOLECULES, ForceFieldSurrogate

POOL = "pool.lobal"
NAMED, _VALUE = table({"event": text()}), real(-FINITE, FINITE)
ENTRIES = table(
    {
        "pool": IDENTITY,
        "settings": table(
            {
                **dict.fromkeys(("test_density", "dimension", "seed", "smoothness", "exploration"), anything),
                "field": table({}),
            }
        ),
    }
)
WIDTH = 0.03  # of that version's densities


def upgraded(header: Mapping[str, Any], events: list[Event], folder: Path) -> tuple[dict[str, Any], list[Event]]:
    """Header and events in the present format."""
    with read_from(folder / HEADER, "the header of a campaign"):
        ENTRIES(header, "header")
        upgraded_header = _upgraded_header(header)
    with read_from(folder / POOL, "the pool of the campaign"):
        stored = StoredTensors(load_record(folder / POOL)[0])
        rows = stored.whole("rows", "M", least=0, most=header["pool"]["n"] - 1).tolist()
    with read_from(folder / JOURNAL, "the journal of the campaign"):
        _check_events(events, {*rows}, len(header["pool"]["species"]))
    return upgraded_header, list(_converted(events, {row: number for number, row in enumerate(rows)}))


def _upgraded_header(header: Mapping[str, Any]) -> dict[str, Any]:
    settings = header["settings"]
    candidates = {"test_density": settings["test_density"], "width": WIDTH, "pool": header["pool"]}
    surrogate = asdict(ForceFieldSettings.from_fields(settings["field"]))
    kept = {name: settings[name] for name in ("seed", "smoothness", "exploration")}
    return {
        "format": CURRENT_FORMAT,
        "candidates_file": POOL,
        "candidates": {"kind": MOLECULES, **candidates},
        "surrogate": {"kind": ForceFieldSurrogate.kind, **surrogate},
        "settings": kept | {"intrinsic_dimension": settings["dimension"]},
    }


def _check_events(events: list[Event], rows: set[int], n_atoms: int) -> None:
    """Refuse events that cannot be; those of the present format are checked when they are replayed."""
    for line, event in enumerate(events, start=1):
        name = f"line {line}"
        NAMED(event, name)
        if event["event"] == "asked" and "candidates" not in event:
            table({"step": table({"indices": list_of(whole())})})(event, name)
            named = event["step"]["indices"]
        elif "rows" in event:
            n = len(event["rows"]) if isinstance(event["rows"], list) else 0
            forces = list_of(list_of(list_of(_VALUE, 3), n_atoms), n)
            failed = list_of(whole())
            table({"rows": failed, "failed": failed, "energies": list_of(_VALUE, n), "forces": forces})(event, name)
            named = [*event["rows"], *event["failed"]]
        else:
            named = []
        if unknown := [row for row in named if row not in rows]:
            raise ValueError(f"{name}: rows must be those of the pool, got {unknown[0]}")


def _converted(events: list[Event], number_of_row: Mapping[int, int]) -> Iterator[Event]:
    """Events of both formats in the present one, step by step."""
    points: dict[int, int] = {}  # numbers of points by row
    for is_step, between in groupby(events, key=lambda event: event["event"] == "asked"):
        some = list(between)
        if not is_step:
            # That version estimated the density of all rows added since a step at once: they are added together.
            told = [event for event in some if "rows" in event]
            added = [row for event in told for row in (*event["rows"], *event["failed"]) if row not in points]
            yield from _entering("added", list(dict.fromkeys(added)), points, number_of_row)
        for event in some:
            if "rows" in event:
                yield from _told(event, points)
            elif is_step and "candidates" not in event:
                rows, step = event["step"]["indices"], event["step"]
                numbers = [number_of_row[row] for row in rows]
                yield from _entering("asked", rows, points, number_of_row, step=step | {"indices": numbers})
            elif event["event"] != "fitted":
                yield event


def _entering(
    name: str,
    rows: list[int],
    points: dict[int, int],
    number_of_row: Mapping[int, int],
    **fields: Any,  # noqa: ANN401 - as JSON holds them
) -> Iterator[Event]:
    """Rows that are asked for or added, if there are any."""
    points |= {row: len(points) + position for position, row in enumerate(rows)}
    if rows:
        yield {"event": name, **fields, "candidates": [number_of_row[row] for row in rows], "inputs": [[]] * len(rows)}


def _told(event: Event, points: Mapping[int, int]) -> Iterator[Event]:
    """Labels and failures."""
    labels = [
        [energy, *(component for atom in forces for component in atom)]
        for energy, forces in zip(event["energies"], event["forces"], strict=True)
    ]
    if event["rows"]:
        yield {"event": "told", "points": [points[row] for row in event["rows"]], "labels": labels}
    if event["failed"]:
        yield {"event": "failed", "points": [points[row] for row in event["failed"]]}
