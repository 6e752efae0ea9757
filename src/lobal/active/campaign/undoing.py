"""Taking events back: a later event says how many before it count no more. Nothing is removed from a journal."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lobal.active.campaign.ledger import GROWN, Event
from lobal.core.schema import table, whole

UNDONE, CONTINUES = "undone", "continues"
ENTRIES = table({"events": whole(1), "steps": whole()})


class Numbered(NamedTuple):
    """An event, and its number in the journal, counted from one."""

    number: int
    event: Event


def in_force(events: Sequence[Event], path: Path) -> list[Numbered]:
    """The events that were not taken back, in order; `path` is that of the journal, for messages.

    Raises:
        ValueError: an event takes back others than there are; names its line.
    """
    left: list[Numbered] = []
    for number, event in enumerate(events, start=1):
        if event.get("event") != UNDONE:
            left.append(Numbered(number, event))
            continue
        try:
            _check(event, [each.event for each in left])
        except ValueError as error:
            raise impossible(path, number, error) from error
        del left[-event["events"] :]
    return left


def impossible(path: Path, line: int, error: Exception) -> ValueError:
    """The error that a line of a journal cannot be."""
    return ValueError(
        f"{path}, line {line} cannot be: {error}; restore the file from a copy or, to go on from what came before, "
        f"keep its first {line - 1} lines only"
    )


def _check(event: Event, before: Sequence[Event]) -> None:
    ENTRIES(event, UNDONE)
    if event["events"] > len(before):
        raise ValueError(f"expected at most {len(before)} events to be undone, got {event['events']}")
    steps = n_steps(before[-event["events"] :])
    if event["steps"] != steps:
        raise ValueError(f"expected {steps} steps to be undone, got {event['steps']}")


def undoing(call: Sequence[Event]) -> Event:
    """The event that takes back the events of a call."""
    return {"event": UNDONE, "events": len(call), "steps": n_steps(call)}


def n_steps(events: Sequence[Event]) -> int:
    """How many of the events are steps."""
    return sum(event.get("event") == "asked" for event in events)


def last_call(events: Sequence[Event]) -> Sequence[Event]:
    """The events that the last call left; journals of earlier versions have each event by itself.

    Raises:
        ValueError: there is none.
    """
    if not events:
        raise ValueError(
            "there is nothing to undo: nothing was asked for, told, expected or given up, or all is undone"
        )
    if events[-1]["event"] == GROWN:
        raise ValueError(
            "the last event cannot be undone: other candidates took the place of those before; call grow() with others"
        )
    first = len(events) - 1
    while first > 0 and events[first].get(CONTINUES):
        first -= 1
    return events[first:]


def sentence_of(call: Sequence[Event]) -> str:
    """What was taken back, in words."""
    numbers = {event["event"]: len(event["points"] if "points" in event else event["candidates"]) for event in call}
    if "asked" in numbers:
        return f"Undone: the request for {_counted(numbers['asked'], 'point')}; none of them had a label."
    parts = [
        f"{_counted(numbers[kind], noun)}{rest}"
        for kind, noun, rest in (("told", "label", ""), ("failed", "failure", ""), ("added", "point", _not_asked(call)))
        if kind in numbers
    ]
    return f"Undone: {', '.join(parts)}."


def _not_asked(call: Sequence[Event]) -> str:
    return " that nobody had asked for" if len(call) > 1 else " that had been expected"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
