"""The points to label next as a table, with what is known about each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.active.reasons import PROBABILITY, Reason
from lobal.core.table_shape import counted, some_of
from lobal.report.blocks import cell_text, table_block
from lobal.report.campaign_figures import inputs_of
from lobal.report.variables import Variable

MOST_SHOWN = 6  # outputs of a label in one cell

Naming = Callable[[int], str | None]  # of candidates


class BatchRow(NamedTuple):
    """One point to label, and why."""

    name: str | None
    inputs: tuple[object, ...]  # one for each variable
    reason: Reason
    nearest: str | None  # name of the nearest labelled point


def last_batch(learner: ActiveLearner) -> list[int]:
    """Numbers of the pending points of the last step."""
    ledger = learner.ledger
    return [number for number in ledger.last_batch if ledger.entries[number].is_pending]


def earlier_points(learner: ActiveLearner, naming: Naming) -> str:
    """Which points of earlier steps are pending, and since when, in one sentence; empty if there are none."""
    ledger, last = learner.ledger, {*last_batch(learner)}
    times = zip(ledger.pending, learner.pending_since(), strict=True)
    waiting = [(number, since) for number, since in times if number not in last]
    if not waiting:
        return ""
    candidates = ledger.candidates([number for number, _ in waiting]).tolist()
    names = [naming(each) or f"point {number + 1}" for each, (number, _) in zip(candidates, waiting, strict=True)]
    since = min((time for _, time in waiting if time is not None), default=None)
    when = "" if since is None else f", the first since {since:%Y-%m-%d %H:%M} UTC"
    return f"{counted(len(names), 'point')} of earlier rounds still pending{when}: {some_of(names, between=', ')}."


def batch_rows(learner: ActiveLearner, variables: Sequence[Variable], naming: Naming) -> list[BatchRow]:
    """What is known about every pending point of the last step, in the order they were asked for."""
    numbers, ledger = last_batch(learner), learner.ledger
    if not numbers:
        return []
    candidates, recorded = ledger.candidates(numbers), ledger.inputs(numbers)
    places = inputs_of(learner, numbers)
    values = np.stack([variable.at(places) for variable in variables], axis=1)
    names = _label_names(learner, naming)
    return [
        BatchRow(
            name=naming(int(candidates[row])),
            inputs=tuple(variable.shown(value) for variable, value in zip(variables, values[row], strict=True)),
            reason=reason,
            nearest=None if reason.nearest is None or not names else names[reason.nearest.point],
        )
        for row, reason in enumerate(learner.reasons(learner.candidates.batch(candidates, recorded)))
    ]


def _label_names(learner: ActiveLearner, naming: Naming) -> dict[Any, str | None]:
    """What the page calls labelled points, by what the learner calls them; none of points that have no names."""
    if naming(0) is None:
        return {}
    numbers = learner.ledger.labelled()[0]
    candidates = learner.ledger.candidates(numbers)
    named = learner.candidates.named(candidates, learner.ledger.inputs(numbers))
    return {point: naming(candidate) for point, candidate in zip(named, candidates.tolist(), strict=True)}


def batch_table(rows: Sequence[BatchRow], variables: Sequence[Variable], outputs: Sequence[str]) -> str:
    """The points as a table; columns that nothing is known for are left out.

    `outputs` are the names of what is predicted: none where it has too many numbers to be shown.
    """
    columns: dict[str, list[object]] = {"point": [row.name for row in rows]}
    columns |= {variable.title: [row.inputs[j] for row in rows] for j, variable in enumerate(variables)}
    reasons = [row.reason for row in rows]
    for place, name in enumerate(outputs):
        columns[f"{name}, predicted ({PROBABILITY:.0%} interval)"] = [_predicted(each, place) for each in reasons]
    columns |= {
        "why": [each.share for each in reasons],
        "complexity": [_times(each.complexity) for each in reasons],
        "nearest label": [_label(row) for row in rows],
        "labels nearby differ by": [_difference(each) for each in reasons],
    }
    kept = {name: column for name, column in columns.items() if any(cell is not None for cell in column)}
    return table_block(kept, zip(*kept.values(), strict=True))


def _predicted(reason: Reason, place: int) -> str | None:
    """One output with its interval, as far as they are known."""
    parts = [np.nan if each is None else float(np.atleast_1d(each)[place]) for each in _prediction(reason)]
    mean, *ends = map(cell_text, parts)
    if np.isnan(parts[0]):
        return None
    return mean if np.isnan(parts).any() else f"{mean} ({' to '.join(ends)})"


def _prediction(reason: Reason) -> tuple[Any, Any, Any]:
    return reason.prediction, *(reason.interval or (None, None))


def _label(row: BatchRow) -> str | None:
    """The nearest label, and whose it is."""
    nearest = row.reason.nearest
    shown = None if nearest is None else _numbers(np.atleast_1d(nearest.label))
    return shown if shown is None or row.nearest is None else f"{shown} ({row.nearest})"


def _difference(reason: Reason) -> str | None:
    """Output by output, as their units differ."""
    if reason.between is None:
        return None
    first, second = (np.atleast_1d(np.array(each.label, dtype=np.float64)) for each in reason.between)
    return _numbers(np.abs(first - second))


def _numbers(values: ndarray) -> str | None:
    """A few numbers side by side, a dash for those that are not known."""
    if len(values) > MOST_SHOWN:
        return None
    return ", ".join(cell_text(value if np.isfinite(value) else None) for value in values.tolist())


def _times(ratio: float | None) -> str | None:
    if ratio is None:
        return None
    digits = 2 if ratio < 10.0 else 1 if ratio < 100.0 else 0
    return f"{ratio:.{digits}f} ×"  # noqa: RUF001 - times
