"""Densities of inputs: estimates, equal norm on a pool, importance weights and the intrinsic dimension."""

import math
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Real
from numpy import ndarray
from scipy.spatial import cKDTree
from torch import Tensor

from lobal.core.arrays import Inputs, row_parts, rows_at
from lobal.core.kernels import scale_inputs, squared_distances

# Candidate widths, as multiples of Silverman's rule: it is right for one Gaussian and far too wide for clusters.
RELATIVE_WIDTHS = tuple(2.0**k for k in range(-5, 2))
# A few thousand centres pin a density down to a few percent; more only cost time.
LARGEST_SAMPLE = 2000
# Above this dimension a product of Gaussians with 2000 centres is mostly empty space: neighbours take over.
LARGEST_KERNEL_DIMENSION = 3
# The k-th neighbour's distance gives a density with relative error k^(-1/2): 25 percent.
NEIGHBOURS = 16
# Kernels are summed up this many at a time: 2 MiB, which caches hold. Larger parts are several times slower.
KERNELS_AT_ONCE = 2**18
# Fewer points than this say nothing about an intrinsic dimension.
FEWEST_NEIGHBOURS = 10
# Neighbour densities stay within this factor of the typical one, so that none is zero or infinite.
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
class NeighbourDensity:
    """r^-delta with r the distance to the k-th nearest centre, relative to the typical density.

    Distances are taken in standardised columns, and delta is the intrinsic dimension of the sample, which may be much
    smaller than the number of columns. A centre is not its own neighbour.
    """

    centres: Float[Tensor, "k d"]  # standardised
    spread: Float[Tensor, " d"]
    dimension: float  # delta
    resolution: float = 1.0  # the smallest distance that counts: repeated inputs have distance zero
    typical: float = 1.0  # the distance at density one

    @classmethod
    def fit(cls, X: Inputs, *, generator: torch.Generator) -> "NeighbourDensity":
        """The density of (a sample of) the inputs."""
        sample = _thinned(X, generator)
        spread = column_spread(sample, correction=0)
        dimension = intrinsic_dimension(sample, generator=generator)
        raw = cls(centres=sample / spread, spread=spread, dimension=dimension)
        distances = raw.distances(sample)
        positive = distances[(distances > 0) & torch.isfinite(distances)]
        if not len(positive):
            return raw
        resolution = positive.min().item()
        return replace(raw, resolution=resolution, typical=distances.clamp_min(resolution).median().item())

    def __call__(self, X: Inputs) -> Float[Tensor, " n"]:
        """The density at every input relative to the typical one."""
        relative = self.distances(X).clamp_min(self.resolution).log() - math.log(self.typical)
        return torch.exp(-self.dimension * relative).clamp(1.0 / DENSITY_RANGE, DENSITY_RANGE)

    def distances(self, X: Inputs) -> Float[Tensor, " n"]:
        """The distance of every input to its k-th nearest centre other than itself."""
        k = max(1, min(NEIGHBOURS, len(self.centres) - 1))
        tree = cKDTree(self.centres.cpu().numpy())
        points = (X / self.spread).cpu().numpy()
        nearest = torch.as_tensor(tree.query(points, k=k + 1, workers=torch.get_num_threads())[0]).to(X)
        return torch.where(nearest[:, 0] == 0.0, nearest[:, k], nearest[:, k - 1])


def silverman_widths(X: Inputs) -> Float[Tensor, " d"]:
    """Widths of a Gaussian kernel density estimate by Silverman's rule, one per column."""
    n, d = X.shape
    return column_spread(X) * math.pow(4.0 / (n * (d + 2.0)), 1.0 / (d + 4.0))


def column_spread(X: Inputs, *, correction: int = 1) -> Float[Tensor, " d"]:
    """The standard deviation of every column, or one where a column is constant."""
    spread = X.std(dim=0, correction=correction)
    return torch.where(spread > 0, spread, 1.0)


def _thinned(X: Inputs, generator: torch.Generator) -> Float[Tensor, "k d"]:
    """All rows in random order, or a random `LARGEST_SAMPLE` of them."""
    return X[torch.randperm(len(X), generator=generator)[:LARGEST_SAMPLE].to(X.device)]


def pool_density(X: Real[ndarray, "N d"], *, generator: torch.Generator) -> Float[Tensor, " N"]:
    """An estimate of p_X at the pool itself, positive and up to a constant factor (Algorithm 1, line 10)."""
    return density_at(X, of=X, generator=generator)


def density_at(X: Real[ndarray, "N d"], *, of: Real[ndarray, "n d"], generator: torch.Generator) -> Float[Tensor, " N"]:
    """An estimate at X of the density that another sample was drawn from, positive and up to a constant factor.

    A kernel density estimate in few columns, a neighbour density in more. X may be memory-mapped and is read in slices.
    """
    n, d = of.shape
    rows = torch.randperm(n, generator=generator)[:LARGEST_SAMPLE].sort().values.numpy()
    sample = torch.from_numpy(rows_at(of, rows))
    if d > LARGEST_KERNEL_DIMENSION:
        return _along(X, NeighbourDensity.fit(sample, generator=generator))
    kernels = KernelDensity.fit(sample, generator=generator)
    # However far a point lies from the centres, its density is at least that of a single one of the n points.
    return _along(X, kernels).clamp_min_(kernels.floor * len(kernels.centres) / n)


def _along(X: Real[ndarray, "N d"], density: KernelDensity | NeighbourDensity) -> Float[Tensor, " N"]:
    values = torch.empty(len(X), dtype=torch.float64)
    for rows, part in row_parts(X):
        values[rows] = density(torch.from_numpy(part))
    return values


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
