"""What a campaign's tables look like, kept beside the campaign, and the campaign opened with it."""

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.campaign.folder import LostEventsError
from lobal.active.frames import columns_of
from lobal.active.learner import ActiveLearner
from lobal.active.recognition import largest_differences, nearest_within, rounded_from
from lobal.active.search_candidates import SearchCandidates
from lobal.cli.checks import TABLES, check_campaign
from lobal.core.dialects import Dialect, TableOptions
from lobal.core.files import read_plain, write_atomically
from lobal.core.identity import matched_identifiers
from lobal.core.laboratory import CHOICES
from lobal.core.schema import list_of, optional, read_from, table, text
from lobal.core.table_shape import meant, some_of
from lobal.core.tables import Table, read_table
from lobal.core.variables import SLACK, Categorical, Real, Variable
from lobal.mixture.outliers import OutlierWarning

ROW = "row"  # column of row numbers, where rows of a pool have no identifiers
DIGITS = 7  # of inputs, in tables
READABLE = 1e-6  # of a range: smaller differences are those of digits that are not written
FAILED = "failed"  # what says in a table that a measurement failed, always
FIELDS = {
    "targets": list_of(text()),
    "identifier": optional(text()),
    "separator": text(),
    "decimal": text(),
    "encoding": text(),
    "failed": list_of(text()),
    "censored": optional(text()),
}


@final
@dataclass(frozen=True, kw_only=True)
class Desk:
    """What `lobal campaign new` was told about tables."""

    targets: tuple[str, ...]  # columns of labels
    identifier: str | None = None  # column that identifies rows of the pool
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    failed: tuple[str, ...] = ()  # texts that say that a measurement failed
    censored: str | None = None

    @property
    def dialect(self) -> Dialect:
        """How tables are written."""
        return Dialect(separator=self.separator, decimal=self.decimal, encoding=self.encoding)

    @property
    def failures(self) -> tuple[str, ...]:
        """All texts that stand for a failure."""
        return (FAILED, *self.failed)

    def in_dialect(self, dialect: Dialect) -> "Desk":
        """The same with tables written as another one is."""
        separator, decimal, encoding = dialect.separator, dialect.decimal, dialect.encoding
        return replace(self, separator=separator, decimal=decimal, encoding=encoding)

    def read(self, path: Path, options: TableOptions) -> Table:
        """A table; where it does not show its decimal mark, it has that of the campaign's tables."""
        return read_table(path, options).like(Table(source="", columns={}, dialect=self.dialect))

    def save(self, folder: Path) -> None:
        """Write the file; the folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / TABLES, json.dumps(asdict(self), indent=2, ensure_ascii=False).encode())

    @staticmethod
    def load(folder: Path) -> "Desk":
        """What `save` wrote, checked."""
        check_campaign(folder)
        path = folder / TABLES
        with read_from(path, "a campaign's description of its tables"):
            fields = json.loads(read_plain(path).decode())
            table(FIELDS)(fields, "tables")
            if not fields["targets"] or fields["censored"] not in (None, *CHOICES):
                raise ValueError(f"targets must be named and censored one of {CHOICES}, got {fields}")
            options = {name: fields[name] for name in ("separator", "decimal", "encoding")}
            TableOptions(**options)
        known: dict[str, Any] = {name: fields[name] for name in FIELDS}
        return Desk(**known | {"targets": tuple(fields["targets"]), "failed": tuple(fields["failed"])})


class Found(NamedTuple):
    """Points that rows of a table are, which rows these are, and notes for the user."""

    points: Any  # as `ActiveLearner.tell` takes them
    rows: Int[ndarray, " k"]
    notes: list[str]


@final
@dataclass(frozen=True)
class Opened:
    """A campaign and its desk."""

    learner: ActiveLearner
    desk: Desk

    @property
    def candidates(self) -> SearchCandidates:
        """The points to choose from, which have names."""
        candidates = self.learner.candidates
        if not isinstance(candidates, SearchCandidates):
            raise ValueError("the campaign has no named columns; work on it in Python, with lobal.ActiveLearner")
        return candidates

    @property
    def names(self) -> list[str]:
        """The input columns."""
        return [variable.name for variable in self.candidates.region.variables]

    @property
    def labels_of_rows(self) -> list[str]:
        """Identifiers of the pool's rows, or their numbers from one."""
        index = self.candidates.index
        return [str(label) for label in (range(1, len(self.candidates) + 1) if index is None else index)]

    @property
    def row_name(self) -> str | None:
        """The column that identifies points in tables; none where points are not rows of a table."""
        return (self.desk.identifier or ROW) if self.candidates.is_table else None

    def columns(self, points: Any) -> dict[str, ndarray]:  # noqa: ANN401 - what `ask` returned
        """Points as columns of a table, with no more digits than people read where they are not rows of one."""
        found, region = columns_of(points, self.names).columns, self.candidates.region
        columns = {variable.name: np.asarray(found[variable.name]) for variable in region.variables}
        if not self.candidates.is_box:
            return columns
        return {each.name: _readable(each, columns[each.name]) for each in region.variables}

    def identified(self, numbers: Sequence[int]) -> dict[str, ndarray]:
        """The column that identifies candidates, if they are rows of a table."""
        if self.row_name is None:
            return {}
        labels = self.labels_of_rows
        return {self.row_name: np.array([labels[number] for number in numbers], dtype=object)}

    def named(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n v"]) -> list[str]:
        """Points for messages."""
        if self.row_name is not None:
            labels = self.labels_of_rows
            return [f"{self.row_name} {labels[number]}" for number in numbers.tolist()]
        columns = self.candidates.region.columns(inputs)
        parts = [[f"{name} = {_shown(value)}" for value in column.tolist()] for name, column in columns.items()]
        return [", ".join(row) for row in zip(*parts, strict=True)]

    def found(self, table: Table) -> Found:
        """The points that the rows of a table are: by their identifier where there is one, else by their inputs.

        Raises:
            ValueError: there are rows, but not one of them is among the candidates, or columns are missing.
        """
        if self.row_name is None or self.row_name not in table.columns:
            recognised, notes = self._recognised(self.raw_columns(table), table.source)
            return Found(recognised, np.arange(len(table)), notes)
        matches = matched_identifiers(self.labels_of_rows, table, self.row_name)
        rows = [place for place, row in enumerate(matches.rows) if row is not None]
        if len(table) and not rows:
            raise ValueError(
                f"no row of {table.source} is among the candidates by {self.row_name!r}, e.g. "
                f"{table.column(self.row_name)[0]!r}, where candidates are {self.labels_of_rows[0]!r} and so on; check "
                "the column"
            )
        index = self.candidates.index
        numbers = [row for row in matches.rows if row is not None]
        points = [row if index is None else index[row] for row in numbers]
        outside = [table.place(place, self.row_name) for place, row in enumerate(matches.rows) if row is None]
        note = f"Rows of {table.source} that are not among the candidates are not used: {some_of(outside)}."
        return Found(points, np.array(rows, dtype=np.int64), [*matches.notes, *([note] if outside else [])])

    def _recognised(self, columns: dict[str, ndarray], source: str) -> tuple[dict[str, ndarray], list[str]]:
        """Points that are in the campaign in place of their rounded values, also those that are not pending."""
        region, ledger = self.candidates.region, self.learner.ledger
        if not self.candidates.is_box:
            return columns, []
        codes, known = region.codes(columns), ledger.inputs(range(len(ledger.entries)))
        near = nearest_within(region.variables, codes, known, SLACK)
        asked = [number for batch in ledger.batches for number in batch]  # others have the digits that people gave them
        for numbers in (ledger.pending, asked):
            among, others = np.array(numbers, dtype=np.int64), np.flatnonzero(near < 0)
            rounded = rounded_from(region, codes[others], known[among])
            near[others[rounded >= 0]] = among[rounded[rounded >= 0]]
        rows = np.flatnonzero(near >= 0)
        off = largest_differences(region, codes[rows], known[near[rows]])
        codes[rows] = known[near[rows]]
        n = int((off > READABLE).sum())
        note = (
            f"Rows of {source} recognised as points of the campaign in spite of rounded values: {n}, at most "
            f"{off.max(initial=0.0):.2g} of a range off."
        )
        return dict(region.columns(codes)), [note] if n else []

    def raw_columns(self, part: Table) -> dict[str, ndarray]:
        """The input columns of a table: numbers, and levels of categories as text."""
        missing = [name for name in self.names if name not in part.columns]
        if missing:
            by = f", nor a column {self.row_name!r} that identifies the rows"
            by = by if self.row_name is not None and self.row_name not in part.columns else ""
            raise ValueError(
                f"{part.source} has no column {missing[0]!r}{by}; its columns are {', '.join(part.columns)}"
                f"{meant(missing[0], [*part.columns])}; add the missing columns as `lobal campaign ask` writes them"
            )
        columns = {variable.name: _values(part, variable) for variable in self.candidates.region.variables}
        wrong = [_wrong(part, each, columns[each.name], self.row_name) for each in self.candidates.region.variables]
        if any(wrong):
            raise ValueError("; ".join(each for each in wrong if each))
        return columns


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _readable(variable: Variable, values: ndarray) -> ndarray:
    """Real numbers with seven digits, of their range or, on a logarithmic scale, of their own."""
    if not isinstance(variable, Real):
        return values
    if variable.log:
        return np.array([float(f"{value:.{DIGITS}g}") for value in values.tolist()])
    return np.round(values, DIGITS - math.floor(math.log10(variable.upper - variable.lower)))


def _values(part: Table, variable: Variable) -> ndarray:
    if not isinstance(variable, Categorical):
        return part.numbers(variable.name)
    levels = {str(level): level for level in variable.levels}
    texts = [str(value).strip() for value in part.column(variable.name).tolist()]
    return np.array([levels.get(each, each) for each in texts], dtype=object)


def _wrong(part: Table, variable: Variable, values: ndarray, identifier: str | None) -> str:
    """What is wrong with the rows whose values are none of a variable, if there are any."""
    try:
        variable.codes(values)
    except ValueError as error:
        wrong = [
            part.place(row, identifier) for row in range(len(part)) if not _is_value(variable, values[row : row + 1])
        ]
        whose = (
            ""
            if identifier is None or isinstance(variable, Categorical)
            else ", in a --space (a pool alone has those of its rows)"
        )
        return f"{some_of(wrong, between=', ')} of {part.source}: {error}{whose}"
    return ""


def _is_value(variable: Variable, values: ndarray) -> bool:
    try:
        variable.codes(values)
    except ValueError:
        return False
    return True


@contextmanager
def opened(folder: Path, *, read_only: bool = False) -> Iterator[Opened]:
    """The campaign in a folder, released afterwards; labels that contradict the others are named in `doubtful.py`."""
    desk = Desk.load(folder)
    learner = ActiveLearner.read(folder) if read_only else ActiveLearner.load(folder)
    with learner, warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)
        try:
            yield Opened(learner, desk)
        except LostEventsError as error:
            raise OSError(str(error)) from error


def unused(name: str, columns: Iterable[str]) -> str:
    """The name of a further column, with underscores where there is such a column already."""
    taken = {*columns}
    while name in taken:
        name = f"{name}_"
    return name
