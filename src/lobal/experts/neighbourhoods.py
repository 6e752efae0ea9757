"""Labels in groups of neighbours, for computations that cost the cube of their number.

The labels of a random subset of the same cost are further apart, and what they do not resolve looks like noise or a
smaller bandwidth.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def neighbourhoods(X: Float[Tensor, "n d"], most: int) -> list[Int[Tensor, " rows"]]:
    """The rows of X in groups of no more than `most` nearby points: halves along the widest column, again and again."""
    if len(X) <= most:
        return [torch.arange(len(X), device=X.device)]
    order = X[:, X.std(dim=0).argmax()].argsort()
    halves = order[: len(X) // 2], order[len(X) // 2 :]
    return [half[rows] for half in halves for rows in neighbourhoods(X[half], most)]
