"""What a campaign knows, as sentences and as tables."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy import ndarray

from lobal.cli.campaign.desk import DIGITS, ROW, Opened, opened, unused
from lobal.cli.campaign.doubtful import outlier_notes
from lobal.core.dialects import TableOptions
from lobal.core.files import write_atomically
from lobal.core.tables import Table, table_content

STATE, ORDER = "state", "number"  # columns of an export
INTERVAL = 0.95


def status(folder: Path) -> list[str]:
    """How the campaign stands, in sentences."""
    with opened(folder, read_only=True) as campaign:
        sentences = campaign.learner.summary().sentences(target=", ".join(campaign.desk.targets))
        return [*sentences, *outlier_notes(campaign)]


def predict(folder: Path, points: Path | None, output: Path, options: TableOptions) -> int:
    """Write predictions of the candidates, or of the points of a table; returns how many."""
    with opened(folder, read_only=True) as campaign:
        columns = _points_to_predict(campaign, points, options)
        found = _predictions(campaign, columns)
        write_atomically(output, table_content(columns | found, output, campaign.desk.dialect))
        return len(next(iter(found.values())))


def export(folder: Path, output: Path) -> int:
    """Write all points of the campaign with their labels; returns how many rows there are."""
    with opened(folder, read_only=True) as campaign:
        columns = _all_points(campaign)
        write_atomically(output, table_content(columns, output, campaign.desk.dialect))
        return len(next(iter(columns.values())))


def report(folder: Path, output: Path, maps: Sequence[tuple[str, str]] = ()) -> None:
    """Write the page, with maps over these pairs of inputs before others."""
    from lobal.report.html import campaign_report  # which loads the drawing library

    with opened(folder, read_only=True) as campaign:
        title = f"{', '.join(campaign.desk.targets)}: the campaign in {folder.name}"
        rows = campaign.labels_of_rows if campaign.candidates.index is None else None  # which tables call by numbers
        identifiers = None if rows is None else [f"{ROW} {row}" for row in rows]
        campaign_report(
            campaign.learner,
            output,
            title=title,
            target=", ".join(campaign.desk.targets),
            identifiers=identifiers,
            maps=maps,
        )


def _points_to_predict(campaign: Opened, points: Path | None, options: TableOptions) -> dict[str, ndarray]:
    if points is None:
        candidates = campaign.candidates
        numbers = list(range(len(candidates)))
        return campaign.identified(numbers) | dict(candidates.region.columns(candidates.codes))
    table = campaign.desk.read(points, options)
    first, region = campaign.row_name, campaign.candidates.region
    named = {first: table.column(first)} if first is not None and first in table.columns else {}
    if named and not any(name in table.columns for name in campaign.names):
        return named | _columns_of_rows(campaign, table)
    return named | dict(region.columns(region.codes(campaign.raw_columns(table))))


def _columns_of_rows(campaign: Opened, table: Table) -> dict[str, ndarray]:
    """The inputs of candidates, by what identifies them."""
    found = campaign.found(table)
    if len(found.rows) < len(table):
        raise ValueError(f"{found.notes[-1]} Leave them out, or add columns with their inputs")
    return dict(campaign.candidates.region.columns(campaign.candidates.locate(found.points)[1]))


def _predictions(campaign: Opened, columns: dict[str, ndarray]) -> dict[str, ndarray]:
    """Mean, standard deviation and interval of every target, and the local complexity relative to its median."""
    learner, targets = campaign.learner, campaign.desk.targets
    fitted = learner.fitted
    if fitted is None:
        raise ValueError(f"need 10 labels to predict, have {len(learner.labelled.y)}; ask for points and tell labels")
    inputs = campaign.candidates.encoded(columns)
    interval = fitted.interval(inputs, INTERVAL)
    assert interval is not None  # which mixtures have
    parts = {"": fitted.predict(inputs), " sd": fitted.standard_deviation(inputs)}
    parts |= dict(zip((" lower", " upper"), interval, strict=True))
    found = {
        f"{target}{suffix}": _shortened(np.asarray(part).reshape(len(inputs), -1)[:, place])
        for place, target in enumerate(targets)
        for suffix, part in parts.items()
    }
    return found | {"local complexity": _shortened(_relative_complexity(campaign, inputs))}


def _shortened(values: ndarray) -> ndarray:
    """Numbers with as many digits as mean something."""
    return np.array([float(f"{value:.{DIGITS}g}") for value in values.tolist()])


def _relative_complexity(campaign: Opened, inputs: ndarray) -> ndarray:
    """bandwidth^-delta, which the complexity is for smooth targets, over its median at the candidates."""
    learner = campaign.learner
    assert learner.fitted is not None
    bandwidth, everywhere = learner.fitted.local_bandwidth(inputs), learner.local_bandwidth()
    return np.asarray((np.median(everywhere) / bandwidth) ** learner.settings.dimension)


def _all_points(campaign: Opened) -> dict[str, ndarray]:
    """Points in the order in which they entered the campaign; one with several labels has several rows."""
    learner, targets = campaign.learner, campaign.desk.targets
    ledger = learner.ledger
    rows: list[tuple[int, Sequence[float], str]] = []
    for number, entry in enumerate(ledger.entries):
        state = "labelled" if entry.labels else "failed" if entry.failed else "pending"
        rows += [(number, np.atleast_1d(label).tolist(), state) for label in entry.labels or [[np.nan] * len(targets)]]
    numbers = [number for number, _, _ in rows]
    candidates, inputs = ledger.candidates(numbers), ledger.inputs(numbers)
    labels = np.array([label for _, label, _ in rows], dtype=np.float64).reshape(len(rows), len(targets))
    columns = {
        **campaign.identified(candidates.tolist()),
        **dict(campaign.candidates.region.columns(inputs)),
        **{target: labels[:, place] for place, target in enumerate(targets)},
    }
    further = {
        STATE: np.array([state for _, _, state in rows], dtype=object),
        ORDER: np.array(numbers, dtype=np.int64) + 1,
    }
    return columns | {unused(name, columns): column for name, column in further.items()}
