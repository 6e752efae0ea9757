"""One round of a campaign: asking for points, telling their labels, taking an event back."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.active.reasons import Reason
from lobal.cli.campaign.desk import Opened, opened
from lobal.core.dialects import TableOptions
from lobal.core.files import write_atomically
from lobal.core.laboratory import target_labels
from lobal.core.numerals import is_missing
from lobal.core.tables import Table, table_content

WHY = "why"  # column of reasons


class Asked(NamedTuple):
    """The points that were asked for, as columns of a table, and why."""

    columns: dict[str, ndarray]
    reasons: list[Reason]


def ask(folder: Path, n: int, output: Path) -> Asked:
    """Ask for n points and write them, with an empty column for each target, to be filled in."""
    with opened(folder) as campaign:
        learner = campaign.learner
        batch = learner.ask(n)
        numbers = list(learner.history[-1].indices)
        reasons = learner.reasons(batch)
        columns = campaign.identified(numbers) | campaign.columns(batch)
        empty = {target: np.array([""] * n, dtype=object) for target in campaign.desk.targets}
        why = {WHY: np.array([reason.sentence() for reason in reasons], dtype=object)}
        write_atomically(output, table_content(columns | empty | why, output, campaign.desk.dialect))
        return Asked(columns, reasons)


@final
@dataclass(frozen=True, kw_only=True)
class Results:
    """The options of `lobal campaign tell`."""

    files: tuple[Path, ...]
    options: TableOptions = TableOptions()
    failed: tuple[str, ...] = ()
    censored: str | None = None
    again: bool = False  # record labels that are known already as repeated measurements


def tell(folder: Path, results: Results) -> list[str]:
    """Record the labels of tables; returns notes for the user."""
    with opened(folder) as campaign:
        # All tables are read before the first label is recorded: what cannot be read does not leave half a round.
        read = [_read(campaign, campaign.desk.read(path, results.options), results) for path in results.files]
        return [note for part in read for note in _record(campaign, *part, again=results.again)]


def undo(folder: Path) -> str:
    """Take the last event back; returns what it was."""
    with opened(folder) as campaign:
        return str(campaign.learner.undo())


def _read(campaign: Opened, table: Table, results: Results) -> tuple[Table, Any, Float[ndarray, "n m"], list[str]]:
    """Points and labels of a table, and notes."""
    desk = campaign.desk
    present = [target for target in desk.targets if target in table.columns]
    if not present:
        table.column(desk.targets[0])  # raises, with the names of the columns
    labels = np.full((len(table), len(desk.targets)), np.nan)
    notes: list[str] = []
    for target in present:
        found = target_labels(
            table,
            target,
            identifier=campaign.row_name,
            failed=[*desk.failures, *results.failed],
            censored=results.censored or desk.censored,
        )
        labels[:, desk.targets.index(target)] = found.values
        notes += found.notes
    is_empty = np.array(
        [[is_missing(str(value)) for value in table.column(target).tolist()] for target in present]
    ).all(0)
    kept = np.flatnonzero(~is_empty).tolist()
    if is_empty.any():
        notes.append(
            f"{int(is_empty.sum())} rows of {table.source} without a value are left as they are; write "
            f"{desk.failures[0]!r} where there will be none."
        )
    points, inside, more = campaign.points(table, kept)
    outside = len(kept) - len(inside)
    if outside:
        notes.append(f"{outside} rows of {table.source} are not among the candidates and are not used.")
    if kept and not inside:
        raise ValueError(
            f"no row of {table.source} is among the candidates by {campaign.row_name!r}, e.g. "
            f"{table.column(str(campaign.row_name))[kept[0]]!r}; check the column"
        )
    return table, points, labels[[kept[place] for place in inside]], notes + more


def _record(
    campaign: Opened, table: Table, points: Any, labels: Float[ndarray, "n m"], notes: list[str], *, again: bool
) -> list[str]:
    """Record labels that are new, and say what was."""
    learner = campaign.learner
    if not len(labels):
        return [*notes, f"No label of {table.source} is recorded."]
    new = np.ones(len(labels), dtype=bool) if again else _is_new(campaign, points, labels)
    chosen = _at(points, np.flatnonzero(new))
    before = len(learner.labelled.y)
    if new.any():
        learner.tell(chosen, labels[new] if labels.shape[1] > 1 else labels[new, 0])
    recorded = len(learner.labelled.y) - before
    known, failed = int((~new).sum()), int(np.isnan(labels[new]).all(axis=1).sum())
    counts = {
        f"{known} known already": known,
        f"{failed} failed": failed,
    }
    rest = "".join(f", {text}" for text, number in counts.items() if number)
    return [*notes, f"{recorded} labels of {table.source} recorded{rest}.", *_scale_notes(learner)]


def _is_new(campaign: Opened, points: Any, labels: Float[ndarray, "n m"]) -> ndarray:  # noqa: ANN401 - as `tell` takes them
    """Which labels are not recorded yet: tables often hold those of earlier rounds as well."""
    keys, known = _keys(campaign, points), _known(campaign)
    new = np.ones(len(labels), dtype=bool)
    for place, (key, label) in enumerate(zip(keys, labels.tolist(), strict=True)):
        entry = (key, tuple(map(repr, label)))
        if known[entry] > 0:
            known[entry] -= 1
            new[place] = False
    return new


def _keys(campaign: Opened, points: Any) -> list[tuple[int, bytes]]:  # noqa: ANN401 - as `tell` takes them
    state = campaign.learner._state
    numbers, inputs = campaign.candidates.locate_among(points, state.points(state.ledger.pending))
    return [(number, x.tobytes()) for number, x in zip(numbers, np.asarray(inputs), strict=True)]


def _known(campaign: Opened) -> Counter[tuple[tuple[int, bytes], tuple[str, ...]]]:
    """How often each label of each point is recorded."""
    ledger = campaign.learner._state.ledger
    numbers, labels = ledger.labelled()
    pairs = zip(
        ledger.candidates(numbers).tolist(),
        ledger.inputs(numbers),
        labels.reshape(len(numbers), -1).tolist(),
        strict=True,
    )
    return Counter(((number, x.tobytes()), tuple(map(repr, label))) for number, x, label in pairs)


def _at(points: Any, rows: ndarray) -> Any:  # noqa: ANN401 - as `tell` takes them
    if isinstance(points, dict):
        return {name: column[rows] for name, column in points.items()}
    return [points[row] for row in rows.tolist()]


def _scale_notes(learner: Any) -> Sequence[str]:  # noqa: ANN401 - a learner
    return []
