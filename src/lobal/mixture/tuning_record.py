"""The record of a tuning: what was varied, the candidates, their errors and the choice."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from lobal.core.schema import FINITE, anything, list_of, real, table, text, whole
from lobal.mixture.settings import MixtureSettings

Value: TypeAlias = float | int | str | tuple[float | int, ...]
# known: trained for an earlier decision; interrupted: stopped after its first epochs; lost, moved: trained to the end,
# then rejected for its errors or because its predictions differ too much; abandoned: in records of earlier versions.
End: TypeAlias = Literal["finished", "known", "abandoned", "interrupted", "diverged", "lost", "moved"]


# A record as JSON holds it.
_TRIAL = {"value": anything, "error": real(-FINITE, FINITE, words=(None,)), "epochs": whole(), "end": text()}
DECISIONS = list_of(table({"varied": text(), "trials": list_of(table(_TRIAL)), "chosen": anything}))


class Trial(NamedTuple):
    """One candidate, its validation error (None if it diverged), and how its training ended."""

    value: Value
    error: float | None
    epochs: int
    end: End


class Decision(NamedTuple):
    """What was varied, the candidates in the order of their trials, and the chosen one."""

    varied: str
    trials: tuple[Trial, ...]
    chosen: Value

    def scaled(self, factor: float) -> "Decision":
        """The same with errors in other units."""
        trials = (t if t.error is None else t._replace(error=factor * t.error) for t in self.trials)
        return self._replace(trials=tuple(trials))


class Tuned(NamedTuple):
    """Settings to fit with, and the decisions that led to them."""

    settings: MixtureSettings
    decisions: list[Decision]


def decisions_as_json(decisions: Sequence[Decision]) -> str:
    """The record as JSON."""
    plain = [{**decision._asdict(), "trials": [trial._asdict() for trial in decision.trials]} for decision in decisions]
    return json.dumps(plain, allow_nan=False)


def decisions_from_json(content: str) -> list[Decision]:
    """The record that `decisions_as_json` wrote.

    Raises:
        ValueError: it is not one.
    """
    decisions = json.loads(content)
    DECISIONS(decisions, "tuning")
    return [
        Decision(fields["varied"], tuple(map(_trial, fields["trials"])), _value(fields["chosen"]))
        for fields in decisions
    ]


def _trial(fields: Mapping[str, Any]) -> Trial:
    return Trial(**{name: fields[name] for name in Trial._fields} | {"value": _value(fields["value"])})


def _value(plain: Any) -> Value:  # noqa: ANN401 - any JSON value
    return tuple(plain) if isinstance(plain, list) else plain
