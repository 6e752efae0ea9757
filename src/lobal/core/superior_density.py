"""The paper on one page: local bandwidth -> complexity -> superior density -> inducing-point target.

Functions take values at n points and return values at the same points. Densities and complexities are known up to a
constant factor, so callers normalise them. `dimension` is the intrinsic dimension delta (the input dimension if nothing
smaller is known) and `smoothness` is alpha, which may be `math.inf`.
"""

import math
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.density import norm, normalised

Values: TypeAlias = Float[Tensor, " n"]

SMALLEST_SMOOTHNESS = 0.01


def local_bandwidth(gate: Float[Tensor, "n L"], bandwidths: Bandwidths) -> Values:
    """Locally optimal bandwidth (LOB) factor exp(sum_l G(x)_l log sigma_l), Eq. (eq:gprLOB)."""
    return torch.exp(gate @ bandwidths.log())


def local_complexity(
    bandwidth: Values, density: Values, *, smoothness: float, dimension: float, noise: Values | None = None
) -> Values:
    """Local function complexity (LFC) of GP regression, Theorem 1, Eq. (eq:isotropicComplexityGPR).

    The factor in n is dropped. The exponent is the theorem's d / (2 alpha + d), not the 1 / (2 alpha + d) that
    Eq. (eq:approxLFC) prints. With the noise variance v of the labels it is that of local polynomials of order
    alpha - 1, whose bandwidths depend on v / p, Eq. (eq:isotropicComplexityLPS).
    """
    _check(smoothness, dimension)
    exponent = 0.0 if math.isinf(smoothness) else dimension / (2.0 * smoothness + dimension)
    per_label = density if noise is None else density / noise
    return per_label.pow(-exponent) / bandwidth.pow(dimension)


def superior_density(
    complexity: Values, test_density: Values, noise: Values, *, smoothness: float, dimension: float
) -> Values:
    """Superior training density, Eq. (eq:GeneralizedOptimalSampling).

    (LFC q)^((2 alpha + d) / (4 alpha + d)) v^(2 alpha / (4 alpha + d)); sqrt(LFC q v) at alpha = infinity.
    """
    _check(smoothness, dimension)
    if math.isinf(smoothness):
        return (complexity * test_density * noise).sqrt()
    total = 4.0 * smoothness + dimension
    structure = (complexity * test_density).pow((2.0 * smoothness + dimension) / total)
    return structure * noise.pow(2.0 * smoothness / total)


def inducing_target(density: Values, complexity: Values) -> Values:
    """sqrt(p LFC), the unnormalised density of the inducing points, Eq. (eq:optimizedIPdistribution)."""
    return (density * complexity).sqrt()


def learning_rate(*, smoothness: float, dimension: float) -> float:
    """tau in RMSE = C n^-tau, Eq. (eq:RMSEasymptotics): alpha / (2 alpha + d), one half at alpha = infinity."""
    _check(smoothness, dimension)
    return 0.5 if math.isinf(smoothness) else smoothness / (2.0 * smoothness + dimension)


def smoothness_of_fall(log_bandwidth: Values, log_density: Values, *, dimension: float) -> float:
    """alpha by which local bandwidths fall as labels become denser, sigma ~ (n p)^(-1 / (2 alpha + d)), Theorem 1.

    From the changes of log sigma and of log (n p) between two training sets. Infinity where bandwidths do not fall;
    `SMALLEST_SMOOTHNESS` where they fall faster than the theorem allows for any alpha.
    """
    _check(math.inf, dimension)
    if not log_density.any():
        raise ValueError("the density of labels is the same in both training sets, and says nothing about smoothness")
    fall = -(log_bandwidth @ log_density) / log_density.square().sum()
    return math.inf if fall <= 0.0 else max(0.5 * (1.0 / fall.item() - dimension), SMALLEST_SMOOTHNESS)


def relative_sample_size(rmse: float, rmse_random: float, *, smoothness: float, dimension: float) -> float:
    """Share of the random labels that reach the same error, Eq. (eq:relSampleSizeGPRApprox).

    `rmse` and `rmse_random` are errors at the same number of labels. Below one, the design with error `rmse` saves
    labels.
    """
    if not (rmse >= 0.0 and rmse_random > 0.0):
        raise ValueError(f"errors must be at least zero and the random one above it, got {rmse} and {rmse_random}")
    return math.pow(rmse / rmse_random, 1.0 / learning_rate(smoothness=smoothness, dimension=dimension))


def attainable_sample_size(
    complexity: Values,
    test_density: Values,
    noise: Values,
    pool_density: Values,
    *,
    smoothness: float,
    dimension: float,
    cost: Values | None = None,
) -> float:
    """The relative sample size rho that the superior density can reach, Def. (def:relSampleSize); at most one.

    Asymptotically MISE(p) is proportional to the integral of q LFC (v / p)^s with s = 2 alpha / (2 alpha + d), which
    the superior density minimises; rho compares it with p = q. Integrals are means of g / p_X over the pool.
    rho = (int sqrt(q LFC v))^2 / int LFC v at alpha = infinity. With the `cost` of a label it is the relative cost
    instead: densities are compared at equal integrals of cost * p.
    """
    s = 2.0 * learning_rate(smoothness=smoothness, dimension=dimension)
    q = normalised(test_density, pool_density)
    wanted = q if cost is None else q / cost
    p = superior_density(complexity, wanted, noise, smoothness=smoothness, dimension=dimension)
    p = normalised(p, pool_density)
    p, drawn = (each if cost is None else each / norm(cost * each, pool_density) for each in (p, q))
    # Where p vanishes, so does q, the complexity or the noise: 0 / 0 counts as nothing.
    best, random = (
        norm(torch.where(p > 0, q * complexity * (noise / density).pow(s), 0.0), pool_density) for density in (p, drawn)
    )
    return relative_sample_size(math.sqrt(best), math.sqrt(random), smoothness=smoothness, dimension=dimension)


def _check(smoothness: float, dimension: float) -> None:
    if not smoothness > 0.0:
        raise ValueError(f"smoothness alpha must exceed zero (math.inf is allowed), got {smoothness}")
    if not 0.0 < dimension < math.inf:
        raise ValueError(f"dimension must be positive and finite, got {dimension}")
