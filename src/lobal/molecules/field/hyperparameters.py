"""Mean, lambda and noise of force fields, from the variance of the labels."""

import torch

from lobal.core.arrays import Scalar
from lobal.experts.interface import Hyperparameters
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.geometry.descriptor import Geometry


def label_hyperparameters(
    data: LabelledMolecules, kernel: MolecularKernel, labels: Labels, *, bandwidth: Scalar, noise: float
) -> Hyperparameters:
    """lambda such that prior and labels have the same variance at this bandwidth, and the noise a share of that.

    The variance is that of forces where these are learned from, else that of energies.

    Raises:
        ValueError: forces are zero, or energies the same, everywhere.
    """
    mean = data.geometry.values.new_zeros(()) if data.energies is None else data.energies.mean()
    if labels.forces:
        variance = data.residual(Labels.FORCES, mean).square().mean()
        prior = prior_force_variance(kernel, data.geometry, bandwidth)
    else:
        variance, prior = data.residual(Labels.ENERGIES, mean).square().mean(), torch.ones_like(mean)
    if variance == 0.0:
        what = (
            "forces of all configurations are zero" if labels.forces else "energies of all configurations are the same"
        )
        raise ValueError(f"the {what}: there is nothing to learn from them")
    return Hyperparameters(mean, variance / prior, noise * variance)


def prior_force_variance(kernel: MolecularKernel, geometry: Geometry, bandwidth: Scalar) -> Scalar:
    """The variance of a force component under lambda = 1, on average, of configurations far from their permutations.

    -2 g'(0) / sigma^2 times the mean diagonal of J^T A J; each pair moves with two atoms.
    """
    slope = -2.0 * kernel.radial(torch.zeros_like(bandwidth)).first / bandwidth.square()
    squares = (geometry.gradients / kernel.shared_bandwidth[:, None]).square().sum((1, 2)).mean()
    return slope * 2.0 * squares / (3 * geometry.number_of_atoms)
