"""The global expert: initial mean, regularisation, noise and bandwidth from the marginal likelihood.

The paper trains a single sparse GP for these initial values (Appendix, "Design choices"). Here they maximise the exact
marginal likelihood of the labels in independent neighbourhoods, which needs no learning rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, squared_distances
from lobal.core.linalg import safe_cholesky
from lobal.experts.exact import exact_experts, label_covariances, neighbourhoods
from lobal.experts.interface import Hyperparameters

# More labels hardly change the hyperparameters. With one bandwidth to learn, fewer are enough, in one neighbourhood;
# otherwise they are divided into neighbourhoods, which cost the cube of their sizes.
WITH_ONE_WIDTH = 500
LARGEST_SUBSET, LARGEST_NEIGHBOURHOOD = 2048, 700
# The search uses a few points, and further iterations on all points polish its result.
FEW, MOST_FEW = 300, 500
FEW_PER_WIDTH = 30  # fewer points per bandwidth overfit
POLISHING = 25
# Noise below this share of the label variance cannot be distinguished from the jitter of the factorisation.
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
    """The single-scale GP of greatest marginal likelihood of (a subset of) the points.

    `unit` is the natural width of each input column, usually its standard deviation; the bandwidth is one multiple
    of it, or one per column if `anisotropic`. Known noise variances stay as they are.
    """
    n_widths = len(unit) if anisotropic else 1
    size = WITH_ONE_WIDTH if n_widths == 1 else LARGEST_SUBSET
    subset = points[torch.randperm(len(points), generator=generator)[:size].to(points.y.device)]
    n_few = max(FEW, min(FEW_PER_WIDTH * n_widths, MOST_FEW))
    few = subset[torch.arange(min(len(subset), n_few), device=subset.y.device)]
    spread = subset.y.var()
    units = Units(subset.y.mean(), torch.where(spread > 0, spread, torch.ones_like(spread)), unit)

    def search(samples: Sequence[LabelledSet], start: np.ndarray, iterations: int) -> OptimizeResult:
        return minimize(
            lambda theta: _negative_evidence(theta, samples, units, kernel),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-3.0, 3.0), (-10.0, 10.0), (math.log(SMALLEST_NOISE), 5.0)] + [(-8.0, 8.0)] * n_widths,
            options={"maxiter": iterations},
        )

    starts = (np.concatenate([start[:3], np.repeat(start[3], n_widths)]) for start in _starts(few, units, kernel))
    best = min((search([few], start, 60) for start in starts), key=lambda found: float(found.fun)).x
    if len(subset) > len(few):
        scaled = subset.X / units.bandwidth(units.tensor(best))
        samples = [subset[rows] for rows in neighbourhoods(scaled, LARGEST_NEIGHBOURHOOD)]
        # The optimum of a few points without noise may be far from that of all points: more noise helps to get there.
        noisier = [np.concatenate([best[:2], [max(best[2], noise)], best[3:]]) for noise in (-math.inf, -7.0, -4.0)]
        best = min(noisier, key=lambda theta: _negative_evidence(theta, samples, units, kernel)[0])
        best = search(samples, best, POLISHING + n_widths).x
    theta = units.tensor(best)
    return GlobalExpert(units.hyperparameters(theta, points.noise), units.bandwidth(theta).expand(len(unit)).clone())


@final
@dataclass(frozen=True)
class Units:
    """Units of theta = (mean, log lambda, log v, log widths ...): moments of the labels, column widths."""

    centre: Scalar
    spread: Scalar
    unit: Float[Tensor, " d"]

    def tensor(self, theta: np.ndarray) -> Float[Tensor, " k"]:
        """theta on the device of the labels."""
        return torch.tensor(theta, dtype=self.spread.dtype, device=self.spread.device)

    def hyperparameters(self, theta: Float[Tensor, " k"], known_noise: Tensor | None) -> Hyperparameters:
        """Mean, scale and, unless it is known, the noise."""
        noise = theta[2].exp() * self.spread if known_noise is None else known_noise
        return Hyperparameters(self.centre + theta[0] * self.spread.sqrt(), theta[1].exp() * self.spread, noise)

    def bandwidth(self, theta: Float[Tensor, " k"]) -> Float[Tensor, " d"]:
        """One width for every column."""
        return self.unit * theta[3:].exp()


def _negative_evidence(
    theta: np.ndarray, samples: Sequence[LabelledSet], units: Units, kernel: Kernel
) -> tuple[float, np.ndarray]:
    """Minus the log marginal likelihood per label of independent samples, and its gradient."""
    leaf = units.tensor(theta).requires_grad_()
    evidence, gradient = 0.0, np.zeros_like(theta)
    for sample in samples:
        value, slope = _evidence_and_slope(leaf, sample, units, kernel)
        evidence, gradient = evidence + value, gradient + slope
    n = sum(len(sample) for sample in samples)
    return -evidence / n, -gradient / n


def _evidence_and_slope(
    leaf: Float[Tensor, " k"], sample: LabelledSet, units: Units, kernel: Kernel
) -> tuple[float, np.ndarray]:
    """The log marginal likelihood and its gradient.

    With C = lambda K + diag(v) and a = C^-1 (y - mu) the derivative in C is (a a^T - C^-1) / 2: one inverse instead of
    a differentiated factorisation.
    """
    hyperparameters = units.hyperparameters(leaf, sample.noise)
    one = torch.ones_like(units.spread)[None]
    scaled = sample.X / units.bandwidth(leaf)
    C = label_covariances(squared_distances(scaled, scaled), hyperparameters, one, kernel)[0]
    residual = sample.y - hyperparameters.mean
    with torch.no_grad():
        factor = safe_cholesky(C).lower
        weights = torch.cholesky_solve(residual[:, None], factor)[:, 0]
        evidence = -0.5 * (residual @ weights + 2.0 * factor.diagonal().log().sum())
        slope = 0.5 * (torch.outer(weights, weights) - torch.cholesky_inverse(factor))
    (gradient,) = torch.autograd.grad([C, residual], leaf, [slope, -weights])
    return evidence.item(), gradient.cpu().numpy()


@torch.no_grad()
def _starts(few: LabelledSet, units: Units, kernel: Kernel) -> list[np.ndarray]:
    """The best of a coarse grid over bandwidth and noise, for two values of lambda: the evidence has several maxima."""

    def grid(log_scale: float) -> list[np.ndarray]:
        return [
            np.array([0.0, log_scale, log_noise, log_width])
            for log_noise in (math.log(1e-3), math.log(0.1), math.log(0.5))
            for log_width in np.log(np.geomspace(0.02, 5.0, 8)) + 0.5 * math.log(len(units.unit))
        ]

    def evidence(theta: np.ndarray) -> float:
        leaf, one = units.tensor(theta), torch.ones_like(units.spread)[None]
        hyperparameters, width = units.hyperparameters(leaf, few.noise), units.bandwidth(leaf)
        experts = exact_experts(few.X, few.y, hyperparameters, bandwidths=one, shared_bandwidth=width, kernel=kernel)
        return experts.log_marginal_likelihood().item()

    # A lambda far above the labels' variance goes with wide kernels and smooth, noise-free targets.
    return [max(grid(log_scale), key=evidence) for log_scale in (0.0, 8.0)]
