"""The labels that a mixture is fitted to: for training, for validation, for the gate."""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from numpy import ndarray

from lobal.core.arrays import as_column
from lobal.core.dataset import LabelledSet

FEWEST_FOR_EXPERTS = 5


@final
@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a mixture is fitted to.

    The gate of exact experts learns from `gate_set`, or from leave-one-out predictions if there is none. Adam decides
    by the validation labels when to stop; the final experts are conditioned on them too, unless `keep_validation`. The
    analytic engine needs no validation labels.
    """

    points: LabelledSet
    validation: LabelledSet | None = None
    gate_set: LabelledSet | None = None
    keep_validation: bool = False

    def for_training(self) -> LabelledSet:
        """All labels except those for validation."""
        return self.points if self.gate_set is None else LabelledSet.joined(self.points, self.gate_set)

    def for_final_fit(self) -> LabelledSet:
        """All labels that the final experts may be conditioned on."""
        points = self.for_training()
        if self.validation is None or self.keep_validation:
            return points
        return LabelledSet.joined(points, self.validation)


def checked_weights(sample_weight: Any, n: int, *, fewest: int) -> Float[ndarray, " n"]:  # noqa: ANN401 - any array-like
    """Importance weights of n labels, one each if none are given; enough of them are above zero."""
    weights = as_column(1.0 if sample_weight is None else sample_weight, name="sample_weight", length=n)
    if (counted := int((weights > 0).sum())) < fewest:
        raise ValueError(f"need at least {fewest} labels with a sample_weight above zero, got {counted}")
    return weights


def split_labels(
    labelled: LabelledSet,
    *,
    n_gate: int,
    validation: int | LabelledSet | None,
    generator: torch.Generator,
) -> TrainingData:
    """The labels in random order: the first `n_gate` for the gate, then `validation` of them, the rest for the experts.

    Labels given as `validation` are used for nothing else.
    """
    order = torch.randperm(len(labelled), generator=generator).to(labelled.y.device)
    gate_set, rest = labelled[order[:n_gate]] if n_gate else None, order[n_gate:]
    if isinstance(validation, LabelledSet):
        return TrainingData(points=labelled[rest], validation=validation, gate_set=gate_set, keep_validation=True)
    if validation is None:
        return TrainingData(points=labelled[rest], gate_set=gate_set)
    if len(rest) - validation < FEWEST_FOR_EXPERTS:
        raise ValueError(
            f"need at least {FEWEST_FOR_EXPERTS} of {len(labelled)} labels for the experts, got "
            f"{len(rest) - validation}: {validation} are for validation and {n_gate} for the gate; lower "
            "validation_fraction or gate_fraction"
        )
    return TrainingData(points=labelled[rest[validation:]], validation=labelled[rest[:validation]], gate_set=gate_set)
