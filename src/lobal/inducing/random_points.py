"""Inducing points drawn at random: the baseline."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Inputs


def random_points(
    X: Inputs, m: int, *, generator: torch.Generator, weight: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "m d"]:
    """m distinct rows of X, drawn without replacement in proportion to their weights."""
    # The rows with the smallest of independent exponential variables whose rates are the weights.
    distinct, rate = merged(X, weight)
    uniform = torch.rand(len(distinct), dtype=X.dtype, generator=generator).to(X.device)
    arrival = -torch.log1p(-uniform) / rate
    return distinct[arrival.topk(m, largest=False).indices]


def merged(X: Inputs, weight: Float[Tensor, " n"] | None) -> tuple[Float[Tensor, "k d"], Float[Tensor, " k"]]:
    """The distinct rows of positive weight in ascending order, each with the weight of all its copies."""
    weight = torch.ones_like(X[:, 0]) if weight is None else weight
    counted = weight > 0.0
    distinct, place = torch.unique(X[counted], dim=0, return_inverse=True)
    return distinct, torch.zeros_like(distinct[:, 0]).index_add_(0, place, weight[counted])


def drawn_rows(weight: Float[Tensor, " n"], number: int, *, generator: torch.Generator) -> Int[Tensor, " k"]:
    """Row numbers drawn with replacement, in proportion to the weights."""
    total = weight.cumsum(0)
    uniform = torch.rand(number, dtype=weight.dtype, generator=generator).to(weight.device)
    # side right: a row of weight zero is not drawn even if the uniform number is zero.
    return torch.searchsorted(total, uniform * total[-1], right=True).clamp_max(len(weight) - 1)
