"""Inducing points in one dimension: evenly spaced quantiles of a weighted sample."""

import torch
from jaxtyping import Float
from torch import Tensor


def quantile_points(
    X: Float[Tensor, "n 1"], m: int, *, weight: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "m 1"]:
    """m points that cut the weighted sample into parts of equal mass, as diverse as one dimension allows.

    A sample from p with weights t/p gives points distributed as t. The distribution function is interpolated
    linearly between the samples, each of which sits in the middle of its own mass.
    """
    x, order = X[:, 0].sort()
    mass = torch.ones_like(x) if weight is None else weight[order]
    position = mass.cumsum(0) - 0.5 * mass
    wanted = (torch.arange(m, dtype=x.dtype, device=x.device) + 0.5) / m * mass.sum()
    right = torch.searchsorted(position, wanted).clamp(1, len(x) - 1)
    left = right - 1
    gap = (position[right] - position[left]).clamp_min(torch.finfo(x.dtype).tiny)
    share = ((wanted - position[left]) / gap).clamp(0.0, 1.0)
    return torch.lerp(x[left], x[right], share)[:, None]
