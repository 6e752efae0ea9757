"""The density of a single column, up to its ends: kernel estimates are too low there, as kernels reach beyond them."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar

# A density is computed at this many quantiles of the column, and at a quarter as many equally spaced values.
NODES = 256
# Candidate widths, as multiples of Silverman's rule: narrow for clusters, wide for a uniform column.
WIDTHS = tuple(2.0**k for k in range(-5, 6))


@final
@dataclass(frozen=True, kw_only=True)
class Column:
    """The values of a column, some of its quantiles, its ends, and the nodes at which densities are computed."""

    values: Float[Tensor, " n"]
    quantiles: Float[Tensor, " q"]
    nodes: Float[Tensor, " m"]
    low: float
    high: float

    @classmethod
    def of(cls, values: Float[Tensor, " n"], bounds: Float[Tensor, " 2"]) -> "Column":
        """A column with all values and bounds inside.

        Its ends are half a gap further away: the values of a lattice are the centres of its cells.
        """
        ordered = values.sort().values
        low, high = torch.minimum(ordered[0], bounds[0]), torch.maximum(ordered[-1], bounds[1])
        quantiles = ordered[torch.linspace(0, len(values) - 1, NODES, device=values.device).round().long()]
        even = low + (high - low) * torch.linspace(0.0, 1.0, NODES // 4, dtype=values.dtype, device=values.device)
        gaps = ordered.unique().diff()
        gap = gaps.median().item() if len(gaps) else 1.0
        nodes = torch.cat([quantiles, even]).sort().values
        ends = {"low": low.item() - 0.5 * gap, "high": high.item() + 0.5 * gap}
        return cls(values=values, quantiles=quantiles, nodes=nodes, **ends)

    def log_density(self) -> Float[Tensor, " m"]:
        """At the nodes, by kernels of one width, the one with the best leave-one-out likelihood."""
        spread = self.values.std(correction=0)
        silverman = torch.where(spread > 0, spread, 1.0) * math.pow(4.0 / (3.0 * len(self.values)), 0.2)
        best = max((factor * silverman for factor in WIDTHS), key=self._likelihood)
        return self.log_smoothed(best[None]) - self._inside(self.nodes, best).log()

    def log_smoothed(self, widths: Float[Tensor, " #n"]) -> Float[Tensor, " m"]:
        """The logarithm at the nodes of a sum of kernels that may reach beyond the ends."""
        return (self._kernels(self.nodes, widths).mean(1) + self._floor).log()

    def log_share(self, widths: Float[Tensor, " n"]) -> Float[Tensor, " m"]:
        """The logarithm of the share of the kernels at every node that lies inside the ends."""
        kernels = self._kernels(self.nodes, widths) + self._floor
        return ((kernels * self._inside(self.nodes[:, None], widths)).sum(1) / kernels.sum(1)).log()

    def _likelihood(self, width: Scalar) -> float:
        """Mean log density of the quantiles under all other values.

        Equal values are left out: a lattice or a sample with copies would otherwise be a density of spikes.
        """
        equal = self.quantiles[:, None] == self.values
        others = self._kernels(self.quantiles, width[None]).masked_fill_(equal, 0.0).sum(1)
        density = others / (~equal).sum(1).clamp_min(1) + self._floor
        return (density.log() - self._inside(self.quantiles, width).log()).mean().item()

    def _kernels(self, x: Float[Tensor, " m"], widths: Float[Tensor, " #n"]) -> Float[Tensor, "m n"]:
        scaled = (x[:, None] - self.values) / widths
        return scaled.square_().mul_(-0.5).exp_() / (widths * math.sqrt(2.0 * math.pi))

    def _inside(self, x: Float[Tensor, "..."], widths: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The share of a kernel around x that lies inside the ends."""
        below, above = (torch.special.ndtr((end - x) / widths) for end in (self.low, self.high))
        share: Tensor = above - below
        return share

    @property
    def _floor(self) -> float:
        """The density of one of the values, if it could be anywhere."""
        return 1.0 / (len(self.values) * (self.high - self.low))
