"""Densities of inputs: estimates, equal norm on a pool, importance weights and the intrinsic dimension."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int, Real
from numpy import ndarray
from scipy.spatial import cKDTree
from torch import Tensor

from lobal.core.arrays import Inputs, row_parts, rows_at
from lobal.core.density_columns import Column
from lobal.core.kernels import scale_inputs, squared_distances
from lobal.core.units import Units

# Candidate widths, as multiples of Silverman's rule: it is right for one Gaussian and far too wide for clusters.
RELATIVE_WIDTHS = tuple(2.0**k for k in range(-5, 2))
# A few thousand centres pin a density down to a few percent; more only cost time.
LARGEST_SAMPLE = 2000
# Kernels are as wide as the distance to the k-th neighbour, which has a relative error of k^(-1/2) / delta.
NEIGHBOURS = 16
# Candidate widths in units of this distance divided by delta^(1/2), and the one for samples that do not fill the space.
# These, the next two numbers and `NEIGHBOURS` were chosen on known densities: experiments/density_edges.py.
WIDTHS = (1.0, 1.4, 2.0, 2.8, 4.0, 8.0)
WIDTH_ON_SURFACES = 2.8
# Wider kernels are taken unless narrower ones gain more than this in mean log density.
TELLING_GAIN = 0.02
# TwoNN finds 0.8 of the true dimension in ten columns: samples above this share of the columns fill the space.
FULL_DIMENSION = 0.75
# Kernels are summed up this many at a time: 2 MiB, which caches hold. Larger parts are several times slower.
KERNELS_AT_ONCE = 2**18
# The exponential function is slow where its values are close to the smallest number.
LOWEST_EXPONENT = -700.0
# Fewer points than this say nothing about an intrinsic dimension.
FEWEST_NEIGHBOURS = 10
# Pool densities stay within this factor of the typical one, so that none is zero or infinite.
DENSITY_RANGE = 1e12


@final
@dataclass(frozen=True, kw_only=True)
class KernelDensity:
    """A Gaussian kernel density estimate with one width per input column."""

    centres: Float[Tensor, "k d"]
    widths: Float[Tensor, " d"]

    @classmethod
    def fit(cls, X: Inputs, *, generator: torch.Generator) -> "KernelDensity":
        """The estimate whose widths maximise the leave-one-out likelihood of (a sample of) the inputs."""
        centres = _thinned(X, generator)
        silverman = silverman_widths(centres)
        candidates = [cls(centres=centres, widths=factor * silverman) for factor in RELATIVE_WIDTHS]
        return max(candidates, key=lambda density: density.leave_one_out_likelihood())

    def __call__(self, X: Inputs) -> Float[Tensor, " n"]:
        """The density at every input, normalised."""
        rows = max(1, KERNELS_AT_ONCE // len(self.centres))
        # A sum that underflows is zero in double precision anyway: no largest term has to be taken out first.
        sums = torch.cat([self._squared_distances(part).mul_(-0.5).exp_().sum(1) for part in X.split(rows)])
        return sums.log_().add_(self._log_height).sub_(math.log(len(self.centres))).exp_()

    @property
    def floor(self) -> float:
        """The density of a single kernel at its centre, which is the smallest possible density of a sample point."""
        return math.exp(self._log_height - math.log(len(self.centres)))

    def leave_one_out_likelihood(self) -> float:
        """Mean log density of each centre under the others."""
        log_kernels = (self._log_height - 0.5 * self._squared_distances(self.centres)).fill_diagonal_(-math.inf)
        # A point without neighbours has log density -inf, which would outweigh all others.
        floor = math.log(torch.finfo(log_kernels.dtype).tiny)
        others = max(len(self.centres) - 1, 1)
        return log_kernels.logsumexp(1).clamp_min(floor).mean().item() - math.log(others)

    def _squared_distances(self, X: Inputs) -> Float[Tensor, "n k"]:
        return squared_distances(scale_inputs(X, self.widths), scale_inputs(self.centres, self.widths))

    @property
    def _log_height(self) -> float:
        """The logarithm of one kernel at its centre."""
        return -self.widths.log().sum().item() - 0.5 * len(self.widths) * math.log(2.0 * math.pi)


@final
@dataclass(frozen=True, kw_only=True)
class AdaptiveDensity:
    """Gaussian kernels, each as wide as its centre is far from its neighbours, times a correction of every column.

    A sum of kernels is too low near an edge of the data, where part of each kernel lies outside, and so are the
    densities of its columns. Those are known better from the columns alone: the correction of a column is the density
    of its values, divided by the one that the kernels give it. With wide kernels the estimate becomes the product of
    the columns' densities; a sample that does not tell its columns from independent ones gets wide kernels.

    Distances are taken in standardised columns. A sample whose intrinsic dimension delta is below their number does not
    fill the space, and its columns say little about it: kernels are only corrected for the part of them that lies
    beyond the ends of the columns. A centre does not contribute to its own density.
    """

    centres: Float[Tensor, "k d"]  # standardised
    spread: Float[Tensor, " d"]
    dimension: float  # delta
    widths: Float[Tensor, " k"]
    nodes: Float[Tensor, "d m"]  # values of the standardised columns in ascending order
    corrections: Float[Tensor, "d m"]  # their logarithms at the nodes

    @classmethod
    def fit(cls, X: Inputs, *, bounds: Float[Tensor, "2 d"], generator: torch.Generator) -> "AdaptiveDensity":
        """The density of (a sample of) the inputs, for points between the bounds."""
        sample = _thinned(X, generator)
        spread = column_spread(sample, correction=0)
        centres = sample / spread
        columns = [Column.of(values, ends) for values, ends in zip(centres.T, (bounds / spread).T, strict=True)]
        dimension = intrinsic_dimension(sample, generator=generator)
        fills_space = dimension > FULL_DIMENSION * len(columns)
        if fills_space:
            dimension = float(len(columns))
        radius = _neighbour_distances(centres) / math.sqrt(dimension)

        def with_widths(factor: float, corrections: Callable[[Column, Tensor], Tensor]) -> AdaptiveDensity:
            widths = factor * radius
            return cls(
                centres=centres,
                spread=spread,
                dimension=dimension,
                widths=widths,
                nodes=torch.stack([column.nodes for column in columns]),
                corrections=torch.stack([corrections(column, widths) for column in columns]),
            )

        if not fills_space:
            share = dimension / len(columns)
            return with_widths(WIDTH_ON_SURFACES, lambda column, widths: -share * column.log_share(widths))
        candidates = [with_widths(factor, lambda column, widths: -column.log_smoothed(widths)) for factor in WIDTHS]
        orders = [torch.randperm(len(centres), generator=generator).to(X.device) for _ in columns]
        shuffled = torch.stack([values[order] for values, order in zip(centres.T, orders, strict=True)], dim=1)
        gains = [density.dependence(shuffled) for density in candidates]
        best = candidates[max(i for i, gain in enumerate(gains) if gain >= max(gains) - TELLING_GAIN)]
        return replace(best, corrections=best.corrections + torch.stack([column.log_density() for column in columns]))

    def __call__(self, X: Inputs) -> Float[Tensor, " n"]:
        """The logarithm of the density at every input, up to a constant."""
        return self._at(X / self.spread)

    def dependence(self, shuffled: Inputs) -> float:
        """Mean log density of the centres relative to the product of their columns' densities.

        For corrections that divide the kernels by what they give the columns. `shuffled` are the centres with every
        column in another order: their columns are independent, and the mean density there is one.
        """
        return (self._at(self.centres).mean() - self._at(shuffled).logsumexp(0)).item() + math.log(len(shuffled))

    def _at(self, X: Inputs) -> Float[Tensor, " n"]:
        """The logarithm at standardised inputs."""
        heights = (self.widths / self.widths.median()).pow(-self.dimension)
        # -|x - c|^2 / (2 h^2) as one matrix product of (x, |x|^2, 1).
        precisions = self.widths.square().reciprocal()[:, None]
        squares = -0.5 * self.centres.square().sum(1, keepdim=True)
        factors = torch.cat([self.centres, torch.full_like(squares, -0.5), squares], dim=1) * precisions
        points = torch.cat([X, X.square().sum(1, keepdim=True), torch.ones_like(X[:, :1])], dim=1)
        sums = torch.cat(
            [
                (part @ factors.T).clamp_(LOWEST_EXPONENT, 0.0).exp_() @ heights
                for part in points.split(max(1, KERNELS_AT_ONCE // len(heights)))
            ]
        )
        sums -= torch.nn.functional.pad(heights, (0, 1))[self._own(X)]
        # However far a point lies from the centres, its density is at least that of a single one.
        return sums.clamp_min_(heights.min().item()).log_() + self._correction(X)

    def _own(self, X: Inputs) -> Int[Tensor, " n"]:
        """The number of the centre that every input is, or the number of centres if it is none."""
        tree = cKDTree(self.centres.cpu().numpy())
        closest = math.sqrt(torch.finfo(X.dtype).tiny)  # its square is above zero
        return torch.as_tensor(tree.query(X.cpu().numpy(), distance_upper_bound=closest)[1], device=X.device)

    def _correction(self, X: Inputs) -> Float[Tensor, " n"]:
        """The logarithm of the product of the columns' corrections; linear between nodes."""
        x = X.T.contiguous()
        right = torch.searchsorted(self.nodes, x).clamp_(1, self.nodes.shape[1] - 1)
        left = right - 1
        gap = (self.nodes.gather(1, right) - self.nodes.gather(1, left)).clamp_min_(torch.finfo(x.dtype).tiny)
        part = ((x - self.nodes.gather(1, left)) / gap).clamp_(0.0, 1.0)
        return torch.lerp(self.corrections.gather(1, left), self.corrections.gather(1, right), part).sum(0)


def _neighbour_distances(X: Inputs) -> Float[Tensor, " n"]:
    """The distance of every point to its k-th nearest other one; where that is a copy, to a typical neighbour."""
    distinct = torch.unique(X, dim=0)
    if len(distinct) == 1:
        return torch.ones_like(X[:, 0])
    # Distances by a tree are exact: those of copies are zero.
    kth, first = (
        torch.as_tensor(cKDTree(points).query(points, k=[k + 1], workers=torch.get_num_threads())[0][:, 0]).to(X)
        for points, k in ((X.cpu().numpy(), min(NEIGHBOURS, len(X) - 1)), (distinct.cpu().numpy(), 1))
    )
    return torch.where(kth > 0, kth, first.median())


def silverman_widths(X: Inputs) -> Float[Tensor, " d"]:
    """Widths of a Gaussian kernel density estimate by Silverman's rule, one per column."""
    n, d = X.shape
    return column_spread(X) * math.pow(4.0 / (n * (d + 2.0)), 1.0 / (d + 4.0))


def column_spread(X: Inputs, *, correction: int = 1) -> Float[Tensor, " d"]:
    """The standard deviation of every column, or one where a column is constant up to rounding."""
    spread = X.std(dim=0, correction=correction)
    return torch.where(spread > 1e-12 * X.abs().amax(dim=0), spread, 1.0)


def _thinned(X: Inputs, generator: torch.Generator) -> Float[Tensor, "k d"]:
    """All rows in random order, or a random `LARGEST_SAMPLE` of them."""
    return X[torch.randperm(len(X), generator=generator)[:LARGEST_SAMPLE].to(X.device)]


def pool_density(X: Real[ndarray, "N d"], *, generator: torch.Generator) -> Float[Tensor, " N"]:
    """An estimate of p_X at the pool itself, positive and up to a constant factor (Algorithm 1, line 10)."""
    return density_at(X, of=X, generator=generator)


def density_at(X: Real[ndarray, "N d"], *, of: Real[ndarray, "n d"], generator: torch.Generator) -> Float[Tensor, " N"]:
    """An estimate at X of the density that another sample was drawn from, positive and up to a constant factor.

    X may be memory-mapped and is read in slices.
    """
    rows = torch.randperm(len(of), generator=generator)[:LARGEST_SAMPLE].sort().values.numpy()
    sample = rows_at(of, rows)
    units = Units.of(sample)
    ends = [torch.stack(torch.from_numpy(units(part)).aminmax(dim=0)) for _, part in row_parts(X)]
    bounds = torch.stack(torch.cat(ends).aminmax(dim=0))
    density = AdaptiveDensity.fit(torch.from_numpy(units(sample)), bounds=bounds, generator=generator)
    values = torch.cat([density(torch.from_numpy(units(part))) for _, part in row_parts(X)])
    largest = math.log(DENSITY_RANGE)
    return values.sub_(values.median()).clamp_(-largest, largest).exp_()


def norm(p: Float[Tensor, " N"], pool_density: Float[Tensor, " N"]) -> float:
    """The mean of p / p_X over the pool, that is the integral of p in units of that of p_X (Sec. 4.2)."""
    return (p / pool_density).mean().item()


def normalised(p: Float[Tensor, " N"], pool_density: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """p / norm(p), at equal norm with the pool density (Sec. 4.2)."""
    size = norm(p, pool_density)
    if not 0.0 < size < math.inf:
        raise ValueError(f"a density must be positive somewhere and finite everywhere on the pool, got norm {size}")
    return p / size


def importance_weights(q: Float[Tensor, " n"], p: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """q / p at points drawn from p, with mean one.

    Where p almost vanishes, a single point would outweigh all others. Weights are therefore truncated at the share
    n^(-1/2) of their sum (truncated importance sampling, Ionides 2008), n being the number of positive weights.
    """
    largest = torch.finfo(q.dtype).max / max(1, len(q))
    ratio = torch.nan_to_num(q / p, nan=0.0, posinf=largest).clamp_max(largest)
    positive = int((ratio > 0).sum())
    if not positive:
        raise ValueError(f"q must be positive at one of the {len(q)} points at least, got zero at all of them")
    weights = capped(ratio, math.sqrt(positive))
    return weights / weights.mean()


def capped(weights: Float[Tensor, " n"], parts: float) -> Float[Tensor, " n"]:
    """The weights, with the largest reduced to one value such that none exceeds 1/parts of their sum.

    Needs at least `parts` positive weights. With the j largest reduced to c and the sum S of the rest,
    c = (j c + S) / parts; j is the smallest for which no other weight exceeds c.
    """
    largest, where = weights.topk(math.ceil(parts))
    rest = weights.index_fill(0, where, 0.0).sum()
    # The sums of the rest for j = 0, 1, ...; added up from the smallest, for precision.
    sums = rest + largest.flip(0).cumsum(0).flip(0)
    heights = sums / (parts - torch.arange(len(largest), dtype=weights.dtype, device=weights.device))
    first = int((heights >= largest).to(torch.int8).argmax())
    return weights.clamp_max(heights[first])


def intrinsic_dimension(X: Inputs, *, generator: torch.Generator) -> float:
    """Intrinsic dimension by TwoNN, between one and the number of columns, from distances in standardised columns."""
    distinct = torch.unique(_thinned(X, generator), dim=0)
    n, d = distinct.shape
    if d == 1 or n < FEWEST_NEIGHBOURS:
        return float(d)
    scaled = distinct / column_spread(distinct)
    return two_neighbour_dimension(squared_distances(scaled, scaled), largest=float(d))


def two_neighbour_dimension(squared: Float[Tensor, "n n"], *, largest: float) -> float:
    """Intrinsic dimension by TwoNN (Facco et al. 2017) of distinct points, from their squared distances.

    The ratio of the distances to the second and first neighbour follows 1 - F(r) = r^-delta; delta is the slope
    through the origin of -log(1 - F) against log r, the largest tenth of the ratios left out. The result lies between
    one and `largest`. The diagonal of `squared` is overwritten.
    """
    tiny = torch.finfo(squared.dtype).tiny
    nearest = squared.fill_diagonal_(math.inf).topk(2, largest=False).values
    first, second = nearest.clamp_min(tiny).unbind(1)
    n = len(squared)
    log_ratio = 0.5 * (second.log() - first.log()).sort().values[: int(0.9 * n)]
    survival = -torch.log1p(-torch.arange(1, len(log_ratio) + 1, dtype=squared.dtype, device=squared.device) / n)
    slope = (log_ratio @ survival) / (log_ratio @ log_ratio).clamp_min(tiny)
    return min(max(slope.item(), 1.0), largest)
