"""Densities of inputs: kernel density estimation and the intrinsic dimension."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.arrays import Inputs
from lobal.kernels import CHUNK_ENTRIES, scale_inputs, squared_distances

# Candidate widths, as multiples of Silverman's rule: it is right for one Gaussian and far too wide for clusters.
RELATIVE_WIDTHS = tuple(2.0**k for k in range(-5, 2))
# A few thousand centres pin a density down to a few percent; more only cost time.
LARGEST_SAMPLE = 2000


@final
@dataclass(frozen=True, kw_only=True)
class KernelDensity:
    """A Gaussian kernel density estimate with one width per input column."""

    centres: Float[Tensor, "k d"]
    widths: Float[Tensor, " d"]

    @classmethod
    def fit(cls, X: Inputs, *, generator: torch.Generator) -> "KernelDensity":
        """The estimate whose widths maximise the leave-one-out likelihood of (a sample of) the inputs."""
        rows = torch.randperm(len(X), generator=generator)[:LARGEST_SAMPLE].to(X.device)
        centres = X[rows]
        k, d = centres.shape
        spread = centres.std(dim=0)
        spread = torch.where(spread > 0, spread, torch.ones_like(spread))
        silverman = spread * (4.0 / (k * (d + 2.0))) ** (1.0 / (d + 4.0))
        candidates = [cls(centres=centres, widths=factor * silverman) for factor in RELATIVE_WIDTHS]
        return max(candidates, key=lambda density: density.leave_one_out_likelihood())

    def __call__(self, X: Inputs) -> Float[Tensor, " n"]:
        """The density at every input, normalised."""
        rows = max(1, CHUNK_ENTRIES // len(self.centres))
        return (
            torch.cat([self._log_kernels(part).logsumexp(-1) for part in X.split(rows)])
            .sub(math.log(len(self.centres)))
            .exp()
        )

    def leave_one_out_likelihood(self) -> float:
        """Mean log density of each centre under the others."""
        log_kernels = self._log_kernels(self.centres).fill_diagonal_(-math.inf)
        # A point without neighbours would decide everything; the smallest number keeps its say finite.
        floor = math.log(torch.finfo(log_kernels.dtype).tiny)
        others = max(len(self.centres) - 1, 1)
        return log_kernels.logsumexp(-1).clamp_min(floor).mean().item() - math.log(others)

    def _log_kernels(self, X: Inputs) -> Float[Tensor, "n k"]:
        squared = squared_distances(scale_inputs(X, self.widths), scale_inputs(self.centres, self.widths))
        return -0.5 * squared - self.widths.log().sum() - 0.5 * X.shape[1] * math.log(2.0 * math.pi)


def intrinsic_dimension(X: Inputs, *, generator: torch.Generator) -> float:
    """Intrinsic dimension by TwoNN (Facco et al. 2017), between one and the number of columns.

    The ratio of the distances to the second and first neighbour follows 1 - F(r) = r^-delta; delta is the slope
    through the origin of -log(1 - F) against log r, the largest tenth of the ratios left out.
    """
    rows = torch.randperm(len(X), generator=generator)[:LARGEST_SAMPLE].to(X.device)
    distinct = torch.unique(X[rows], dim=0)
    n, d = distinct.shape
    if d == 1 or n < 10:
        return float(d)
    spread = distinct.std(dim=0)
    scaled = scale_inputs(distinct, torch.where(spread > 0, spread, torch.ones_like(spread)))
    squared = squared_distances(scaled, scaled).fill_diagonal_(math.inf)
    first, second = squared.topk(2, largest=False).values.clamp_min(torch.finfo(X.dtype).tiny).unbind(-1)
    log_ratio = 0.5 * (second.log() - first.log()).sort().values[: int(0.9 * n)]
    survival = -torch.log1p(-torch.arange(1, len(log_ratio) + 1, dtype=X.dtype, device=X.device) / n)
    slope = (log_ratio @ survival) / (log_ratio @ log_ratio).clamp_min(torch.finfo(X.dtype).tiny)
    return min(max(slope.item(), 1.0), float(d))
