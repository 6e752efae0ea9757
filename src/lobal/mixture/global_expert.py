"""One global expert first: mean, regularisation, noise and bandwidth from the marginal likelihood.

The paper trains a single sparse GP for these initial values (Appendix, "Design choices"). Here they maximise the
exact marginal likelihood of a subset of the data, which needs no learning rate and cannot stall.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from lobal.experts.exact import label_covariances, log_marginal_likelihood
from lobal.experts.expert import Hyperparameters
from lobal.kernels import Kernel, safe_cholesky
from lobal.problems.problem import LabelledSet

# Hyperparameters hardly change beyond these many points, more with every bandwidth to learn; the cost is cubic.
LARGEST_SUBSET = 1000
SUBSET, SUBSET_PER_WIDTH = 100, 400
# So the climb happens on a few points, and the rest polish what it found for some iterations.
FEW = 300
FEW_PER_WIDTH = 30  # fewer points for each bandwidth to learn are overfitted
POLISHING = 10
# Noise below this share of the label variance cannot be told from the jitter of the factorisation.
SMALLEST_NOISE = 1e-6


class GlobalExpert(NamedTuple):
    """The single-scale GP's hyperparameters and its bandwidth, one width per input column."""

    hyperparameters: Hyperparameters
    bandwidth: Float[Tensor, " d"]


def fit_global_expert(
    points: LabelledSet,
    *,
    unit: Float[Tensor, " d"],
    kernel: Kernel,
    anisotropic: bool,
    generator: torch.Generator,
) -> GlobalExpert:
    """The single-scale GP that explains (a subset of) the points best.

    `unit` is the natural width of each input column, usually its standard deviation; the bandwidth is one multiple
    of it, or one per column if `anisotropic`. Known noise variances stay as they are.
    """
    n_widths = len(unit) if anisotropic else 1
    size = min(SUBSET + SUBSET_PER_WIDTH * n_widths, LARGEST_SUBSET)
    rows = torch.randperm(len(points), generator=generator)[:size].to(points.y.device)
    subset = points[rows]
    few = subset[torch.arange(min(len(subset), max(FEW, FEW_PER_WIDTH * n_widths)), device=subset.y.device)]
    spread = subset.y.var()
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))

    def climb(sample: LabelledSet, start: np.ndarray, iterations: int) -> OptimizeResult:
        return minimize(
            lambda theta: _negative_evidence(theta, sample, spread, unit, kernel),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-3.0, 3.0), (-10.0, 10.0), (math.log(SMALLEST_NOISE), 5.0)] + [(-8.0, 8.0)] * n_widths,
            options={"maxiter": iterations},
        )

    starts = (
        np.concatenate([start[:3], np.repeat(start[3], n_widths)]) for start in _starts(few, unit, kernel, spread)
    )
    best = min((climb(few, start, 60) for start in starts), key=lambda found: float(found.fun)).x
    if len(subset) > len(few):
        # What explains few points without noise may be far from explaining all: noise smooths the way back.
        noisier = [np.concatenate([best[:2], [max(best[2], noise)], best[3:]]) for noise in (-math.inf, -7.0, -4.0)]
        best = min(noisier, key=lambda theta: _negative_evidence(theta, subset, spread, unit, kernel)[0])
        best = climb(subset, best, POLISHING + 2 * n_widths).x
    theta = torch.tensor(best, dtype=subset.y.dtype, device=subset.y.device)
    hyperparameters = _unpacked(theta, subset, spread)
    if points.noise is not None:
        hyperparameters = hyperparameters._replace(noise=points.noise)
    return GlobalExpert(hyperparameters, (unit * theta[3:].exp()).expand(len(unit)).clone())


def _negative_evidence(
    theta: np.ndarray, sample: LabelledSet, spread: Tensor, unit: Float[Tensor, " d"], kernel: Kernel
) -> tuple[float, np.ndarray]:
    """Minus the log marginal likelihood per label, and its gradient.

    With C = lambda K + diag(v) and a = C^-1 (y - mu) the derivative in C is (a a^T - C^-1) / 2: one inverse, in the
    place of a differentiated factorisation.
    """
    leaf = torch.tensor(theta, dtype=sample.y.dtype, device=sample.y.device, requires_grad=True)
    shared = _unpacked(leaf, sample, spread)
    one = torch.ones_like(spread)[None]
    C = label_covariances(sample.X, shared, one, unit * leaf[3:].exp(), kernel)[0]
    residual = sample.y - shared.mean
    with torch.no_grad():
        factor = safe_cholesky(C).lower
        weights = torch.cholesky_solve(residual[:, None], factor)[:, 0]
        evidence = -0.5 * (residual @ weights + 2.0 * factor.diagonal().log().sum())
        slope = 0.5 * (torch.outer(weights, weights) - torch.cholesky_inverse(factor))
    (gradient,) = torch.autograd.grad([C, residual], leaf, [slope, -weights])
    return -evidence.item() / len(sample), -gradient.cpu().numpy() / len(sample)


def _unpacked(theta: Float[Tensor, " k"], subset: LabelledSet, spread: Tensor) -> Hyperparameters:
    """theta = (mean in standard deviations, log lambda and log v in variances of the labels, log widths ...)."""
    noise = theta[2].exp() * spread if subset.noise is None else subset.noise
    return Hyperparameters(subset.y.mean() + theta[0] * spread.sqrt(), theta[1].exp() * spread, noise)


def _evidence(
    hyperparameters: Hyperparameters, subset: LabelledSet, bandwidth: Float[Tensor, " d"], kernel: Kernel
) -> Tensor:
    one = torch.ones_like(hyperparameters.scale)[None]
    evidence = log_marginal_likelihood(
        subset.X, subset.y, hyperparameters, bandwidths=one, shared=bandwidth, kernel=kernel
    )
    return evidence[0] / len(subset)


@torch.no_grad()
def _starts(few: LabelledSet, unit: Float[Tensor, " d"], kernel: Kernel, spread: Tensor) -> list[np.ndarray]:
    """The best of coarse grids over bandwidth and noise, one for each lambda: the evidence has several maxima."""

    def grid(log_scale: float) -> list[np.ndarray]:
        return [
            np.array([0.0, log_scale, log_noise, log_width])
            for log_noise in (math.log(1e-3), math.log(0.1), math.log(0.5))
            for log_width in np.log(np.geomspace(0.02, 5.0, 8)) + 0.5 * math.log(len(unit))
        ]

    def evidence(theta: np.ndarray) -> float:
        leaf = torch.tensor(theta, dtype=few.y.dtype, device=few.y.device)
        return _evidence(_unpacked(leaf, few, spread), few, unit * leaf[3:].exp(), kernel).item()

    # A lambda far above the labels' variance goes with wide kernels and smooth, noise-free targets.
    return [max(grid(log_scale), key=evidence) for log_scale in (0.0, 8.0)]
