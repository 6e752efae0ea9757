"""Numbers as people type them: with decimal points or commas, and what may be mistaken for either.

Thousands separators are never guessed: 1,234 is 1.234 in one country and 1234 in the next.
"""

import re
from collections.abc import Iterable

from lobal.core.dialects import Dialect

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>"})  # missing values, in lower case
# Groups of three digits, where the first group has no leading zero; decimals may follow after another mark.
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?P<mark>[.,'\u2019 \u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*(?P<rest>[.,]\d+)?")
MARKS = {".": "decimal points", ",": "decimal commas"}
MINUS = "\u2212"


def is_missing(text: str) -> bool:
    """Whether a cell stands for no value."""
    return text.strip().lower() in MISSING


def number(text: str, decimal: str = ".") -> float | None:
    """The number that a text is with this decimal mark; None if it is none."""
    text = text.replace(MINUS, "-")
    if decimal == ",":
        if "." in text:
            return None
        text = text.replace(",", ".")
    if "_" in text or not text.isascii():  # Python takes 1_000 and other scripts' digits for numbers
        return None
    try:
        return float(text)
    except ValueError:
        return None


def is_like_number(text: str) -> bool:
    """Whether a text is a number with one of the decimal marks, or with a thousands separator."""
    return number(text) is not None or number(text, ",") is not None or GROUPED.fullmatch(text) is not None


def is_ambiguous(text: str) -> bool:
    """Whether a text has one point or comma, before three digits: a decimal mark or a thousands separator."""
    match = GROUPED.fullmatch(text)
    return match is not None and match["mark"] in ".," and match["rest"] is None and text.count(match["mark"]) == 1


def found_decimal(texts: Iterable[str], separator: str) -> tuple[str, bool]:
    """The decimal mark of most cells that show one, and whether any does.

    After semicolons, which are written where commas are decimal marks, points before three digits show nothing.
    """
    shown = {".": 0, ",": 0}
    ambiguous = {".": 0, ",": 0}
    for text in texts:
        if "," not in text and "." not in text:
            continue
        if is_ambiguous(text):
            ambiguous["," if "," in text else "."] += 1
        elif (mark := _shown(text)) is not None:
            shown[mark] += 1
    if not shown["."] and not shown[","]:
        return ".", not ambiguous[","] and (separator != ";" or not ambiguous["."])
    return ("," if shown[","] > shown["."] else "."), True


def _shown(text: str) -> str | None:
    """The decimal mark that a text shows."""
    if (match := GROUPED.fullmatch(text)) is not None:
        return match["rest"][0] if match["rest"] else None
    return next((mark for mark in MARKS if mark in text and number(text, mark) is not None), None)


def read_number(text: str, dialect: Dialect) -> float | str:
    """The number that a text is, NaN if it is missing; otherwise what is wrong with it."""
    if is_missing(text):
        return float("nan")
    if not dialect.decided and is_ambiguous(text):
        plain = re.sub(r"[.,]", "", text)
        mark = "comma" if "," in text else "point"
        return (
            f"is {text!r}, which has a decimal {mark} or a thousands separator: pass --decimal "
            f"{',' if mark == 'comma' else '.'} if it is a decimal {mark}, or write it as {plain}"
        )
    value = number(text, dialect.decimal)
    return _wrong(text, dialect) if value is None else value


def _wrong(text: str, dialect: Dialect) -> str:
    if (match := GROUPED.fullmatch(text)) is not None:
        whole = re.sub(r"[^\d+-]", "", text[: match.start("rest")] if match["rest"] else text)
        rest = match["rest"].replace(match["rest"][0], dialect.decimal) if match["rest"] else ""
        return f"is {text!r}, which has a thousands separator: write it as {whole}{rest}"
    other = "." if dialect.decimal == "," else ","
    if number(text, other) is not None:
        return (
            f"is {text!r}, though the table has {MARKS[dialect.decimal]}: write it as "
            f"{text.replace(other, dialect.decimal)}, or pass --decimal {other}"
        )
    return f"is {shortened(text)}"


def shortened(text: str, most: int = 80) -> str:
    """A text in quotes for a message, not too long."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def written(value: float, dialect: Dialect) -> str:
    """A number with the fewest digits that read back the same, and another zero where it could be read as thousands."""
    text = repr(value).replace(".", dialect.decimal)
    is_unclear = is_ambiguous(text) and (dialect.decimal == "," or dialect.separator == ";")
    return f"{text}0" if is_unclear else text
