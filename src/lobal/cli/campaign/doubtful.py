"""Labels to look at again: those in other units, and those that contradict the others."""

import numpy as np
from numpy import ndarray

from lobal.cli.campaign.desk import Opened
from lobal.core.table_shape import counted, some_of
from lobal.mixture.mixed_units import labels_in_other_units


def unit_notes(campaign: Opened) -> list[str]:
    """A warning of labels that seem to be in other units, by their points."""
    learner, notes = campaign.learner, []
    numbers, labels = learner.ledger.labelled()
    X, columns = learner.labelled.X, labels.reshape(len(numbers), len(campaign.desk.targets)).T
    for target, column in zip(campaign.desk.targets, columns, strict=True):
        there = np.flatnonzero(np.isfinite(column))
        rows, factor = labels_in_other_units(X[there], column[there])
        if len(rows):
            meant = [numbers[row] for row in there[rows].tolist()]
            named = campaign.named(learner.ledger.candidates(meant), learner.ledger.inputs(meant))
            shown = some_of([f"{point}: {value:.4g}" for point, value in zip(named, column[there[rows]], strict=True)])
            notes.append(
                f"Warning: {len(rows)} labels of {target} seem to be in other units, about {factor:.2g} times what the "
                f"others predict: {shown}. If so, take them back with `lobal campaign undo`, and correct them."
            )
    return notes


def outlier_notes(campaign: Opened) -> list[str]:
    """A warning of labels that contradict the others, as the model found, by their points."""
    learner = campaign.learner
    rows = [] if learner.fitted is None else sorted(learner.fitted.outliers)
    if not rows:
        return []
    numbers, labels = learner.ledger.labelled()
    meant = [numbers[row] for row in rows]
    named = campaign.named(learner.ledger.candidates(meant), learner.ledger.inputs(meant))
    values = labels[rows].reshape(len(rows), -1)
    shown = some_of([f"{point}: {_shown(label)}" for point, label in zip(named, values, strict=True)])
    return [
        f"Warning: {counted(len(rows), 'label')} that the others contradict: {shown}. Check units, signs and decimal "
        "marks; `lobal campaign undo` takes the last table back."
    ]


def _shown(label: ndarray) -> str:
    """One number, or one for each output."""
    return ", ".join("none" if np.isnan(value) else f"{value:.4g}" for value in label.tolist())
