"""Inducing points in one column: evenly spaced quantiles of a weighted sample."""

import torch
from jaxtyping import Float
from torch import Tensor


def quantile_points(
    X: Float[Tensor, "n 1"], m: int, *, weight: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "k 1"]:
    """The distinct values, in ascending order, among m quantiles that divide the weighted sample into equal parts.

    A sample from p with weights t/p gives points with the density t. The distribution function is interpolated
    linearly between the inputs, each of which has half of its mass below it.
    """
    x, order = X[:, 0].sort()
    mass = torch.ones_like(x) if weight is None else weight[order]
    position = mass.cumsum(0) - 0.5 * mass
    wanted = (torch.arange(m, dtype=x.dtype, device=x.device) + 0.5) / m * mass.sum()
    right = torch.searchsorted(position, wanted).clamp(1, len(x) - 1)
    left = right - 1
    gap = (position[right] - position[left]).clamp_min(torch.finfo(x.dtype).tiny)
    share = ((wanted - position[left]) / gap).clamp(0.0, 1.0)
    points: Tensor = torch.unique(torch.lerp(x[left], x[right], share))
    return points[:, None]
