"""Identifiers that people typed: equal but for case and spaces, they mean the same where only one is meant."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from lobal.core.table_shape import some_of
from lobal.core.tables import Table


class Matches(NamedTuple):
    """For each identifier its row among the known ones, None if it is not among them, and notes for the user."""

    rows: list[int | None]
    notes: list[str]


def matched_identifiers(known: Sequence[str], table: Table, name: str) -> Matches:
    """The rows of `known` that the identifiers in a column of the table mean.

    Raises:
        ValueError: one of them differs from several known ones only in case or spaces, and equals none.
    """
    exact = {text: row for row, text in enumerate(known)}
    alike: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(known):
        alike[folded(text)].append(row)
    rows: list[int | None] = []
    others = []
    for number, text in enumerate(table.identifiers(name)):
        meant = [exact[text]] if text in exact else alike.get(folded(text), [])
        if len(meant) > 1:
            raise ValueError(
                f"{name} {text!r} in {table.place(number)} of {table.source} may be any of "
                f"{', '.join(repr(known[row]) for row in meant)}, which differ only in case or spaces; correct it"
            )
        if meant and text not in exact:
            others.append(f"{text!r} as {known[meant[0]]!r}")
        rows.append(meant[0] if meant else None)
    note = f"Identifiers of {table.source} that were matched in spite of case or spaces: {some_of(others)}."
    return Matches(rows, [note] if others else [])


def folded(text: str) -> str:
    """An identifier without case and superfluous spaces."""
    return " ".join(text.split()).casefold()
