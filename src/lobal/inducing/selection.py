"""One way in: inducing points of a sample, whatever its dimension."""

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.inducing.kmeans import kmeans_points
from lobal.inducing.quantiles import quantile_points


def inducing_points(
    X: Float[Tensor, "n d"],
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, "k d"]:
    """At most m diverse points that represent the weighted sample: quantiles in one dimension, else k-means.

    Where the sample has no more than m distinct points, it is those.
    """
    if m < 1:
        raise ValueError(f"the number of inducing points must be at least 1, got {m}")
    distinct: Tensor = torch.unique(X, dim=0)
    if len(distinct) <= m:
        return distinct
    if X.shape[1] == 1:
        # A value that fills much of the sample is several of its quantiles.
        quantiles: Tensor = torch.unique(quantile_points(X, m, weight=weight), dim=0)
        return quantiles
    return kmeans_points(X, m, generator=generator, weight=weight)
