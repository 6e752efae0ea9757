"""Inducing points by Stein variational gradient descent without gradients of the target (Han and Liu 2018)."""

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.inducing.cells import cell_points
from lobal.inducing.target import REACH, Bounds, Surrogate, TargetDensity

STEPS = 100
# The kernel's bandwidth in units of the average spacing (m t)^(-1/d) of m points that follow the target. Wider kernels
# do not resolve single neighbours, narrower ones do not resolve the density.
RELATIVE_BANDWIDTH = 0.6
# The longest step of a particle, in bandwidths.
LARGEST_STEP = 0.5
# The target at a particle is estimated from n / m inputs, but from no fewer than the first number (too noisy) and no
# more than the second (too slow).
NEIGHBOURS = (16, 256)
# The largest ratio of two particles' importance weights: a single stray particle must not move all others.
LARGEST_RATIO = 100.0


def svgd_points(
    X: Inputs,
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
    bounds: Float[Tensor, "2 d"] | None = None,
) -> Float[Tensor, "m d"]:
    """m particles that repel each other and follow the density t of the weighted sample within the bounds.

    They start at the points of method "cells", because repulsion evens out neighbours quickly but whole regions slowly.
    The target is known at the sample and interpolated between its points. `bounds` are the smallest and largest values
    of the columns, by default those of the sample. Each step costs O(m^2).
    """
    weight = torch.ones_like(X[:, 0]) if weight is None else weight
    lower, upper = (X.min(0).values, X.max(0).values) if bounds is None else bounds
    box = Bounds(lower=lower, upper=upper)
    fewest, most = NEIGHBOURS
    target = TargetDensity.of(X, weight, box, neighbours=max(fewest, min(len(X) // m, most)))
    surrogate = Surrogate.of(X, weight, box, generator=generator)
    particles = cell_points(X, m, generator=generator, weight=weight)
    for step in range(STEPS):
        rate = 1.0 - step / STEPS
        particles = box.reflected(particles + rate * movement(particles, target, surrogate, box))
    return particles


def bandwidth(target: Float[Tensor, " m"], d: int) -> Float[Tensor, " m"]:
    """Kernel bandwidths at m particles, proportional to t^(-1/d); t is normalised."""
    return RELATIVE_BANDWIDTH * (len(target) * target).pow(-1.0 / d)


def movement(
    particles: Float[Tensor, "m d"], target: TargetDensity, surrogate: Surrogate, bounds: Bounds
) -> Float[Tensor, "m d"]:
    """The step of every particle, of the order of its bandwidth.

    The sum over particles j of w_j [s(x_j) k(x_j, x_i) + dk(x_j, x_i)/dx_j], where s is the score of the surrogate
    rho and w = rho / t, vanishes in expectation when the particles follow t, for any bandwidth that depends on i
    only. At the bounds this requires kernels that vanish there, which mirror images of the particles provide.
    """
    t = target(particles)
    h = bandwidth(t, particles.shape[1])
    log_density, score = surrogate.log_density_and_score(particles)
    log_weight = log_density - t.log()
    mirrored = bounds.with_images(particles, REACH * h)
    squared = torch.cdist(particles, mirrored.points).square()
    ratio = (log_weight[mirrored.row] - log_weight[:, None]).exp().clamp(1.0 / LARGEST_RATIO, LARGEST_RATIO)
    kernel = torch.exp(-0.5 * squared / h.square()[:, None]) * ratio
    total = kernel.sum(1, keepdim=True)
    repulsion = particles - kernel @ mirrored.points / total
    attraction = h.square()[:, None] * (kernel @ (score[mirrored.row] * mirrored.sign)) / total
    steps = repulsion + attraction
    length = steps.square().sum(1).sqrt().clamp_min(torch.finfo(steps.dtype).tiny)
    return steps * (LARGEST_STEP * h / length).clamp_max(1.0)[:, None]
