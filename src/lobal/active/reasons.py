"""Why a point is worth a label, in numbers and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from lobal.active.campaign.state import CampaignState
from lobal.active.candidates import Points
from lobal.active.draws import INTEGRATED_VARIANCE, SPREAD
from lobal.active.knowledge import Knowledge

PROBABILITY = 0.95  # of intervals
NEARBY = 6  # nearest labels among which the two that differ most are looked for
HIGH, LOW = 1.5, 1.0 / 1.5  # complexity, relative to its median, that is called high or low
# How a point came into its batch.
CHECK, VARIANCE, DENSITY, START = "check", "variance", "density", "start"
SHARES = {
    CHECK: "it is one of the checks, which are drawn at random",
    SPREAD: "it fills a gap between the points so far",
    VARIANCE: "a label there lowers the expected error of predictions most",
    DENSITY: "it was drawn from the density that labels should have",
    START: "it is one of the first points, which are spread evenly",
}


@final
@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A labelled point near another."""

    point: Any  # a row number or inputs; of named variables the row's label, or values by name
    label: Any  # a number, or a tuple of numbers
    distance: float  # in the metric of the model or, before there is one, of the space


@final
@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a point is worth a label; None stands for what is not known yet."""

    point: Any  # a row number or inputs; of named variables the row's label, or values by name
    prediction: Any  # a number, or a tuple of numbers
    standard_deviation: Any  # of a new label
    interval: tuple[Any, Any] | None  # that contains a new label with a probability of 95%
    nearest: Neighbour | None  # labelled point
    between: tuple[Neighbour, Neighbour] | None  # those of the nearest labelled points that differ most
    difference: Any  # of their labels: a number or, of several outputs, a tuple of numbers
    complexity: float | None  # local complexity, relative to its median over all candidates
    share: str | None  # of the batch: "check", "spread", "variance", "density" or "start"; none if nobody asked for it

    def sentence(self, names: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> str:
        """The point and why; `names` are those of the candidates, or of the columns of a box."""
        return f"{_named(self.point, names)}: {self.words(names, outputs)}"

    def words(self, names: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> str:
        """Why, without the point; of several outputs with their names, if these are given."""
        parts = [self._prediction(outputs), self._nearest(names, outputs), self._between(outputs), self._complexity()]
        known = [part for part in parts if part] + ([] if self.share is None else [SHARES[self.share]])
        return f"{'; '.join(known) or 'nothing is known about it yet'}."

    def _prediction(self, outputs: Sequence[str] | None) -> str:
        if self.prediction is None:
            return ""
        if outputs is not None and isinstance(self.prediction, tuple):
            ends = [*zip(*self.interval, strict=True)] if self.interval is not None else [None] * len(outputs)
            each = zip(outputs, self.prediction, ends, strict=True)
            known = [f"{name} {_shown(value)}{_within(end)}" for name, value, end in each if np.isfinite(value)]
            return f"predicted {', '.join(known)}" if known else ""
        return f"predicted {_shown(self.prediction)}{_within(self.interval)}"

    def _nearest(self, names: Sequence[str] | None, outputs: Sequence[str] | None) -> str:
        if self.nearest is None:
            return ""
        named = _named(self.nearest.point, names)
        label = _of_outputs(self.nearest.label, outputs)
        return f"nearest label {label} at {named}, distance {self.nearest.distance:.2g}"

    def _between(self, outputs: Sequence[str] | None) -> str:
        if self.difference is None or not np.any(np.nan_to_num(self.difference)):
            return ""
        return f"between two labels that differ by {_of_outputs(self.difference, outputs)}"

    def _complexity(self) -> str:
        if self.complexity is None:
            return ""
        word = "high" if self.complexity > HIGH else "low" if self.complexity < LOW else "ordinary"
        return f"local complexity {word}, {self.complexity:.2g} times the median"


def reasons_for(state: CampaignState, known: Knowledge, points: Points) -> list[Reason]:
    """Why each of some points is worth a label."""
    if not points[0]:
        return []
    numbers = np.array(points[0], dtype=np.int64)
    inputs = state.candidates.model_inputs(numbers, points[1])
    named = state.candidates.named(numbers, points[1])
    near = _neighbours(state, known, inputs)
    predicted, complexity = _predicted(known, inputs), _complexity(known, numbers)
    shares = _shares(state, points)
    return [
        Reason(
            point=named[row],
            **{name: None if column is None else column[row] for name, column in predicted.items()},
            nearest=near[row][0] if near[row] else None,
            **_between(near[row]),
            complexity=None if complexity is None else float(complexity[row]),
            share=shares[row],
        )
        for row in range(len(numbers))
    ]


def _predicted(known: Knowledge, inputs: ndarray) -> dict[str, list[Any] | None]:
    fitted = known.fitted
    if fitted is None:
        return dict.fromkeys(("prediction", "standard_deviation", "interval"))
    deviation, interval = fitted.standard_deviation(inputs), fitted.interval(inputs, PROBABILITY)
    return {
        "prediction": [_plain(value) for value in fitted.predict(inputs)],
        "standard_deviation": None if deviation is None else [_plain(value) for value in deviation],
        "interval": None
        if interval is None
        else [(_plain(lower), _plain(upper)) for lower, upper in zip(*interval, strict=True)],
    }


def _complexity(known: Knowledge, numbers: ndarray) -> Float[ndarray, " n"] | None:
    """Relative to the median over all candidates."""
    if known.fitted is None:
        return None
    everywhere = known.scores.complexity.numpy()
    return np.asarray(everywhere[numbers] / max(float(np.median(everywhere)), np.finfo(float).tiny))


def _neighbours(state: CampaignState, known: Knowledge, inputs: ndarray) -> list[list[Neighbour]]:
    """The nearest labelled points of each, the nearest first; of several labels of one point, their mean."""
    ledger, candidates = state.ledger, state.candidates
    labelled = [number for number in ledger.answered if ledger.entries[number].labels]
    if not labelled:
        return [[] for _ in inputs]
    metric = candidates.metric if known.fitted is None else known.fitted.metric(candidates)
    there = metric.coordinates(state.model_inputs(labelled))
    squared = metric.squared_distances(metric.coordinates(inputs), there)
    nearest = squared.topk(min(NEARBY, len(labelled)), largest=False)
    labels = [_mean(ledger.entries[number].labels) for number in labelled]
    named = candidates.named(ledger.candidates(labelled), ledger.inputs(labelled))
    distances = nearest.values.clamp_min(0.0).sqrt()
    return [
        [
            Neighbour(point=named[place], label=_plain(labels[place]), distance=float(distance))
            for place, distance in zip(places, row, strict=True)
        ]
        for places, row in zip(nearest.indices.tolist(), torch.as_tensor(distances).tolist(), strict=True)
    ]


def _mean(labels: list[Any]) -> ndarray:
    """The mean of the labels of one point, output by output; NaN for outputs that have none."""
    values = np.array(labels, dtype=np.float64)
    there = np.isfinite(values)
    return np.asarray(np.where(there, values, 0.0).sum(axis=0) / np.where(there.any(axis=0), there.sum(axis=0), np.nan))


def _between(near: list[Neighbour]) -> dict[str, Any]:
    """Those two of the neighbours whose labels differ most, and by how much."""
    if len(near) < 2:
        return {"between": None, "difference": None}
    labels = np.array([each.label for each in near], dtype=np.float64).reshape(len(near), -1)
    apart_by = np.abs(labels[:, None] - labels[None])  # NaN for outputs that one of them lacks
    spread = np.nan_to_num(apart_by).max(axis=(0, 1))  # outputs may have different units
    apart = np.linalg.norm(np.nan_to_num(apart_by) / np.where(spread > 0.0, spread, 1.0), axis=-1)
    first, second = sorted(int(place) for place in np.unravel_index(int(apart.argmax()), apart.shape))
    if apart[first, second] == 0.0:
        first, second = 0, 1
    difference = apart_by[first, second]
    known = float(difference[0]) if len(difference) == 1 else tuple(difference.tolist())
    return {"between": (near[first], near[second]), "difference": known}


def _shares(state: CampaignState, points: Points) -> list[str | None]:
    """How each point came into its batch."""
    pairs = zip(points[0], map(tuple, points[1].tolist()), strict=True)
    return [_share(state, state.ledger.number(*pair)) for pair in pairs]


def _share(state: CampaignState, number: int | None) -> str | None:
    asked = zip(state.ledger.batches, state.history, strict=True)
    for batch, step in asked:
        if number is not None and number in batch:
            if step.gamma_1 is None:
                return START
            draw = step.draw or state.setup.settings.draw  # journals of earlier versions have none
            if number - batch.start < step.check:
                return SPREAD if draw == INTEGRATED_VARIANCE else CHECK
            return {SPREAD: SPREAD, INTEGRATED_VARIANCE: VARIANCE}.get(draw, DENSITY)
    return None


def _plain(value: Any) -> Any:  # noqa: ANN401 - a number, a row of numbers, or what a space names points by
    """Arrays as tuples, numbers as Python's own."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return tuple(value.tolist())
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _named(point: Any, names: Sequence[str] | None) -> str:  # noqa: ANN401 - as above
    if isinstance(point, dict):
        return ", ".join(f"{name} = {_shown(value)}" for name, value in point.items())
    if isinstance(point, str):
        return point
    if isinstance(point, tuple):
        columns = names or [f"x{column}" for column in range(len(point))]
        return ", ".join(f"{name} = {_shown(value)}" for name, value in zip(columns, point, strict=True))
    return f"row {point}" if names is None else str(names[point])


def _shown(value: Any) -> str:  # noqa: ANN401 - as above
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _of_outputs(value: Any, outputs: Sequence[str] | None) -> str:  # noqa: ANN401 - as above
    if outputs is None or not isinstance(value, tuple):
        return _shown(value)
    known = [(name, each) for name, each in zip(outputs, value, strict=True) if np.isfinite(each)]
    return ", ".join(f"{name} {_shown(each)}" for name, each in known)


def _within(interval: tuple[Any, Any] | None) -> str:
    return "" if interval is None else f" ({PROBABILITY:.0%} between {_shown(interval[0])} and {_shown(interval[1])})"
