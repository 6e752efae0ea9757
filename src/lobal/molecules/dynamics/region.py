"""Where a model may be trusted: configurations that are not much farther from the labels than labels are from others.

Appendix, "A realistic MD simulation AL scenario": a trajectory starts again where the density p_k(x) of what is known
is below a threshold epsilon. p_k is the symmetrised kernel density of `molecules.density`. The paper takes that of the
last pool; here it is that of the labels, since these are what the model knows. Epsilon follows from the labels
themselves. Of each, the density that all others give it is taken with all distances multiplied by `REACH`:

    p_i = sum over j != i and pi of exp(-REACH^2 |Phi(z_i) - pi Phi(z_j)|^2 / (2 sigma^2)),

the density at a configuration that is `REACH` times as far from the labels as they are from each other. Epsilon is the
value that a share `TYPICAL` of the p_i exceeds, but `LARGEST_THRESHOLD` at most, so that every label is in the region.
Few labels in many dimensions are far from each other, so that trajectories go far beyond them, and the next labels
extend the region; many are near each other, and it closes in.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.core.density import LARGEST_SAMPLE
from lobal.core.kernels import squared_distances
from lobal.molecules.density import configuration_density, density_width
from lobal.molecules.geometry.descriptor import Descriptors, Positions, descriptors
from lobal.molecules.geometry.permutations import (
    Permutations,
    descriptor_permutations,
    symmetrised_squared_distances,
)
from lobal.molecules.geometry.symmetry import ROUNDING

REACH = 1.5
# The share of labels by which distances are measured: a few of them lie apart from all others.
TYPICAL = 0.9
# A label alone has a density of one at its own place: new ones in sparse places open them, however dense others are.
LARGEST_THRESHOLD = 0.5
BLOCK = 2**22  # distances at a time


@final
@dataclass(frozen=True, kw_only=True)
class KnownRegion:
    """The configurations that are near enough to those with labels."""

    values: Descriptors  # of the known configurations
    permutations: Permutations
    width: float  # sigma of p_k, 1 / Angstrom
    threshold: float  # epsilon
    spacing: float  # 1 / Angstrom: a share `TYPICAL` of the labels is as near to another label

    @classmethod
    def of(cls, R_known: Positions, permutations: Permutations) -> "KnownRegion":
        """The region around configurations.

        Args:
            R_known: Configurations with labels, (n, N, 3) in Angstrom; at least two that differ.
            permutations: The molecule's symmetries, as `ForceField.kernel.permutations`.

        Raises:
            ValueError: there are too few configurations.
        """
        values, permutations = descriptors(R_known, R_known.device), permutations.to(R_known.device)
        if not _differ(values, permutations):
            raise ValueError(
                f"the region needs at least 2 different configurations with labels, got {len(values)}; label more"
            )
        width = density_width(values, permutations)
        rows = torch.linspace(0, len(values) - 1, min(len(values), LARGEST_SAMPLE), device=values.device).long()
        log_densities, nearest = _from_others(values, rows, permutations, width=width / REACH)
        threshold = float(log_densities.quantile(1.0 - TYPICAL).exp())
        tiny = torch.finfo(values.dtype).tiny
        return cls(
            values=values,
            permutations=permutations,
            width=width,
            threshold=min(max(threshold, tiny), LARGEST_THRESHOLD),
            spacing=float(nearest.quantile(TYPICAL)),
        )

    def density(self, R: Positions) -> Float[Tensor, " n"]:
        """p_k of configurations, not normalised: one label alone has a density of one at its place."""
        values = descriptors(R, self.values.device)
        return configuration_density(values, self.values, self.permutations, width=self.width).to(R.device)

    def contains(self, R: Positions) -> Bool[Tensor, " n"]:
        """Whether p_k is epsilon at least."""
        return self.density(R) >= self.threshold

    def distances(self, R: Positions) -> Float[Tensor, " n"]:
        """Symmetrised distances from the nearest label, in 1 / Angstrom."""
        values = descriptors(R, self.values.device)
        parts = values.split(max(1, BLOCK // len(self.values)))
        squared = [symmetrised_squared_distances(part, self.values, self.permutations).amin(1) for part in parts]
        return torch.cat(squared).sqrt().to(R.device)

    def coverage(self, R: Positions) -> float:
        """The share of configurations that are as near to a label as nine labels in ten are to another label.

        It is about 0.9 where configurations are distributed as the labels are and as dense, and falls where they go
        elsewhere.
        """
        return float((self.distances(R) <= self.spacing).double().mean())


def _differ(values: Descriptors, permutations: Permutations) -> bool:
    """Whether any configuration is not an image of the first, up to rounding."""
    squared = symmetrised_squared_distances(values, values[:1], permutations)
    return bool((squared > ROUNDING**2 * values.square().sum(1).max()).any())


def _from_others(
    values: Descriptors, rows: Int[Tensor, " k"], permutations: Permutations, *, width: float
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """Of known configurations, the logarithm of the density that all others give, and the distance of the nearest."""
    parts = rows.split(max(1, BLOCK // len(values)))
    each = [_block_from_others(values, part, permutations, width=width) for part in parts]
    densities, nearest = (torch.cat(column) for column in zip(*each, strict=True))
    return densities, nearest


def _block_from_others(
    values: Descriptors, rows: Int[Tensor, " k"], permutations: Permutations, *, width: float
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    log_sums = values.new_full((len(rows),), -torch.inf)
    nearest = values.new_full((len(rows),), torch.inf)
    own = torch.arange(len(rows), device=values.device)
    for columns in descriptor_permutations(permutations):
        squared = squared_distances(values[rows], values[:, columns])
        squared[own, rows] = torch.inf  # nor do its own images count
        log_sums = torch.logaddexp(log_sums, (squared / (-2.0 * width**2)).logsumexp(1))
        nearest = torch.minimum(nearest, squared.amin(1))
    return log_sums, nearest.sqrt()
