"""The record of a tuning: what was varied, what was tried, how each candidate did and which was taken."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from lobal.mixture.fit import MixtureSettings

Value: TypeAlias = float | int | str | tuple[float | int, ...]
# known: measured at an earlier decision; abandoned: fell behind the best; interrupted: its first steps said enough;
# lost and moved: trained to its end, and refused for its errors or because it predicts something else.
End: TypeAlias = Literal["finished", "known", "abandoned", "interrupted", "diverged", "lost", "moved"]


class Trial(NamedTuple):
    """One candidate, its validation error (none if it diverged) and how its training ended."""

    value: Value
    error: float | None
    epochs: int
    end: End


class Decision(NamedTuple):
    """What was varied, the candidates in the order in which they were tried, and the one that was taken."""

    varied: str
    trials: tuple[Trial, ...]
    chosen: Value

    def scaled(self, factor: float) -> "Decision":
        """The same with errors in other units."""
        trials = (t if t.error is None else t._replace(error=factor * t.error) for t in self.trials)
        return self._replace(trials=tuple(trials))


Report: TypeAlias = Callable[[Decision], None]


class Tuned(NamedTuple):
    """Settings ready to fit with, and how they were arrived at."""

    settings: MixtureSettings
    decisions: list[Decision]


def decision_table(decisions: Sequence[Decision]) -> str:
    """The record as text: one line for each candidate, those taken marked by an asterisk."""
    rows = [("varied", "", "candidate", "error", "epochs", "end")]
    for decision in decisions:
        for number, trial in enumerate(decision.trials):
            rows.append(
                (
                    "" if number else decision.varied,
                    "*" if trial.value == decision.chosen else "",
                    _text(trial.value),
                    "-" if trial.error is None else f"{trial.error:.4f}",
                    f"{trial.epochs}",
                    trial.end,
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def decisions_as_json(decisions: Sequence[Decision]) -> str:
    """The record as JSON."""
    plain = [{**decision._asdict(), "trials": [trial._asdict() for trial in decision.trials]} for decision in decisions]
    return json.dumps(plain, allow_nan=False)


def decisions_from_json(text: str) -> list[Decision]:
    """The record that `decisions_as_json` wrote."""
    return [
        Decision(
            fields["varied"],
            tuple(Trial(**{**trial, "value": _value(trial["value"])}) for trial in fields["trials"]),
            _value(fields["chosen"]),
        )
        for fields in json.loads(text)
    ]


def _value(plain: Any) -> Value:  # noqa: ANN401 - whatever JSON holds
    return tuple(plain) if isinstance(plain, list) else plain


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(f"{number:.3g}" for number in value) + ")"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
