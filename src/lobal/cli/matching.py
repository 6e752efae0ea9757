"""Rows of tables of labels and of pending points, found in the pool by identifier or by inputs."""

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.core.identity import Matches, matched_identifiers
from lobal.core.laboratory import input_matrix, target_labels
from lobal.core.tables import Table


class Labels(NamedTuple):
    """Labels by row of the pool, NaN for failures, and the number of labels of points outside the pool."""

    rows: Int[ndarray, " n"]
    y: Float[ndarray, " n"]
    outside: int
    places: list[str]  # of each label, in its file
    notes: list[str]


class Pending(NamedTuple):
    """Rows of the pool that are being labelled, and the number of such rows outside the pool."""

    rows: list[int]
    outside: int
    notes: list[str]


@final
class Index:
    """Finds rows of other tables in the pool: by the identifier or, exactly, by the inputs.

    If several rows of the pool have the same inputs, the first one is used. Identifiers may differ in case and spaces.
    """

    def __init__(
        self, pool: Table, inputs: Sequence[str], identifier: str | None, *, skip_incomplete: bool = False
    ) -> None:
        self.pool = pool
        self.identifier = identifier
        self._inputs = inputs
        self._skip_incomplete = skip_incomplete
        keys = self._by_inputs(pool).keys if identifier is None else pool.identifiers(identifier)
        self._known = keys
        self._first = {key: row for row, key in reversed([*enumerate(keys)])}
        if identifier is not None and len(self._first) < len(pool):
            twice = next(row for row, key in enumerate(keys) if self._first[key] < row)
            raise ValueError(
                f"identifiers must be unique, but {pool.source} has {keys[twice]!r} in column {identifier!r} twice, in "
                f"{pool.place(self._first[keys[twice]])} and {pool.place(twice)}; correct one of them"
            )

    def rows(self, table: Table) -> Matches:
        """The row of the pool for each row of the table; none if it is not in the pool.

        Raises:
            ValueError: there are rows, but not one of them is in the pool.
        """
        if self.identifier is not None:
            found = matched_identifiers(self.pool.identifiers(self.identifier), table, self.identifier)
            keys: Sequence[Hashable] = table.identifiers(self.identifier)
        else:
            keys, kept, notes = self._by_inputs(table)
            rows: list[int | None] = [None] * len(table)
            for row, key in zip(kept, keys, strict=True):
                rows[row] = self._first.get(key)
            found = Matches(rows, notes)
        if keys and all(row is None for row in found.rows):
            by = "the inputs" if self.identifier is None else f"the identifier {self.identifier!r}"
            raise ValueError(
                f"no row of {table.source} is in {self.pool.source} by {by}, e.g. {keys[0]} and "
                f"{self._known[0] if self._known else 'nothing'}; the pool must contain all inputs, labelled or not"
            )
        return found

    def _by_inputs(self, table: Table) -> "_Keys":
        missing = [name for name in self._inputs if name not in table.columns]
        if missing:
            raise ValueError(
                f"{table.source} has no column {missing[0]!r}, which is needed to find its rows in the pool; its "
                f"columns are {', '.join(table.columns)}; add the pool's input columns, choose them with --inputs, "
                "or use an identifier with --id"
            )
        given = input_matrix(table, self._inputs, skip_incomplete=self._skip_incomplete)
        return _Keys([tuple(row) for row in given.values.tolist()], given.rows.tolist(), given.notes)


class _Keys(NamedTuple):
    keys: Sequence[Hashable]
    rows: list[int]  # of the table
    notes: list[str]


def matched_labels(
    index: Index, tables: Sequence[Table], *, target: str, failed: Iterable[str] = (), censored: str | None = None
) -> Labels:
    """The labels of all tables, each with its row of the pool.

    A row may have several labels. A row without a target failed, unless it has a label elsewhere.
    """
    matched: list[tuple[int, float, str]] = []
    outside, notes = 0, []
    for table in tables:
        labels = target_labels(table, target, identifier=index.identifier, failed=failed, censored=censored)
        found = index.rows(table)
        for place, (row, value) in enumerate(zip(found.rows, labels.values.tolist(), strict=True)):
            if row is not None:
                matched.append((row, value, f"{table.place(place, index.identifier)} of {table.source}"))
        outside += found.rows.count(None)
        notes += [*labels.notes, *found.notes]
    labelled = {row for row, value, _ in matched if math.isfinite(value)}
    kept = [each for each in matched if math.isfinite(each[1]) or each[0] not in labelled]
    return Labels(
        rows=np.array([row for row, _, _ in kept], dtype=np.int64),
        y=np.array([value for _, value, _ in kept], dtype=np.float64),
        outside=outside,
        places=[place for _, _, place in kept],
        notes=notes,
    )


def pending_rows(index: Index, tables: Sequence[Table], known: Labels) -> Pending:
    """The rows of the pool in one of the tables that have neither a label nor failed."""
    matches = [index.rows(table) for table in tables]
    found = [row for match in matches for row in match.rows]
    rows = sorted({row for row in found if row is not None} - {*known.rows.tolist()})
    return Pending(rows, found.count(None), [note for match in matches for note in match.notes])
