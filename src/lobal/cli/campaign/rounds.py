"""One round of a campaign: asking for points, telling their labels, taking an event back."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.cli.campaign.desk import Opened, opened
from lobal.core.dialects import FOUND, TableOptions
from lobal.core.files import write_atomically
from lobal.core.laboratory import target_labels
from lobal.core.numerals import is_missing
from lobal.core.tables import Table, some_of, table_content
from lobal.mixture.mixed_units import labels_in_other_units

WHY = "why"  # column of reasons
Batch: TypeAlias = Any  # points as `ActiveLearner.tell` takes them
Key: TypeAlias = tuple[int, bytes]  # of a point: its candidate and its inputs


def ask(folder: Path, n: int, output: Path) -> list[str]:
    """Ask for n points and write them, with an empty column for each target; returns why each of them."""
    with opened(folder) as campaign:
        learner = campaign.learner
        batch = learner.ask(n)
        reasons = learner.reasons(batch)
        columns = campaign.identified(learner.history[-1].indices) | campaign.columns(batch)
        columns |= {target: np.full(n, "", dtype=object) for target in campaign.desk.targets}
        columns[WHY] = np.array([reason.words() for reason in reasons], dtype=object)
        write_atomically(output, table_content(columns, output, campaign.desk.dialect))
        return [reason.sentence() for reason in reasons]


def undo(folder: Path) -> str:
    """Take the last event back; returns what it was."""
    with opened(folder) as campaign:
        return campaign.learner.undo()


@final
@dataclass(frozen=True, kw_only=True)
class Results:
    """The options of `lobal campaign tell`."""

    files: tuple[Path, ...]
    options: TableOptions = FOUND
    failed: tuple[str, ...] = ()
    censored: str | None = None
    again: bool = False  # record labels that are known already as repeated measurements


class Told(NamedTuple):
    """What a table tells: points, their labels, NaN for failures, and notes for the user."""

    source: str
    points: Batch
    labels: Float[ndarray, "n m"]
    notes: list[str]

    def at(self, kept: Bool[ndarray, " n"]) -> tuple[Batch, ndarray]:
        """Some of the points, and their labels as `tell` takes them."""
        labels = self.labels[kept] if self.labels.shape[1] > 1 else self.labels[kept, 0]
        if isinstance(self.points, dict):
            return {name: column[kept] for name, column in self.points.items()}, labels
        return [point for point, is_kept in zip(self.points, kept.tolist(), strict=True) if is_kept], labels


def tell(folder: Path, results: Results) -> list[str]:
    """Record the labels of tables; returns notes for the user."""
    with opened(folder) as campaign:
        # All tables are read before the first label is recorded: one that cannot be read leaves nothing half done.
        told = [_told(campaign, campaign.desk.read(path, results.options), results) for path in results.files]
        notes = [note for each in told for note in _recorded(campaign, each, again=results.again)]
        return [*notes, *_unit_notes(campaign)]


def _told(campaign: Opened, table: Table, results: Results) -> Told:
    """Points and labels of a table. An empty cell is a label to come."""
    labels, is_empty, notes = _labels(campaign, table, results)
    kept = np.flatnonzero(~is_empty)
    if is_empty.any():
        notes.append(
            f"{int(is_empty.sum())} rows of {table.source} have no value yet and are left as they are; write "
            f"{campaign.desk.failures[0]!r} where there will be none."
        )
    found = campaign.found(table.at(kept))
    outside = len(kept) - len(found.rows)
    if outside:
        notes.append(f"{outside} rows of {table.source} are not among the candidates and are not used.")
    return Told(table.source, found.points, labels[kept[found.rows]], notes + found.notes)


def _labels(
    campaign: Opened, table: Table, results: Results
) -> tuple[Float[ndarray, "n m"], Bool[ndarray, " n"], list[str]]:
    """Labels of all targets, which rows have an empty cell for every target, and notes."""
    desk = campaign.desk
    present = [target for target in desk.targets if target in table.columns]
    if not present:
        table.column(desk.targets[0])  # raises, with the names of the columns
    labels, is_empty = np.full((len(table), len(desk.targets)), np.nan), np.ones(len(table), dtype=bool)
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
        is_empty &= np.array([is_missing(str(value)) for value in table.column(target).tolist()], dtype=bool)
        notes += found.notes
    return labels, is_empty, notes


def _recorded(campaign: Opened, told: Told, *, again: bool) -> list[str]:
    """Record labels that are new, and say how many."""
    if not len(told.labels):
        return [*told.notes, f"{told.source}: no label recorded."]
    learner = campaign.learner
    new = np.ones(len(told.labels), dtype=bool) if again else _is_new(learner, told)
    repeated = _n_labelled(learner, told.at(new)[0]) if new.any() else 0
    if new.any():
        learner.tell(*told.at(new))
    failed = int(np.isnan(told.labels[new]).all(axis=1).sum())
    counts = {"failed": failed, "known already": int((~new).sum()), "of points that had one already": repeated}
    rest = "".join(f", {number} {words}" for words, number in counts.items() if number)
    return [*told.notes, f"{told.source}: {int(new.sum()) - failed} labels recorded{rest}."]


def _is_new(learner: ActiveLearner, told: Told) -> Bool[ndarray, " n"]:
    """Which labels are not recorded yet: tables often hold those of earlier rounds as well."""
    known = _known(learner) + _failed(learner, told.labels.shape[1])
    new = np.ones(len(told.labels), dtype=bool)
    for place, (key, label) in enumerate(zip(_keys(learner, told.points), told.labels.tolist(), strict=True)):
        entry = (key, repr(label))
        new[place] = known[entry] == 0
        known[entry] -= not new[place]
    return new


def _keys(learner: ActiveLearner, points: Batch) -> list[Key]:
    numbers, inputs = learner.located(points)
    return [(number, x.tobytes()) for number, x in zip(numbers, np.asarray(inputs, dtype=np.float64), strict=True)]


def _known(learner: ActiveLearner) -> Counter[tuple[Key, str]]:
    """How often each label of each point is recorded."""
    numbers, labels = learner.ledger.labelled()
    inputs = np.asarray(learner.ledger.inputs(numbers), dtype=np.float64)
    keys = [(n, x.tobytes()) for n, x in zip(learner.ledger.candidates(numbers).tolist(), inputs, strict=True)]
    rows = (np.atleast_1d(label).tolist() for label in labels)
    return Counter((key, repr(label)) for key, label in zip(keys, rows, strict=True))


def _failed(learner: ActiveLearner, width: int) -> Counter[tuple[Key, str]]:
    """Points that failed, as labels that are NaN."""
    numbers = learner.ledger.failed
    inputs = np.asarray(learner.ledger.inputs(numbers), dtype=np.float64)
    keys = [(n, x.tobytes()) for n, x in zip(learner.ledger.candidates(numbers).tolist(), inputs, strict=True)]
    return Counter((key, repr([np.nan] * width)) for key in keys)


def _n_labelled(learner: ActiveLearner, points: Batch) -> int:
    """How many of the points have a label."""
    known = {key for key, _ in _known(learner)}
    return sum(key in known for key in _keys(learner, points))


def _unit_notes(campaign: Opened) -> list[str]:
    """A warning of labels that seem to be in other units, by their points."""
    learner, notes = campaign.learner, []
    numbers, labels = learner.ledger.labelled()
    X, columns = learner.labelled.X, labels.reshape(len(numbers), len(campaign.desk.targets)).T
    for target, column in zip(campaign.desk.targets, columns, strict=True):
        there = np.flatnonzero(np.isfinite(column))
        rows, factor = labels_in_other_units(X[there], column[there])
        if len(rows):
            meant = [numbers[row] for row in there[rows].tolist()]
            named = campaign.candidates.named(learner.ledger.candidates(meant), learner.ledger.inputs(meant))
            shown = some_of([f"{point}: {value:.4g}" for point, value in zip(named, column[there[rows]], strict=True)])
            notes.append(
                f"Warning: {len(rows)} labels of {target} seem to be in other units, about {factor:.2g} times what the "
                f"others predict: {shown}. If so, take them back with `lobal campaign undo`, and correct them."
            )
    return notes
