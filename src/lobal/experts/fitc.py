"""Analytic sparse experts: the inducing values fitted in closed form (Appendix, "Analytic sparse GPs").

Given the inducing values, a label has variance s = lambda (1 - q) + v (FITC, Snelson and Ghahramani 2005). With
A = I + lambda Phi^T diag(w / s) Phi the whitened inducing values have posterior
N(sqrt(lambda) A^-1 Phi^T (w / s)(y - mu), A^-1), which is also the optimum of the variational objective with a full S.
The paper's printed form has a plus for the minus in lambda (1 - q) and omits the mean: see docs/paper_map.md.
"""

import functools
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.experts.interface import Hyperparameters


def fitc_variance(q: Float[Tensor, "L n"], hyperparameters: Hyperparameters) -> Float[Tensor, "L n"]:
    """lambda (1 - q) + v, the variance of a label given the inducing values."""
    return hyperparameters.scale * (1.0 - q) + hyperparameters.noise


class Moments(NamedTuple):
    """lambda Phi^T diag(w / s) Phi and sqrt(lambda) Phi^T (w / s)(y - mu), summed over some of the points."""

    information: Float[Tensor, "L m m"]
    right_side: Float[Tensor, "L m"]


class Conditioned(NamedTuple):
    """Sparse experts conditioned on labels: the Cholesky factor R of A = I + information, the posterior mean."""

    factor: Float[Tensor, "L m m"]
    whitened_mean: Float[Tensor, "L m"]


def moments(
    phi: Float[Tensor, "L n m"],
    y: Float[Tensor, " n"],
    hyperparameters: Hyperparameters,
    *,
    precision: Float[Tensor, "L n"],
) -> Moments:
    """The contribution of the given points to the posterior; `precision` is w / s.

    Points of zero precision are left out: under a sparse gate that is most of them for every expert.
    """
    root = (hyperparameters.scale * precision).sqrt()
    sides = (_sides(phi[number], row, y - hyperparameters.mean) for number, row in enumerate(root))
    information, right_side = zip(*sides, strict=True)
    return Moments(torch.stack(information), torch.stack(right_side) / hyperparameters.scale.sqrt())


def _sides(
    phi: Float[Tensor, "n m"], root: Float[Tensor, " n"], residual: Float[Tensor, " n"]
) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"]]:
    """One expert's information and right-hand side, from the points of positive weight."""
    counts = root > 0
    if not counts.all():
        phi, root, residual = phi[counts], root[counts], residual[counts]
    weighted = phi * root[:, None]
    return weighted.mT @ weighted, (root * residual) @ weighted


def conditioned(parts: Iterable[Moments]) -> Conditioned:
    """The posterior from moments of disjoint parts of the data, which need not be in memory together."""
    information, right_side = functools.reduce(
        lambda a, b: Moments(a.information + b.information, a.right_side + b.right_side), parts
    )
    identity = torch.eye(information.shape[-1], dtype=information.dtype, device=information.device)
    factor = torch.linalg.cholesky(information + identity)
    return Conditioned(factor, torch.cholesky_solve(right_side[:, :, None], factor)[:, :, 0])
