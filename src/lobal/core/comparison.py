"""The one rule by which lobal prefers one thing to another: a mean gain of more than so many standard errors.

Losses are compared point by point: the same labels, predicted in two ways. The standard error of the mean difference
says how large a gain chance alone would show.
"""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor


def standard_error(values: Float[Tensor, " n"]) -> float:
    """Standard error of the mean; infinite for a single value, which says nothing about its spread."""
    return values.std().item() / math.sqrt(len(values)) if len(values) > 1 else math.inf


def is_better(
    loss: Float[Tensor, " n"], reference: Float[Tensor, " n"], *, standard_errors: float = 1.0, least: float = 0.0
) -> bool:
    """Whether losses are smaller than the reference's, on average over the same n points, beyond chance.

    Args:
        loss: of the candidate at every point.
        reference: of what it would replace.
        standard_errors: how many standard errors of the mean difference the gain has to exceed.
        least: the smallest mean gain that is worth a change.
    """
    gain = reference - loss
    return gain.mean().item() > max(standard_errors * standard_error(gain), least)


def best_of(losses: Sequence[Float[Tensor, " n"]], *, standard_errors: float = 1.0) -> int:
    """The position of the best candidate; each has to be better than the best before it, the first is the default."""
    best = 0
    for position, loss in enumerate(losses):
        if is_better(loss, losses[best], standard_errors=standard_errors):
            best = position
    return best
