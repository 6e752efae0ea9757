"""Locally optimal bandwidths of local polynomials by Lepski's method, from a ladder; the noise of their labels."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from torch import Tensor

from lobal.baselines.local_fit import Basis, Fits
from lobal.core.arrays import Bandwidths, Inputs

RATIO = math.sqrt(2.0)  # of neighbouring bandwidths of a ladder
DENSEST = 0.1  # share of the inputs, where they are densest, that the smallest bandwidth is made for
MOST_BANDWIDTHS = 48  # from one end to the other of six orders of magnitude
MEDIAN_SQUARE = 0.4549364  # of a standard normal variable
SMALLEST_NOISE = 1e-12  # variance, relative to that of the labels: that of their rounding


def lepski_choice(fits: Fits, threshold: float) -> Int[Tensor, " m"]:
    """The largest bandwidth, by number, up to which fits agree (Lepski 1991; Lepski, Mammen and Spokoiny 1997).

    A fit agrees with those of smaller bandwidths if it lies within `threshold` standard deviations of each; all
    bandwidths up to the chosen one do. Windows with too few labels have no say.
    """
    deviation = threshold * fits.variance.sqrt()
    lower = torch.where(fits.is_enough, fits.mean - deviation, -math.inf).cummax(1).values.roll(1, dims=1)
    upper = torch.where(fits.is_enough, fits.mean + deviation, math.inf).cummin(1).values.roll(1, dims=1)
    lower[:, 0], upper[:, 0] = -math.inf, math.inf
    agrees = ((lower <= fits.mean) & (fits.mean <= upper)) | ~fits.is_enough
    reached = (agrees.cumprod(1) > 0) & fits.is_enough
    return torch.where(reached, torch.arange(reached.shape[1], device=reached.device), 0).amax(1)


def optimal_choice(fits: Fits, threshold: float, *, order: int, d: int) -> Int[Tensor, " m"]:
    """The bandwidth of least mean squared error, Eq. (eq:lpsLOBDefinition), by number, from Lepski's.

    Lepski's bandwidth is where the bias reaches `threshold` standard deviations. The error is least where bias^2 =
    d / (2 (Q + 1)) variance. Bias over deviation grows by the power Q + 1 + d/2 of the bandwidth, Eq.
    (eq:asymptoticBiasofLPS), which says how many steps of the ladder lie between them.
    """
    excess = threshold / math.sqrt(d / (2.0 * (order + 1)))
    steps = round(math.log(excess) / (order + 1 + 0.5 * d) / math.log(RATIO))
    return torch.maximum(lepski_choice(fits, threshold) - max(0, steps), fits.smallest)


def bandwidth_ladder(X: Inputs, basis: Basis) -> Bandwidths:
    """Bandwidths from where windows begin to have enough labels to the extent of all labels, by factors of sqrt(2)."""
    distinct = torch.unique(X, dim=0)
    largest = (distinct - distinct.mean(0)).square().sum(1).max().sqrt().item()
    if largest == 0.0:
        return X.new_ones(1)
    points, k = distinct.cpu().numpy(), min(len(basis.products), len(distinct) - 1)
    reach, _ = cKDTree(points).query(points, k=[k + 1])  # the nearest point is the point itself
    smallest = 0.5 * float(np.quantile(reach, DENSEST))
    steps = math.ceil(max(0.0, math.log(largest / smallest) / math.log(RATIO)))
    powers = torch.arange(-min(steps, MOST_BANDWIDTHS - 1), 1, dtype=X.dtype, device=X.device)
    return torch.pow(RATIO, powers).mul(largest)


def estimated_noise(fits: Fits, y: Float[Tensor, " m"]) -> float:
    """The variance of the labels' noise, from fits without each label whose noise is taken to be one.

    A label differs from the fit of the smallest window that has enough others by noise of variance v (1 + variance).
    The median of the squares, which assumes normal noise, ignores regions where such windows are too large for the
    function.
    """
    mean, variance = fits.under(fits.smallest)
    squares = (y - mean).square() / (1.0 + variance)
    found = squares.median().item() / MEDIAN_SQUARE or squares.mean().item()
    return max(found, SMALLEST_NOISE * y.square().mean().item(), torch.finfo(y.dtype).tiny)
