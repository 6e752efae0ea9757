"""The points to label next as a table, with what is known about each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.blocks import cell_text, table_block
from lobal.report.campaign_figures import inputs_of
from lobal.report.variables import Variable

LEVEL = 0.95  # probability of the intervals
MOST_SHOWN = 6  # outputs of a label in one cell
START, CHECK, SPREAD, DENSITY = "start", "check", "spread", "density"  # why a point was asked for
SHARES = {
    START: "start: chosen before there was a model, evenly",
    CHECK: "check: drawn where predictions are wanted, whatever the model says, to check it",
    SPREAD: "spread: fills the largest gap between labels, where gaps count more the more complex the target is there",
    DENSITY: "density: drawn at random from the density that labels should have",
}

Naming = Callable[[int], str]  # of candidates


class Prediction(NamedTuple):
    """What is predicted for one output, and the interval that contains it with a probability of 95%."""

    mean: float
    lower: float
    upper: float


@final
@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """One point to label, and why; None stands for what is not known."""

    name: str | None
    inputs: tuple[object, ...]  # one for each variable
    share: str  # check, spread, density or start
    predictions: Mapping[str, Prediction] = field(default_factory=dict)  # by output
    nearest: str | None = None  # the nearest label
    distance: float | None = None  # to it, in units of the usual distance between labels
    difference: float | None = None  # of the labels nearby
    complexity: float | None = None  # relative to the median of the candidates


class Pending(NamedTuple):
    """Points of the last step whose label is still to come: what the learner calls them, and where they are."""

    points: ndarray
    candidates: Int[ndarray, " n"]
    model_inputs: ndarray


def last_batch(learner: ActiveLearner) -> Pending:
    """The pending points of the last step."""
    pending = learner.pending
    numbers, inputs = learner.candidates.locate(pending)
    candidates = np.asarray(numbers, dtype=np.int64)
    asked = learner.history[-1].indices if len(learner.history) else ()
    rows = np.flatnonzero(np.isin(candidates, asked))
    return Pending(pending[rows], candidates[rows], learner.candidates.model_inputs(candidates[rows], inputs[rows]))


def batch_rows(
    learner: ActiveLearner,
    variables: Sequence[Variable],
    naming: Naming,
    models: Mapping[str, MixtureRegressor],
) -> list[BatchRow]:
    """What is known about every pending point of the last step, in the order they were asked for.

    `models` are those of the outputs by name.
    """
    batch = last_batch(learner)
    if not len(batch.candidates):
        return []
    places = inputs_of(learner, batch.points)
    values = np.stack([variable.at(places) for variable in variables], axis=1)
    known = _known(learner, batch)
    predictions = {name: _predictions(model, batch.model_inputs) for name, model in models.items()}
    return [
        BatchRow(
            name=None if learner.is_box else naming(int(candidate)),
            inputs=tuple(variable.shown(value) for variable, value in zip(variables, values[row], strict=True)),
            share=_share(learner, int(candidate)),
            predictions={name: each[row] for name, each in predictions.items()},
            **{name: each[row] for name, each in known.items()},
        )
        for row, candidate in enumerate(batch.candidates)
    ]


def _share(learner: ActiveLearner, candidate: int) -> str:
    step = learner.history[-1]
    if step.gamma_1 is None:
        return START
    if step.indices.index(candidate) < step.check:
        return CHECK
    return SPREAD if learner.settings.draw == SPREAD else DENSITY


def _known(learner: ActiveLearner, batch: Pending) -> dict[str, Sequence[Any]]:
    """Fields of the rows that follow from labels and model."""
    found: dict[str, Sequence[Any]] = {}
    labels = learner.labelled
    if len(labels.y) > 1 and labels.y[0].size <= MOST_SHOWN:
        rows, distance = nearest_labels(learner, batch.model_inputs)
        found["nearest"] = [", ".join(map(cell_text, np.atleast_1d(y).tolist())) for y in labels.y[rows]]
        found["distance"] = distance.tolist()
    if learner.fitted is not None:
        complexity = learner.local_complexity()
        found["complexity"] = (complexity[batch.candidates] / np.median(complexity)).tolist()
    return found


def _predictions(model: MixtureRegressor, X: ndarray) -> list[Prediction]:
    columns = (part.tolist() for part in model.predict(X, return_interval=LEVEL))
    return [Prediction(*values) for values in zip(*columns, strict=True)]


def nearest_labels(learner: ActiveLearner, X: ndarray) -> tuple[Int[ndarray, " n"], Float[ndarray, " n"]]:
    """Rows of the nearest labels, and how far they are, in units of the median distance from label to label."""
    candidates, labels = learner.candidates, learner.labelled
    metric = candidates.metric if learner.fitted is None else learner.fitted.metric(candidates)
    places, others = metric.coordinates(X), metric.coordinates(labels.X)
    squared, row = metric.squared_distances(places, others).min(dim=1)
    between = metric.squared_distances(others, others)
    usual = between.masked_fill(torch.eye(len(others), dtype=torch.bool), torch.inf).amin(dim=1).median()
    distance = (squared.clamp_min(0.0) / usual.clamp_min(torch.finfo(usual.dtype).tiny)).sqrt()
    return row.cpu().numpy(), distance.cpu().numpy()


def batch_table(rows: Sequence[BatchRow], variables: Sequence[Variable]) -> str:
    """The points as a table; columns that nothing is known for are left out."""
    columns: dict[str, list[object]] = {"point": [row.name for row in rows]}
    columns |= {variable.name: [row.inputs[j] for row in rows] for j, variable in enumerate(variables)}
    for name in rows[0].predictions:
        found = [row.predictions[name] for row in rows]
        columns[f"{name}, predicted"] = [each.mean for each in found]
        columns[f"{name}, {LEVEL:.0%} interval"] = [f"{each.lower:.4g} to {each.upper:.4g}" for each in found]
    columns |= {
        "nearest label": [row.nearest for row in rows],
        "distance to it": [_times(row.distance) for row in rows],
        "labels nearby differ by": [row.difference for row in rows],
        "complexity": [_times(row.complexity) for row in rows],
        "why": [row.share for row in rows],
    }
    kept = {name: column for name, column in columns.items() if any(cell is not None for cell in column)}
    return table_block(kept, zip(*kept.values(), strict=True))


def _times(ratio: float | None) -> str | None:
    if ratio is None:
        return None
    digits = 2 if ratio < 1.0 else 1 if ratio < 100.0 else 0
    return f"{ratio:.{digits}f} ×"  # noqa: RUF001 - times
