"""One round of a campaign: asking for points, telling their labels, taking an event back."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.cli.campaign.desk import Opened, opened, unused
from lobal.cli.campaign.doubtful import outlier_notes, unit_notes
from lobal.cli.campaign.news import News, news_of
from lobal.core.dialects import FOUND, TableOptions
from lobal.core.files import write_atomically
from lobal.core.laboratory import target_labels
from lobal.core.numerals import is_missing
from lobal.core.table_shape import counted, some_of
from lobal.core.tables import Table, table_content

WHY = "why"  # column of reasons
Batch: TypeAlias = Any  # points as `ActiveLearner.tell` takes them


def ask(folder: Path, n: int, output: Path) -> list[str]:
    """Ask for n points and write them, with an empty column for each target; returns why each of them, and notes.

    If the table cannot be written, the points are not asked for.
    """
    with opened(folder) as campaign:
        learner, notes, targets = campaign.learner, _ask_notes(campaign), campaign.desk.targets
        batch = learner.ask(n)
        try:
            reasons = learner.reasons(batch)
            columns = campaign.identified(learner.history[-1].indices) | campaign.columns(batch)
            columns |= {target: np.full(n, "", dtype=object) for target in targets}
            columns[unused(WHY, columns)] = np.array([each.words(None, targets) for each in reasons], dtype=object)
            write_atomically(output, table_content(columns, output, campaign.desk.dialect))
        except Exception:
            learner.undo()
            raise
        words = shlex.join(["lobal", "campaign", "tell", str(folder), str(output)])
        return [
            *(f"{place:3d}. {reason.sentence(None, targets)}" for place, reason in enumerate(reasons, start=1)),
            *notes,
            *outlier_notes(campaign),
            f"{counted(n, 'point')} in {output}.",
            f"Fill in {' and '.join(targets)} there and tell it, or any table with them: {words}",
        ]


def _ask_notes(campaign: Opened) -> list[str]:
    """What else to know before the points are labelled."""
    units = [f"{each.name} in {each.unit}" for each in campaign.candidates.region.variables if each.unit is not None]
    pending = len(campaign.learner.ledger.pending)
    notes = {
        f"Units: {', '.join(units)}.": len(units),
        f"{counted(pending, 'earlier point')} still pending; `lobal campaign export` lists all points.": pending,
    }
    return [note for note, number in notes.items() if number]


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
        told = _all_told(campaign, results)
        notes = [note for each in told for note in _recorded(campaign, each, again=results.again)]
        return [*notes, *unit_notes(campaign)]


def _all_told(campaign: Opened, results: Results) -> list[Told]:
    """All tables, before the first label is recorded: one that will not do leaves nothing half done.

    Raises:
        ValueError: a table cannot be read, or its points are none of the campaign's.
    """
    try:
        told = [_told(campaign, campaign.desk.read(path, results.options), results) for path in results.files]
        for each in told:
            if len(each.labels):
                campaign.learner.located(each.points)
    except ValueError as error:
        files = "" if len(results.files) == 1 else ", of the other files neither"
        raise ValueError(f"{error}. Nothing was recorded{files}.") from error
    return told


def _told(campaign: Opened, table: Table, results: Results) -> Told:
    """Points and labels of a table. An empty cell is a label to come."""
    labels, is_empty, notes = _labels(campaign, table, results)
    kept = np.flatnonzero(~is_empty)
    if is_empty.any():
        notes.append(
            f"Rows of {table.source} without a value yet: {int(is_empty.sum())}. Their points stay as they are; write "
            f"{campaign.desk.failures[-1]!r} where there will be no value."
        )
    found = campaign.found(table.at(kept))
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
    news = news_of(learner, told.points, told.labels, again=again)
    notes = [*told.notes, *_news_notes(campaign, told, news)]
    if news.is_new.any():
        learner.tell(*told._replace(labels=news.labels).at(news.is_new))
    return notes


def _news_notes(campaign: Opened, told: Told, news: News) -> list[str]:
    known = ~news.is_new & ~news.is_outdated
    counts = {"failed": news.is_failure.sum(), "known already": known.sum()}
    rest = "".join(f", {number} {words}" for words, number in counts.items() if number)
    notes = [f"{told.source}: {counted(int(news.is_label.sum()), 'label')} recorded{rest}."]
    if news.is_unasked.any() and campaign.learner.history:
        points = some_of(_named(campaign, told.at(news.is_unasked)[0]))
        notes.append(f"Points that nobody asked for, recorded like all others: {points}.")
    if news.is_repeated.any():
        points = some_of(_named(campaign, told.at(news.is_repeated)[0]))
        notes.append(f"Points that had a label already, and have a further one now; all of them count: {points}.")
    if news.is_outdated.any():
        points = some_of(_named(campaign, told.at(news.is_outdated)[0]))
        notes.append(f"Points that failed now, but have a label already, which they keep: {points}.")
    return notes


def _named(campaign: Opened, points: Batch) -> list[str]:
    numbers, inputs = campaign.learner.located(points)
    return campaign.named(np.array(numbers, dtype=np.int64), inputs)
