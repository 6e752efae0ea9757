"""The rule by which lobal compares alternatives: a mean gain of more than k standard errors.

Losses are compared point by point, for two predictions of the same labels. The standard error of the mean difference is
the size of a gain by chance.
"""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

ROUNDING = 1e-12  # of losses that are computed in two ways, relative to their mean


def standard_error(values: Float[Tensor, " n"]) -> float:
    """Standard error of the mean; infinite for a single value."""
    return values.std().item() / math.sqrt(len(values)) if len(values) > 1 else math.inf


def is_better(
    loss: Float[Tensor, " n"], reference: Float[Tensor, " n"], *, standard_errors: float = 1.0, least: float = 0.0
) -> bool:
    """Whether the mean gain, reference minus loss at the same n points, exceeds both thresholds.

    `standard_errors` is a threshold in standard errors of the mean gain, `least` the smallest gain worth a change.
    Rounding errors of the losses are none.
    """
    gain = reference - loss
    return gain.mean().item() > max(standard_errors * standard_error(gain), least, ROUNDING * loss.abs().mean().item())


def best_of(losses: Sequence[Float[Tensor, " n"]], *, standard_errors: float = 1.0) -> int:
    """The position of the best candidate: the first, or a later one that `is_better` than the best before it."""
    best = 0
    for position, loss in enumerate(losses):
        if is_better(loss, losses[best], standard_errors=standard_errors):
            best = position
    return best
