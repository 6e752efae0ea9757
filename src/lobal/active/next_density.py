"""The way to the superior density: what the next batch should follow so that all labels together do (Sec. 4.2)."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.density import normalised


class NextDensity(NamedTuple):
    """How far the next batch gets on the way to the superior density."""

    gamma_1: float | None  # none before there is a model
    gamma_2: float | None
    density: Float[Tensor, " N"]  # p_{k+1}, of the old and new labels together
    proposal: Float[Tensor, " N"]  # p~_{k+1}, of the new labels


def next_density(
    density: Float[Tensor, " N"], superior: Float[Tensor, " N"], pool_density: Float[Tensor, " N"], *, n: int, b: int
) -> NextDensity:
    """The closest to the superior density that b labels can bring n labels of the given density (Sec. 4.2).

    With the share r = n / (n + b) of labels already drawn, gamma_2 = max(0, (r - 1/gamma_1) / (1 - 1/gamma_1)) and
    p~ = (p_{k+1} - r p_k) / (1 - r), a density again; the paper's formulas are those of b = n. Densities count up to
    a constant factor and are returned at equal norm with the pool density.
    """
    p_k, p_sup = normalised(density, pool_density), normalised(superior, pool_density)
    r = n / (n + b)
    # 0 / 0 where neither density lives; rounding must not lower the largest ratio of two equal norms below one.
    gamma_1 = max(1.0, (p_k / p_sup).nan_to_num_(nan=0.0, posinf=math.inf).max().item())
    gamma_2 = 0.0 if r * gamma_1 <= 1.0 else (r - 1.0 / gamma_1) / (1.0 - 1.0 / gamma_1)
    p_next = torch.lerp(p_sup, p_k, gamma_2)
    proposal = p_next.sub(p_k, alpha=r).div_(1.0 - r).clamp_min_(0.0)
    return NextDensity(gamma_1, gamma_2, p_next, proposal)


def with_exploration(
    superior: Float[Tensor, " N"], test_density: Float[Tensor, " N"], share: float
) -> Float[Tensor, " N"]:
    """(1 - share) p_sup + share q, both at equal norm.

    No region where predictions are wanted then starves on the evidence of a handful of labels: it keeps at least that
    share of the labels it would get at random.
    """
    return torch.lerp(superior, test_density, share)
