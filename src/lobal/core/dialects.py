"""How a table is written as text: separator, decimal mark and encoding, as found in a file or given by the user."""

import codecs
from dataclasses import dataclass
from typing import final

SEPARATORS = (",", ";", "\t")
DECIMALS = (".", ",")
NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "point": ".", "dot": "."}  # what a user may type


@final
@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What a user knows about files; everything else is found in them.

    Args:
        separator: between cells of CSV files: comma, semicolon or tab, as a character or by this name.
        decimal: mark of decimals in text: point or comma, as a character or by this name.
        encoding: of CSV files, by a name that Python knows.
        sheet: of workbooks that have several.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "separator", _one_of("--sep", self.separator, SEPARATORS, "',', ';' or 'tab'"))
        object.__setattr__(self, "decimal", _one_of("--decimal", self.decimal, DECIMALS, "'.' or ','"))
        if self.encoding is not None:
            _check_encoding(self.encoding)


@final
@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How the numbers and cells of a file are written."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    decided: bool = True  # whether it is known what a comma or point before three digits is

    @property
    def description(self) -> str | None:
        """What differs from plain CSV, in words; None if nothing does."""
        names = {";": "separated by semicolons", "\t": "separated by tabs"}
        parts = [names.get(self.separator), "with decimal commas" if self.decimal == "," else None]
        is_other = self.encoding.replace("_", "-").lower() not in ("utf-8", "utf8", "utf-8-sig")
        parts.append(f"encoded as {self.encoding}" if is_other else None)
        return ", ".join(part for part in parts if part) or None


def _one_of(option: str, value: str | None, allowed: tuple[str, ...], words: str) -> str | None:
    meant = value if value is None else NAMES.get(value.lower(), value)
    if meant is not None and meant not in allowed:
        raise ValueError(f"{option} has to be {words}, got {value!r}; leave it out to have it found")
    return meant


def _check_encoding(name: str) -> None:
    try:
        is_text = codecs.lookup(name)._is_text_encoding
    except LookupError:
        is_text = False
    if not is_text:
        raise ValueError(f"--encoding {name!r} is unknown; give one such as utf-8, utf-16, cp1252 or latin-1")


FOUND = TableOptions()  # everything is found in the file
PLAIN = Dialect()
