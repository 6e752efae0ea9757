"""What following the local complexity is expected to save, and how sure that is.

Both densities that are compared are those that the design gives its points, so that the difference is the complexity's
alone: what spreading saves against random labels depends on how smooth the target is between labels, and is not
predicted.
"""

import math
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import standard_error

# Errors of the prediction itself, beside chance, on the decision sets of experiments/peers: of any share, and in
# proportion to it.
MODEL_ERROR, RELATIVE_ERROR = 0.1, 0.5
LARGEST_CHANCE = 0.23  # errors by chance above this say nothing


class ExpectedSavings(NamedTuple):
    """The share of labels saved against points spread with constant complexity: 0 for none, 0.5 for half of them."""

    share: float
    by_chance: float | None  # standard error that comes with few labels; none where a model knows no errors

    @property
    def standard_error(self) -> float | None:
        """Of chance and of the prediction itself."""
        own = (MODEL_ERROR, RELATIVE_ERROR * self.share)
        return None if self.by_chance is None else math.hypot(self.by_chance, *own)


def savings_from(followed: Float[Tensor, " n"], even: Float[Tensor, " n"], *, rate: float) -> ExpectedSavings | None:
    """From squared errors, label by label, if labels followed the complexity and if they did not.

    rho = (sum followed / sum even)^(1 / rate), where squared errors fall with n^-rate. Its error is that of the delta
    method and, since few labels do not show where the complexity varies either, n^(-1/2) beside it. None if this is
    too large to say anything, or if noise hides all errors.
    """
    means = followed.mean().item(), even.mean().item()
    if not min(means) > 0.0:
        return None
    rho = min(1.0, (means[0] / means[1]) ** (1.0 / rate))
    by_chance = math.hypot(
        rho / rate * standard_error(followed / means[0] - even / means[1]), 1.0 / math.sqrt(len(followed))
    )
    return ExpectedSavings(1.0 - rho, by_chance) if by_chance <= LARGEST_CHANCE else None
