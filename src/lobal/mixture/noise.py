"""Noise that varies over the inputs: a smooth variance v(x) learned from squared residuals.

The log-variance g = log v is a Gaussian process on a few inducing points (Goldberg et al. 1998, Kersting et al. 2007).
Kersting et al. regress log r^2 on x. Here g has the likelihood of the residuals themselves, which needs no correction
for E[log chi^2] = -1.27 and is more informative: a residual determines g to a variance of 2, log r^2 to one of 4.93.
Sums of squares S_i with nu_i degrees of freedom, the part u_i of whose variance is the model's, have

    log p(S | g) = -1/2 sum_i [nu_i log t_i + S_i / t_i],    t_i = exp(g_i) + u_i,

and Newton's method finds the g of greatest posterior density in O(n m^2) per iteration. Bandwidth and prior variance of
g maximise the likelihood of held-out squares; a constant is kept unless it is clearly worse. How residuals, leverage
and noise are related is explained in `leave_one_out.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs, Scalar
from lobal.core.comparison import is_better
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.mixture.leave_one_out import SquaredResiduals
from lobal.mixture.start import points_in_units

# Of the average square: less noise than this cannot be distinguished from errors of the model.
SMALLEST_SHARE = 1e-4
ITERATIONS = 50  # of Newton's method, which takes about ten
TOLERANCE = 1e-10  # of the Newton decrement per degree of freedom
HALVINGS = 30  # of a step
FOLDS = 4  # of the squares, each held out once
MOST_COMPARED = 4096  # squares: enough to compare log-variances
# A dozen candidates compete with a constant, and the luckiest should not win: with 2, one in 45 did.
STANDARD_ERRORS = 2.0
# Candidates besides a constant: bandwidths of g in units of the target function's, and prior variances of g, by which
# one standard deviation of v is a factor of 1.4, 2.7, 24.
N_INDUCING = 128
WIDTHS = (30.0, 10.0, 3.0, 1.0)
SCALES = (0.1, 1.0, 10.0)


@final
@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """v(x) = exp(g(x)), with g bounded by its values at the labels; far from them g tends to its prior mean."""

    features: WhitenedFeatures  # of one bandwidth
    mean: Scalar
    scale: Scalar
    whitened_mean: Float[Tensor, " m"]
    lowest: Scalar  # bounds of g
    highest: Scalar

    def __call__(self, X: Inputs) -> Float[Tensor, " n"]:
        """Noise variances at the inputs."""
        b = self.whitened_mean[None, :, None]
        g = self.mean + self.scale.sqrt() * self.features.products(X, b)[0, :, 0]
        return g.clamp(self.lowest, self.highest).exp()

    @property
    def is_constant(self) -> bool:
        """Whether the variance is the same everywhere."""
        return bool(self.lowest == self.highest)

    def scaled(self, factor: float) -> "NoiseModel":
        """The same for labels in other units: all variances times the factor."""
        shift = math.log(factor)
        return replace(self, mean=self.mean + shift, lowest=self.lowest + shift, highest=self.highest + shift)


def estimate_noise(
    residuals: SquaredResiduals,
    *,
    shared_bandwidth: Float[Tensor, "..."],
    generator: torch.Generator,
    smallest: float = 0.0,
) -> NoiseModel:
    """The noise variance that predicts held-out squares best; a constant unless that is clearly worse.

    `shared_bandwidth` is that of the target function: the noise is assumed to vary along the same directions, and not
    faster than the function. No variance is below `smallest`.
    """
    points = points_in_units(residuals.X, N_INDUCING, shared_bandwidth, generator=generator)
    level = constant_log_variance(residuals)
    width, scale = _best_prior(residuals, _features(points, shared_bandwidth, WIDTHS), generator)
    features = _features(points, shared_bandwidth, (width,))
    design = _design(features(residuals.X)[0], scale)
    theta = log_variance_parameters(design, residuals, level) if scale else torch.zeros_like(design[0])
    g = (level + design @ theta).clamp_min(torch.maximum(_floor(residuals), level.new_tensor(smallest).log()))
    return NoiseModel(
        features=features,
        mean=level + theta[0],
        scale=level.new_tensor(scale),
        whitened_mean=theta[1:],
        lowest=g.min(),
        highest=g.max(),
    )


def _features(
    points: Float[Tensor, "m d"], shared_bandwidth: Float[Tensor, "..."], widths: tuple[float, ...]
) -> WhitenedFeatures:
    bandwidths = points.new_tensor(widths)
    return WhitenedFeatures.at(points, bandwidths=bandwidths, shared_bandwidth=shared_bandwidth, kernel=gaussian)


def _design(phi: Float[Tensor, "n m"], scale: float) -> Float[Tensor, "n k"]:
    """Columns with standard normal coefficients: the level, known up to about a factor e, and the features."""
    return torch.cat([torch.ones_like(phi[:, :1]), math.sqrt(scale) * phi], dim=1)


def _best_prior(
    residuals: SquaredResiduals, features: WhitenedFeatures, generator: torch.Generator
) -> tuple[float, float]:
    """Width and prior variance of g of greatest held-out likelihood; variance zero if a constant is about as good."""
    rows = torch.randperm(len(residuals.total), generator=generator)[:MOST_COMPARED]
    few = residuals.at(rows.to(residuals.X.device))
    constant = _held_out_likelihood(None, few)
    best, greatest = (WIDTHS[0], 0.0), 0.0
    for width, phi in zip(WIDTHS, features(few.X), strict=True):
        for scale in SCALES:
            likelihood = _held_out_likelihood(_design(phi, scale), few)
            if is_better(-likelihood, -constant, standard_errors=STANDARD_ERRORS, least=greatest):
                best, greatest = (width, scale), (likelihood - constant).mean().item()
    return best


def _held_out_likelihood(design: Float[Tensor, "n k"] | None, residuals: SquaredResiduals) -> Float[Tensor, " n"]:
    """log p(S_i | g) with g from the other folds; constant without a design."""
    fold = torch.arange(len(residuals.total), device=residuals.X.device) % FOLDS
    likelihood = torch.zeros_like(residuals.total)
    for number in range(FOLDS):
        out = fold == number
        rest = residuals.at(~out)
        level = constant_log_variance(rest)
        g = level.expand(int(out.sum()))
        if design is not None:
            g = g + design[out] @ log_variance_parameters(design[~out], rest, level)
        likelihood[out] = log_likelihood(g, residuals.at(out))
    return likelihood


def constant_log_variance(residuals: SquaredResiduals) -> Scalar:
    """log v of greatest likelihood if the noise is the same everywhere; not below a small share of the squares."""
    floor = _floor(residuals)
    model = residuals.freedom @ residuals.model_variance / residuals.freedom.sum()
    start = torch.maximum((_average(residuals) - model).clamp_min(0.0).log(), floor)
    wide = 10.0  # standard deviation of a prior without influence
    column = torch.full_like(residuals.total, wide)[:, None]
    return torch.maximum(start + wide * log_variance_parameters(column, residuals, start)[0], floor)


def _average(residuals: SquaredResiduals) -> Scalar:
    return residuals.total.sum() / residuals.freedom.sum()


def _floor(residuals: SquaredResiduals) -> Scalar:
    return (SMALLEST_SHARE * _average(residuals)).log()


def log_likelihood(g: Float[Tensor, " n"], residuals: SquaredResiduals) -> Float[Tensor, " n"]:
    """log p(S_i | g_i), less what does not depend on g."""
    t = g.exp() + residuals.model_variance
    return -0.5 * (residuals.freedom * t.log() + residuals.total / t)


def derivatives(g: Float[Tensor, " n"], residuals: SquaredResiduals) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """The first derivative of the log-likelihood in each g_i, and minus the second."""
    v = g.exp()
    t = v + residuals.model_variance
    share, surplus = v / t, residuals.total / t - residuals.freedom
    return 0.5 * share * surplus, 0.5 * share * (share * (2.0 * surplus + residuals.freedom) - surplus)


def log_variance_parameters(
    design: Float[Tensor, "n k"], residuals: SquaredResiduals, level: Scalar
) -> Float[Tensor, " k"]:
    """theta of greatest posterior density in g = level + design theta with theta ~ N(0, I), by Newton's method.

    If all variance is noise the objective is concave. Otherwise points whose curvature has the wrong sign are left out
    of the matrix, so that the step is an ascent; it is halved until the objective rises.
    """

    def objective(theta: Tensor) -> float:
        return (log_likelihood(level + design @ theta, residuals).sum() - 0.5 * theta.square().sum()).item()

    theta = design.new_zeros(design.shape[1])
    value, enough = objective(theta), TOLERANCE * residuals.freedom.sum().item()
    for _ in range(ITERATIONS):
        slope, curvature = derivatives(level + design @ theta, residuals)
        gradient = design.mT @ slope - theta
        weighted = design * curvature.clamp_min(0.0).sqrt()[:, None]
        factor = torch.linalg.cholesky(torch.eye(len(theta)).to(theta) + weighted.mT @ weighted)
        step = torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        tries = (theta + 0.5**halving * step for halving in range(HALVINGS))
        better = next(((tried, reached) for tried in tries if (reached := objective(tried)) > value), None)
        if better is None or (gradient @ step).item() < enough:
            break
        theta, value = better
    return theta
