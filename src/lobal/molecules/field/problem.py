"""What experts learn from: labels, kernel and bandwidths, with mean, lambda and noise from the labels' variance."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths, Scalar
from lobal.experts.interface import Hyperparameters
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.geometry.descriptor import Geometry


@final
@dataclass(frozen=True, kw_only=True)
class Problem:
    """One kernel at L bandwidths, and the labels that are learned from."""

    data: LabelledMolecules
    labels: Labels
    kernel: MolecularKernel
    bandwidths: Bandwidths  # sigma_1 < ... < sigma_L, in units of the kernel's Sigma
    hyperparameters: Hyperparameters

    @classmethod
    def of(
        cls, data: LabelledMolecules, labels: Labels, kernel: MolecularKernel, bandwidths: Bandwidths, *, noise: float
    ) -> "Problem":
        """lambda is such that prior and labels have the same variance at the middle bandwidth, the noise a share of it.

        The variance is that of forces where these are learned from, else that of energies.

        Raises:
            ValueError: forces are zero, or energies the same, everywhere.
        """
        mean = data.geometry.values.new_zeros(()) if data.energies is None else data.energies.mean()
        if labels.forces:
            variance = data.residual(Labels.FORCES, mean).square().mean()
            prior = prior_force_variance(kernel, data.geometry, bandwidths[len(bandwidths) // 2])
        else:
            variance, prior = data.residual(Labels.ENERGIES, mean).square().mean(), torch.ones_like(mean)
        if variance == 0.0:
            what = "forces of all configurations are zero" if labels.forces else "energies of all are the same"
            raise ValueError(f"the {what}: there is nothing to learn from them")
        hyperparameters = Hyperparameters(mean, variance / prior, noise * variance)
        return cls(data=data, labels=labels, kernel=kernel, bandwidths=bandwidths, hyperparameters=hyperparameters)

    @cached_property
    def directions(self) -> ShapeDirections:
        """Those of all configurations."""
        return ShapeDirections.of(self.data.geometry, self.labels)

    @cached_property
    def residual(self) -> Float[Tensor, "n v"]:
        """y - mu, forces along the directions."""
        return self.directions.reduced(self.data.residual(self.labels, self.hyperparameters.mean))


def prior_force_variance(kernel: MolecularKernel, geometry: Geometry, bandwidth: Scalar) -> Scalar:
    """The variance of a force component under lambda = 1, on average, of configurations far from their permutations.

    -2 g'(0) / sigma^2 times the mean diagonal of J^T A J; each pair moves with two atoms.
    """
    slope = -2.0 * kernel.radial(torch.zeros_like(bandwidth)).first / bandwidth.square()
    squares = (geometry.gradients / kernel.shared_bandwidth[:, None]).square().sum((1, 2)).mean()
    return slope * 2.0 * squares / (3 * geometry.number_of_atoms)
