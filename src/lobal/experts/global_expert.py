"""The global expert: a single Gaussian process, whose mean, scale, noise, bandwidth and kernel the mixture starts from.

The paper trains a single sparse GP for these initial values (Appendix, "Design choices"). Here they maximise the exact
marginal likelihood of the labels in independent neighbourhoods times a prior of widths and noise, which needs no
learning rate. The likelihood has several maxima, and two of them matter: the labels are a smooth function and noise, or
a rapid function with little noise. A small region of rapid change is noise in the first and all there is in the second.
So the search starts from both, and with all points again, since a few show nothing of a small region. With all points,
maxima are compared by how well they predict labels from the others: the evidence pays for a function that is rapid
everywhere, the mixture does not. With a few, such predictions are better the more widths have been fitted to them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, gaussian, kernel_and_slope, matern32, matern52, squared_distances
from lobal.core.linalg import safe_cholesky
from lobal.experts.column_groups import ColumnGroups
from lobal.experts.exact import ExactExperts, exact_experts, neighbourhoods
from lobal.experts.interface import Hyperparameters

# More labels hardly change the hyperparameters. With one bandwidth to learn, fewer are enough, in one neighbourhood;
# otherwise they are divided into neighbourhoods, which cost the cube of their sizes.
WITH_ONE_WIDTH = 500
LARGEST_SUBSET, LARGEST_NEIGHBOURHOOD = 2048, 700
# The search uses a few points, and further iterations on all points polish its result.
FEW, MOST_FEW = 300, 500
FEW_PER_WIDTH = 30  # fewer points per bandwidth overfit
ITERATIONS, POLISHING = 60, 25
AGAIN = 15
COMPARED = 10  # iterations after which only the best start goes on, and the best kernel
SAMPLES_COMPARED = 2  # neighbourhoods: enough to compare kernels
DISTINCT = 0.1  # starts that differ by less in all parameters lead to the same maximum
# Noise below this share of the label variance cannot be distinguished from the jitter of the factorisation.
SMALLEST_NOISE = 1e-6
# Scale of a Cauchy prior of the logarithmic widths around their mean: columns are alike, except some that do not
# matter. Without it, few labels in many columns choose widths by chance.
WIDTH_SCALE = 0.5
# Mean and standard deviation of a normal prior of log v. Labels that lie far apart are explained as well by a rapid
# function without noise, which is then too sure of itself next to them. Of centres -2, -3 and -4 and spreads 1.5, 2, 3
# this was best for intervals on half of the problems of `benchmarks/calibration.py`.
NOISE_CENTRE, NOISE_SPREAD = -2.0, 2.0
# Kernels that are compared, and how much wider than the Gaussian's their widths begin, as logarithms.
KERNEL_SHIFTS: dict[Kernel, float] = {gaussian: 0.0, matern52: 0.45, matern32: 0.8}
# The start that explains labels by small scales: widths in column widths times sqrt(d), the best of these, and noise.
SHORT_WIDTHS = (0.03, 0.06, 0.12, 0.24)
LITTLE_NOISE = 0.01


class GlobalExpert(NamedTuple):
    """The single-scale GP's hyperparameters and its bandwidth, one width per input column."""

    hyperparameters: Hyperparameters
    bandwidth: Float[Tensor, " d"]
    kernel: Kernel
    rougher: "GlobalExpert | None" = (
        None  # of the Matern kernel that predicts labels better from the others, if one does
    )


def fit_global_expert(
    points: LabelledSet,
    *,
    unit: Float[Tensor, " d"],
    kernel: Kernel | None,
    anisotropic: bool,
    generator: torch.Generator,
    groups: Sequence[int] | None = None,
) -> GlobalExpert:
    """The single-scale GP of greatest marginal likelihood of (a subset of) the points.

    `unit` is the natural width of each input column, usually its standard deviation; the bandwidth is one multiple
    of it, or one per column if `anisotropic`; columns of one of the `groups`, given by a number for every column, share
    theirs. Known noise variances stay as they are. Without a `kernel` it is the Gaussian, beside a `rougher` one that a
    single process may need where a mixture does not.
    """
    tied = ColumnGroups.of(groups, unit)
    unit, n_widths = tied.common(unit), tied.n_widths if anisotropic else 1
    size = WITH_ONE_WIDTH if n_widths == 1 else LARGEST_SUBSET
    subset = points[torch.randperm(len(points), generator=generator)[:size].to(points.y.device)]
    n_few = max(FEW, min(FEW_PER_WIDTH * n_widths, MOST_FEW))
    few = subset[torch.arange(min(len(subset), n_few), device=subset.y.device)]
    units = Units.of(subset.y, unit, tied)
    search = Search([few], units, gaussian if kernel is None else kernel)
    starts = [np.concatenate([start[:3], np.repeat(start[3], n_widths)]) for start in _starts(search)]
    found = [search.run(start, ITERATIONS) for start in starts]
    best = min(found, key=search.loss)
    if len(subset) > len(few):
        scaled = subset.X / units.bandwidth(units.tensor(best))
        search = replace(search, samples=[subset[rows] for rows in neighbourhoods(scaled, LARGEST_NEIGHBOURHOOD)])
        best = _polished(search, found, best, short=starts[-1])
    expert = units.expert(best, points, search.kernel)
    if kernel is not None:
        return expert
    search, best = _best_kernel(search, best, short=starts[-1])
    return expert if search.kernel is gaussian else expert._replace(rougher=units.expert(best, points, search.kernel))


def searched_again(
    points: LabelledSet,
    near: GlobalExpert,
    *,
    unit: Float[Tensor, " d"],
    anisotropic: bool,
    groups: Sequence[int] | None = None,
) -> GlobalExpert:
    """The single-scale GP of greatest marginal likelihood of other points, near the one that was found before."""
    tied = ColumnGroups.of(groups, unit)
    unit, n_widths = tied.common(unit), tied.n_widths if anisotropic else 1
    size = WITH_ONE_WIDTH if n_widths == 1 else LARGEST_SUBSET
    subset = points[torch.arange(min(len(points), size), device=points.y.device)]
    samples = [subset[rows] for rows in neighbourhoods(subset.X / near.bandwidth, LARGEST_NEIGHBOURHOOD)]
    # In units of the bandwidth that was found, one factor of all widths keeps their ratios.
    search = Search(samples, Units.of(subset.y, unit if anisotropic else near.bandwidth, tied), near.kernel)
    return search.units.expert(search.run(search.units.parameters(near)[: 3 + n_widths], AGAIN), points, near.kernel)


def _best_kernel(search: "Search", best: np.ndarray, *, short: np.ndarray) -> tuple["Search", np.ndarray]:
    """The kernel that predicts labels best from the others, and its parameters.

    Other kernels start from the parameters of the Gaussian, and from the short start, on some of the samples.
    """
    found: dict[Kernel, np.ndarray] = {gaussian: best}
    for kernel, shift in list(KERNEL_SHIFTS.items())[1:]:
        some = replace(search, samples=search.samples[:SAMPLES_COMPARED], kernel=kernel)
        starts = (np.concatenate([start[:3], start[3:] + shift]) for start in (best, short))
        found[kernel] = min((some.run(start, COMPARED) for start in starts), key=some.loss)
    candidates = [replace(search, samples=search.samples[:SAMPLES_COMPARED], kernel=kernel) for kernel in found]
    kernel = max(candidates, key=lambda each: each.left_out_likelihood(found[each.kernel])).kernel
    search = replace(search, kernel=kernel)
    return search, best if kernel is gaussian else search.run(found[kernel], POLISHING)


def _polished(search: "Search", found: Sequence[np.ndarray], best: np.ndarray, *, short: np.ndarray) -> np.ndarray:
    """The parameters found with all points, from those found with a few, and from the short start again.

    The optimum of a few points without noise may be far from that of all points: more noise helps to get there.
    """
    noisier = [np.concatenate([best[:2], [max(best[2], noise)], best[3:]]) for noise in (-math.inf, -7.0, -4.0)]
    starts = [min(noisier, key=search.loss), short]
    starts += [other for other in found if min(np.abs(other - start).max() for start in [best, *starts]) > DISTINCT]
    best = max((search.run(start, COMPARED) for start in starts), key=search.left_out_likelihood)
    return search.run(best, POLISHING + len(best) - 3 - COMPARED)


@final
@dataclass(frozen=True)
class Units:
    """Units of theta = (mean, log lambda, log v, log widths ...): moments of the labels, column widths."""

    centre: Scalar
    spread: Scalar
    unit: Float[Tensor, " d"]
    groups: ColumnGroups

    @classmethod
    def of(cls, y: Float[Tensor, " n"], unit: Float[Tensor, " d"], groups: ColumnGroups | None = None) -> "Units":
        """The units of these labels."""
        spread = y.var()
        tied = ColumnGroups.of(None, unit) if groups is None else groups
        return cls(y.mean(), torch.where(spread > 0, spread, torch.ones_like(spread)), unit, tied)

    def parameters(self, expert: GlobalExpert) -> np.ndarray:
        """theta of an expert with a width per group of columns."""
        mean, scale, noise = expert.hyperparameters
        first = [(mean - self.centre) / self.spread.sqrt(), *((v.mean() / self.spread).log() for v in (scale, noise))]
        widths = self.groups.first(np.asarray((expert.bandwidth / self.unit).log().tolist()))
        return np.asarray([*(value.item() for value in first), *widths])

    def expert(self, theta: np.ndarray, points: LabelledSet, kernel: Kernel) -> GlobalExpert:
        """The expert of these parameters; the noise is the points' own where it is known."""
        leaf = self.tensor(theta)
        bandwidth = self.bandwidth(leaf).expand(len(self.unit)).clone()
        return GlobalExpert(self.hyperparameters(leaf, points.noise), bandwidth, kernel)

    def tensor(self, theta: np.ndarray) -> Float[Tensor, " k"]:
        """theta on the device of the labels."""
        return torch.tensor(theta, dtype=self.spread.dtype, device=self.spread.device)

    def hyperparameters(self, theta: Float[Tensor, " k"], known_noise: Tensor | None) -> Hyperparameters:
        """Mean, scale and, unless it is known, the noise."""
        noise = theta[2].exp() * self.spread if known_noise is None else known_noise
        return Hyperparameters(self.centre + theta[0] * self.spread.sqrt(), theta[1].exp() * self.spread, noise)

    def bandwidth(self, theta: Float[Tensor, " k"]) -> Float[Tensor, " d"]:
        """One width for every column."""
        return self.unit * self.groups.of_columns(theta[3:]).exp()


@final
@dataclass(frozen=True, eq=False)
class Search:
    """The search for parameters of greatest evidence of independent samples, times the prior of widths and noise."""

    samples: Sequence[LabelledSet]
    units: Units
    kernel: Kernel

    def run(self, start: np.ndarray, iterations: int) -> np.ndarray:
        """The parameters after some iterations of L-BFGS."""
        bounds = [(-3.0, 3.0), (-10.0, 10.0), (math.log(SMALLEST_NOISE), 5.0)] + [(-8.0, 8.0)] * (len(start) - 3)
        options = {"maxiter": iterations}
        found = minimize(self.loss_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return np.asarray(found.x)

    def loss(self, theta: np.ndarray) -> float:
        """Minus the logarithm of evidence and prior, per label."""
        return self.loss_and_slope(theta)[0]

    def loss_and_slope(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The same, and its gradient."""
        leaf = self.units.tensor(theta)
        total, gradient = _log_prior_and_slope(theta)
        for sample in self.samples:
            value, slope = _evidence_and_slope(leaf, sample, self.units, self.kernel)
            total, gradient = total + value, gradient + slope
        n = sum(len(sample) for sample in self.samples)
        return -total / n, -gradient / n

    def left_out_likelihood(self, theta: np.ndarray) -> float:
        """The logarithm of the likelihoods of all labels, each predicted from the others, up to a constant."""
        total = 0.0
        for sample in self.samples:
            mean, variance = self.expert(theta, sample).leave_one_out()
            total -= 0.5 * ((sample.y - mean).square() / variance + variance.log()).sum().item()
        return total

    @torch.no_grad()
    def expert(self, theta: np.ndarray, sample: LabelledSet) -> ExactExperts:
        """The single expert of these parameters."""
        leaf, one = self.units.tensor(theta), torch.ones_like(self.units.spread)[None]
        hyperparameters, width = self.units.hyperparameters(leaf, sample.noise), self.units.bandwidth(leaf)
        X, y = sample.X, sample.y
        return exact_experts(X, y, hyperparameters, bandwidths=one, shared_bandwidth=width, kernel=self.kernel)


def _log_prior_and_slope(theta: np.ndarray) -> tuple[float, np.ndarray]:
    """The logarithm of the prior of widths and noise, and its gradient."""
    deviation = theta[3:] - theta[3:].mean()
    noise = (theta[2] - NOISE_CENTRE) / NOISE_SPREAD
    slope = -2.0 * deviation / (WIDTH_SCALE**2 + np.square(deviation))
    gradient = np.concatenate([[0.0, 0.0, -noise / NOISE_SPREAD], slope - slope.mean()])
    return float(-np.log1p(np.square(deviation / WIDTH_SCALE)).sum() - 0.5 * noise**2), gradient


@torch.no_grad()
def _evidence_and_slope(
    theta: Float[Tensor, " k"], sample: LabelledSet, units: Units, kernel: Kernel
) -> tuple[float, np.ndarray]:
    """The log marginal likelihood and its gradient.

    With C = lambda K + diag(v) and a = C^-1 (y - mu) the derivative in C is S / 2, S = a a^T - C^-1. In the logarithmic
    width of a column with scaled inputs z it is -lambda sum_ij S_ij k'_ij (z_i - z_j)^2, where k' is the kernel's
    derivative by the squared distance.
    """
    mean, scale, noise = units.hyperparameters(theta, sample.noise)
    scaled = sample.X / units.bandwidth(theta)
    centred = scaled - scaled.mean(dim=0)
    K, kernel_slope = kernel_and_slope(squared_distances(centred, centred), kernel)
    C = scale * K
    C.diagonal().add_(noise)
    factor = safe_cholesky(C, in_place=True).lower
    residual = sample.y - mean
    weights = torch.cholesky_solve(residual[:, None], factor)[:, 0]
    evidence = -0.5 * (residual @ weights + 2.0 * factor.diagonal().log().sum())
    S = torch.cholesky_inverse(factor).mT.neg_().addr_(weights, weights)  # transposed: row by row, as K
    by_mean, by_scale = weights.sum() * units.spread.sqrt(), 0.5 * scale * (S * K).sum()
    by_noise = 0.5 * (S.diagonal() * noise).sum() if sample.noise is None else torch.zeros_like(by_mean)
    slopes = S.mul_(kernel_slope)
    # sum_ij G_ij (z_i - z_j)^2 = 2 sum_i z_i (z_i sum_j G_ij - (G z)_i)
    by_widths = -2.0 * scale * (centred * (centred * slopes.sum(dim=1, keepdim=True) - slopes @ centred)).sum(dim=0)
    # One width of all columns, or one of every group.
    by_widths = by_widths.sum(dim=0, keepdim=True) if len(theta) == 4 else units.groups.summed(by_widths)
    gradient = torch.cat([torch.stack([by_mean, by_scale, by_noise]), by_widths])
    return evidence.item(), gradient.cpu().numpy()


def _starts(search: Search) -> list[np.ndarray]:
    """Where to start: the best of coarse grids over bandwidth and noise, for two values of lambda, and a short start.

    The short start has small widths and little noise: those that predict labels from the others best.
    """
    centre = 0.5 * math.log(len(search.units.unit))

    def start(log_scale: float, noise: float, width: float) -> np.ndarray:
        return np.array([0.0, log_scale, math.log(noise), centre + math.log(width)])

    def evidence(theta: np.ndarray) -> float:
        return sum(search.expert(theta, sample).log_marginal_likelihood().item() for sample in search.samples)

    # A lambda far above the labels' variance goes with wide kernels and smooth, noise-free targets.
    grids = [
        [start(scale, noise, width) for noise in (1e-3, 0.1, 0.5) for width in np.geomspace(0.02, 5.0, 8)]
        for scale in (0.0, 8.0)
    ]
    short = [start(0.0, LITTLE_NOISE, width) for width in SHORT_WIDTHS]
    return [*(max(grid, key=evidence) for grid in grids), max(short, key=search.left_out_likelihood)]
