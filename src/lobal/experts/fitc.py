"""Analytic sparse experts: the inducing values solved for in closed form (Appendix, "Analytic sparse GPs").

Given the inducing values, a label has variance s. FITC (Snelson and Ghahramani 2005) has s = lambda (1 - q) + v;
the collapsed bound of Titsias (2009) has s = v and pays for the rest with a trace term. With A = I + lambda Phi^T
diag(w / s) Phi the whitened inducing values have posterior N(sqrt(lambda) A^-1 Phi^T (w / s)(y - mu), A^-1), which is
also the optimum of the variational objective with a full S. The paper's printed form has a plus for the minus in
lambda (1 - q) and omits the mean: see docs/paper_map.md.
"""

import functools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import FullCovariance, SparseExperts, nystroem_diagonal

LabelVariance: TypeAlias = Callable[[Float[Tensor, "L n"], Hyperparameters], Float[Tensor, "L n"]]


def fitc_variance(q: Float[Tensor, "L n"], shared: Hyperparameters) -> Float[Tensor, "L n"]:
    """lambda (1 - q) + v, the variance of a label given the inducing values."""
    return shared.scale * (1.0 - q) + shared.noise


def titsias_variance(q: Float[Tensor, "L n"], shared: Hyperparameters) -> Float[Tensor, "L n"]:
    """v alone: the collapsed bound treats what the inducing points miss as a penalty, not as noise."""
    return torch.zeros_like(q) + shared.noise


class Moments(NamedTuple):
    """lambda Phi^T diag(w / s) Phi and sqrt(lambda) Phi^T (w / s)(y - mu), summed over some of the points."""

    information: Float[Tensor, "L m m"]
    right_side: Float[Tensor, "L m"]


class NormalEquations(NamedTuple):
    """The Cholesky factor R of A = I + information and the right-hand side."""

    factor: Float[Tensor, "L m m"]
    right_side: Float[Tensor, "L m"]


def moments(
    phi: Float[Tensor, "L n m"],
    y: Float[Tensor, " n"],
    shared: Hyperparameters,
    *,
    precision: Float[Tensor, "L n"],
) -> Moments:
    """What the given points contribute to the normal equations; `precision` is w / s.

    Points without precision say nothing and are left out: under a sparse gate that is most of them for every expert.
    """
    root = (shared.scale * precision).sqrt()
    sides = (_sides(phi[number], row, y - shared.mean) for number, row in enumerate(root))
    information, right_side = zip(*sides, strict=True)
    return Moments(torch.stack(information), torch.stack(right_side) / shared.scale.sqrt())


def _sides(
    phi: Float[Tensor, "n m"], root: Float[Tensor, " n"], residual: Float[Tensor, " n"]
) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"]]:
    """One expert's information and right-hand side, of the points that count."""
    counts = root > 0
    if not counts.all():
        phi, root, residual = phi[counts], root[counts], residual[counts]
    weighted = phi * root[:, None]
    return weighted.mT @ weighted, (root * residual) @ weighted


def normal_equations(parts: Iterable[Moments]) -> NormalEquations:
    """The normal equations from moments of disjoint parts of the data, which need not be in memory at once."""
    information, right_side = functools.reduce(
        lambda a, b: Moments(a.information + b.information, a.right_side + b.right_side), parts
    )
    identity = torch.eye(information.shape[-1], dtype=information.dtype, device=information.device)
    return NormalEquations(torch.linalg.cholesky(information + identity), right_side)


def inducing_mean(equations: NormalEquations) -> Float[Tensor, "L m"]:
    """The posterior mean of the whitened inducing values, A^-1 times the right-hand side."""
    return torch.cholesky_solve(equations.right_side[:, :, None], equations.factor)[:, :, 0]


def inducing_covariance(equations: NormalEquations) -> FullCovariance:
    """The posterior covariance A^-1 = R^-T R^-1 of the whitened inducing values, with A = R R^T."""
    factor = equations.factor
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    root = torch.linalg.solve_triangular(factor, identity, upper=False).mT
    return FullCovariance(root.contiguous())  # in the layout it is saved in, for the same bits after


def analytic_experts(
    features: WhitenedFeatures,
    X: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    shared: Hyperparameters,
    *,
    label_variance: LabelVariance = fitc_variance,
    weights: Float[Tensor, "L n"] | None = None,
) -> SparseExperts:
    """Sparse experts whose inducing values are the exact posterior given the shared hyperparameters.

    `weights` multiply each label's log-likelihood: importance weights, gate weights, or their product.
    """
    phi = features(X)
    s = label_variance(nystroem_diagonal(phi), shared)
    precision = (1.0 if weights is None else weights) / s
    equations = normal_equations([moments(phi, y, shared, precision=precision)])
    return SparseExperts(
        features=features,
        hyperparameters=shared,
        whitened_mean=inducing_mean(equations),
        covariance=inducing_covariance(equations),
    )


def log_evidence(
    phi: Float[Tensor, "L n m"],
    y: Float[Tensor, " n"],
    shared: Hyperparameters,
    *,
    label_variance: LabelVariance,
) -> Float[Tensor, " L"]:
    """log N(y; mu, lambda Q + diag(s)), the log marginal likelihood of each sparse model (for Titsias, the bound).

    What the label variance leaves out of the prior variance is charged as the trace term -(1 - q) lambda / (2 v):
    zero for FITC, the collapsed bound for Titsias.
    """
    s = label_variance(nystroem_diagonal(phi), shared)
    factor, right_side = normal_equations([moments(phi, y, shared, precision=1.0 / s)])
    residual = y - shared.mean
    half: Tensor = torch.linalg.solve_triangular(factor, right_side[:, :, None], upper=False)
    fit = (residual.square() / s).sum(-1) - half.square().sum((-2, -1))
    log_determinant = s.log().sum(-1) + 2.0 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    missing = fitc_variance(nystroem_diagonal(phi), shared) - s
    return -0.5 * (fit + log_determinant + len(y) * math.log(2.0 * math.pi) + (missing / s).sum(-1))
