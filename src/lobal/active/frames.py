"""Tables of named columns, as users pass them and get them: data frames, dictionaries of columns, lists of rows.

pandas is an extra. Without it, tables are returned as dictionaries of columns.
"""

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy import ndarray

from lobal.core.checks import shown
from lobal.core.interrupts import import_whole

UserInput: TypeAlias = Any  # whatever a user passes: frames, dictionaries, lists; checked at run time
Table: TypeAlias = Any  # a pandas.DataFrame, or a dictionary of columns where pandas is not installed


class Columns(NamedTuple):
    """The columns of a table, all equally long, and the labels of its rows where it has any."""

    columns: dict[str, ndarray]
    labels: list[Any] | None

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))


def is_table(values: UserInput) -> bool:
    """Whether it is a table, and not numbers or labels of rows."""
    is_rows = isinstance(values, list | tuple) and len(values) > 0 and all(isinstance(row, Mapping) for row in values)
    return is_rows or isinstance(values, Mapping) or _is_frame(values)


def columns_of(values: UserInput, names: Sequence[str]) -> Columns:
    """The columns of these names; others are ignored.

    Raises:
        TypeError: it is no table.
        ValueError: columns are missing, or differ in length.
    """
    if not is_table(values):
        raise TypeError(
            f"points must be a data frame, a dictionary of columns or a list of dictionaries, with {list(names)}, got "
            f"{shown(values)}"
        )
    if _is_frame(values):
        _check_names(names, values.columns)
        return Columns({name: _entries(values[name]) for name in names}, values.index.tolist())
    if not isinstance(values, Mapping):
        for row in values:
            _check_names(names, row)
        return Columns({name: _entries([row[name] for row in values]) for name in names}, None)
    _check_names(names, values)
    columns = {name: _entries(values[name]) for name in names}
    lengths = {name: len(column) for name, column in columns.items()}
    if len({*lengths.values()}) > 1:
        raise ValueError(f"columns must be equally long, got {lengths}")
    return Columns(columns, None)


def as_table(columns: Mapping[str, ndarray], *, index: Sequence[Hashable] | None, units: Mapping[str, str]) -> Table:
    """A data frame with the units in its `attrs`; without pandas the columns themselves."""
    if find_spec("pandas") is None:
        return dict(columns)
    import_whole("pandas")
    import pandas

    frame = pandas.DataFrame(dict(columns), index=None if index is None else pandas.Index(index))
    frame.attrs["units"] = dict(units)
    return frame


def n_rows(values: Table) -> int:
    """The number of points in a table or an array."""
    return len(next(iter(values.values()))) if isinstance(values, Mapping) else len(values)


def first_rows(values: Table) -> str:
    """Points for a message."""
    if isinstance(values, Mapping):
        return str({name: np.asarray(column).tolist() for name, column in values.items()})
    return str(values.to_dict("records") if _is_frame(values) else values.tolist())


def _is_frame(values: UserInput) -> bool:
    """Whether it is a data frame of pandas, which then has been imported already."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.DataFrame)


def _entries(column: UserInput) -> ndarray:
    if isinstance(column, str) or not isinstance(column, Iterable):
        return np.array([column], dtype=object if isinstance(column, str) else None)
    values = np.asarray(column)
    return values.astype(object) if values.dtype.kind in "US" else values.reshape(-1)


def _check_names(names: Sequence[str], found: Iterable[Any]) -> None:
    columns = list(found)
    missing = [name for name in names if name not in columns]
    if missing:
        known = columns if len(columns) <= 12 else [*columns[:12], "..."]
        raise ValueError(f"the columns {missing} are missing, got {known}; name columns as the variables are named")


def rows_of(values: Table) -> list[dict[str, Any]]:
    """The rows of a table, one dictionary each, with Python's own numbers and texts."""
    names = list(values[0]) if isinstance(values, list | tuple) else list(values)
    columns = columns_of(values, names).columns
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
