"""What a fitted model says about every candidate: bandwidth, noise, complexity and the superior density (Sec. 4.1).

Each model is evaluated at the candidates once; everything else follows from those numbers.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lobal.active.candidates import Candidates
from lobal.active.surrogate import FittedSurrogate
from lobal.core.density import normalised
from lobal.core.superior_density import attainable_sample_size, local_complexity, superior_density
from lobal.core.units import ordinary


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """A fitted model at all candidates, under the training density p_k of the step."""

    bandwidth: Float[Tensor, " N"]  # LOB
    complexity: Float[Tensor, " N"]  # LFC, Eq. (eq:approxLFC), up to a constant factor
    even: Float[Tensor, " N"]  # p_sup if the complexity were constant
    superior: Float[Tensor, " N"]  # p_sup, Eq. (eq:approxPOpt), at equal norm with p_X
    attainable: float  # the relative sample size that the superior density could reach


def evaluated(fitted: FittedSurrogate, candidates: Candidates) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Bandwidth and noise variance at all candidates, a part of them at a time."""
    bandwidth, noise = np.empty(len(candidates)), np.empty(len(candidates))
    for rows, part in candidates.parts():
        bandwidth[rows], noise[rows] = fitted.local_bandwidth(part), fitted.noise_variance(part)
    return torch.from_numpy(bandwidth), torch.from_numpy(noise)


def scores_from(
    bandwidth: Float[Tensor, " N"],
    noise: Float[Tensor, " N"],
    density: Float[Tensor, " N"],
    candidates: Candidates,
    *,
    smoothness: float,
    dimension: float,
    is_noise_in_bandwidth: bool = False,
) -> Scores:
    """All scores from what a model says and the training density p_k."""
    orders = {"smoothness": smoothness, "dimension": dimension}
    noise = ordinary(noise)  # of complexity and noise only ratios matter
    inside = positive(noise) if is_noise_in_bandwidth else None
    complexity = local_complexity(ordinary(bandwidth), positive(density), noise=inside, **orders)
    q = per_cost(candidates.test_density, candidates)
    superior = superior_density(complexity, q, noise, **orders)
    return Scores(
        bandwidth=bandwidth,
        complexity=complexity,
        even=normalised(superior_density(torch.ones_like(noise), q, noise, **orders), candidates.pool_density),
        superior=normalised(superior, candidates.pool_density),
        attainable=attainable(complexity, noise, candidates, **orders),
    )


def attainable(
    complexity: Float[Tensor, " N"],
    noise: Float[Tensor, " N"],
    candidates: Candidates,
    *,
    smoothness: float,
    dimension: float,
) -> float:
    """The relative sample size that the superior density could reach, as far as complexity and noise support it.

    The formula also promises something from evening out the test density, even where the complexity is constant.
    That holds only if bandwidths are small against the density's own structure, which in many dimensions they are
    not. So the larger of two is returned: with the test density as it is, and with that part taken away.
    """
    q, p = candidates.test_density, candidates.pool_density
    orders: dict[str, Any] = {"smoothness": smoothness, "dimension": dimension, "cost": candidates.cost}
    whole = attainable_sample_size(complexity, q, noise, p, **orders)
    # Relative to the test density itself, which is then constant: means over the pool become means over it.
    relative = attainable_sample_size(complexity, torch.ones_like(q), noise, p / positive(q), **orders)
    return max(whole, relative)


def per_cost(density: Float[Tensor, " N"], candidates: Candidates) -> Float[Tensor, " N"]:
    """The density divided by the cost of a label; q divided so gives the superior density of a budget in cost.

    The integral of q A p^-s subject to a given integral of cost * p is least for p ~ (q A / cost)^(1 / (s + 1)).
    """
    return density if candidates.cost is None else density / candidates.cost


def positive(density: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The density, no smaller than the smallest positive number: it is divided by."""
    return density.clamp_min(torch.finfo(density.dtype).tiny)
