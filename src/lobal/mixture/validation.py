"""Which labels a mixture is judged by, and how it fares."""

from collections.abc import Sequence

import torch

from lobal.core.dataset import LabelledSet
from lobal.mixture.fit import FittedMixture, TrainingData
from lobal.mixture.progress import Epoch

FEWEST_FOR_EXPERTS = 5


def split_labels(
    labelled: LabelledSet,
    *,
    n_gate: int,
    validation: int | LabelledSet | None,
    generator: torch.Generator,
) -> TrainingData:
    """The labels in random order: the first for the gate, then so many for validation, the rest for the experts.

    Labels given for validation are used for nothing else.
    """
    order = torch.randperm(len(labelled), generator=generator).to(labelled.y.device)
    gate_set, rest = labelled[order[:n_gate]] if n_gate else None, order[n_gate:]
    if isinstance(validation, LabelledSet):
        return TrainingData(points=labelled[rest], validation=validation, gate_set=gate_set, keep_validation=True)
    if validation is None:
        return TrainingData(points=labelled[rest], gate_set=gate_set)
    if len(rest) - validation < FEWEST_FOR_EXPERTS:
        raise ValueError(
            f"of {len(labelled)} labels, {validation} steer and {n_gate} train the gate, which leaves fewer than "
            f"{FEWEST_FOR_EXPERTS} for the experts; lower validation_fraction or gate_fraction"
        )
    return TrainingData(points=labelled[rest[validation:]], validation=labelled[rest[:validation]], gate_set=gate_set)


def validation_error(data: TrainingData, fitted: FittedMixture, history: Sequence[Epoch], *, scale: float) -> float:
    """Root mean squared error in units of the labels: on the validation labels, or leave-one-out without them.

    The data are in units of `scale`; Adam's history is in units of the labels already.
    """
    if fitted.residual is None:
        # Errors before kappa reached its terminal value are another model's.
        return min(epoch.validation_error for epoch in history if epoch.kappa == history[-1].kappa)
    validation = data.validation
    if validation is None:
        residual, weight = fitted.residual, data.known().weight
    else:
        residual, weight = validation.y - fitted.mixture.mean(validation.X), validation.weight
    return scale * (weight @ residual.square() / weight.sum()).sqrt().item()
