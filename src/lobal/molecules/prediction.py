"""Energies and forces at new configurations, without a kernel matrix.

The covariances of a new energy with the labels of configuration j, times these labels' weights w_j = (w_E, w_F), need
the Jacobian of j only in J_j w_F, which is computed once. With x = Phi, the permuted training configurations
y_m = pi Phi_j and beta_m = (2 / sigma^2) pi J_j w_F the posterior mean is, in the notation of `kernel`,

    E = sum_m  w_m g(s_m) + g'(s_m) a_m,    a_m = (x - y_m)^T A beta_m,    s_m = (x - y_m)^T A (x - y_m) / sigma^2,

summed over the distinct A (`kernel.Scales`), and the forces are minus its derivative, by the chain rule. That costs
O(n |G| D) a configuration and A. The matrices A go to the new configurations, so that all share y and beta.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.arrays import Bandwidths
from lobal.kernels import rows_at_once
from lobal.molecules.descriptor import Geometry, describe, jacobian_product, transposed_product
from lobal.molecules.kernel import MolecularKernel, Scales
from lobal.molecules.labels import EnergiesForces, Labels, split_labels
from lobal.molecules.permutations import descriptor_permutations
from lobal.molecules.radial import RadialKernel


@final
@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A weighted sum of covariances with training labels, as a function of the configuration.

    Index m runs over configurations and permutations, B over distinct bandwidths.
    """

    radial: RadialKernel
    bandwidths: Bandwidths  # sigma_l
    scales: Scales
    centre: Float[Tensor, " D"]  # taken off all descriptors, for the digits of their differences
    anchors: Float[Tensor, "m D"]  # y
    slopes: Float[Tensor, "L m D"]  # beta
    energies: Float[Tensor, "L m"]  # w_E
    squares: Float[Tensor, "B m"]  # y^T A y
    offsets: Float[Tensor, "L B m"]  # y^T A beta

    @classmethod
    def of(
        cls,
        kernel: MolecularKernel,
        training: Geometry,
        weights: Float[Tensor, "L labels"],
        *,
        bandwidths: Bandwidths,
        labels: Labels,
    ) -> "Predictor":
        """Contract the weights of all training labels (as `covariance` sorts them) with the Jacobians."""
        kernel.check(training)
        w_E, w_F = split_labels(weights, labels, training.number_of_atoms)
        columns = descriptor_permutations(kernel.permutations)
        scales, centre = kernel.scales(), training.values.mean(0)
        A = scales.bandwidths.square().reciprocal()
        anchors = (training.values[:, columns] - centre).flatten(0, 1)
        pulled = jacobian_product(training, w_F)[..., columns].flatten(1, 2)
        slopes = 2.0 * bandwidths.square().reciprocal()[:, None, None] * pulled
        return cls(
            radial=kernel.radial,
            bandwidths=bandwidths,
            scales=scales,
            centre=centre,
            anchors=anchors,
            slopes=slopes,
            energies=w_E.repeat_interleave(len(columns), dim=1),
            squares=A @ anchors.square().mT,
            offsets=A @ (anchors * slopes).mT,
        )

    def __call__(self, R: Float[Tensor, "..."]) -> EnergiesForces:
        """Energies and forces of configurations (n, N, 3)."""
        return self.at(describe(R))

    def at(self, geometry: Geometry) -> EnergiesForces:
        """Energies and forces of configurations already described."""
        step = rows_at_once(self.offsets.numel(), geometry.values.device)
        values = geometry.values.split(step) if len(geometry.values) > 0 else [geometry.values]
        energies, slope = (torch.cat(parts, dim=1) for parts in zip(*map(self._energies, values), strict=True))
        return EnergiesForces(energies, -transposed_product(geometry, slope))

    def _energies(self, values: Float[Tensor, "n D"]) -> tuple[Float[Tensor, "L n"], Float[Tensor, "L n D"]]:
        """Energies and their derivatives by the descriptors; a row of the products is a new configuration and an A."""
        A = self.scales.bandwidths.square().reciprocal()[:, None]  # (B, 1, D)
        x = values - self.centre
        A_x = (A * x).flatten(0, 1)
        split = (len(A), len(x))
        squared = ((A * x.square()).sum(-1, keepdim=True) + self.squares[:, None]).flatten(0, 1)
        squared = torch.addmm(squared, A_x, self.anchors.mT, alpha=-2.0).clamp_min_(0.0)
        a = (A_x @ self.slopes.mT).unflatten(1, split) - self.offsets[:, :, None]  # (L, B, n, m)
        precision = self.bandwidths.square().reciprocal()[:, None, None, None]
        g = self.radial(squared.unflatten(0, split) * precision)
        w = self.energies[:, None, None]
        each = (g.value * w + g.first * a).sum(-1)
        along = 2.0 * precision * (g.first * w + g.second * a)
        towards = along.flatten(1, 2) @ self.anchors - g.first.flatten(1, 2) @ self.slopes
        slope = A * (along.sum(-1, keepdim=True) * x - towards.unflatten(1, split))
        weights = self.scales.weights
        return torch.einsum("lbn,b->ln", each, weights), torch.einsum("lbnd,b->lnd", slope, weights)
