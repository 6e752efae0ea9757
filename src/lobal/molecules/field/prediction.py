"""Energies and forces at new configurations, without a kernel matrix.

The covariances of a new energy with the labels of configuration j, times these labels' weights w_j = (w_E, w_F), need
the Jacobian of j only in J_j w_F, which is computed once. With x = Phi, the permuted training configurations
y_m = pi Phi_j and beta_m = (2 / sigma^2) pi J_j w_F the posterior mean is, in the notation of `kernel`,

    E = sum_m  w_m g(s_m) + g'(s_m) a_m,    a_m = (x - y_m)^T A beta_m,    s_m = (x - y_m)^T A (x - y_m) / sigma^2,

summed over the distinct A (`kernel.Scales`), and the forces are minus its derivative, by the chain rule. That costs
O(n |G| D) a configuration and A. The matrices A go to the new configurations, so that all share y and beta.
"""

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.kernels import rows_at_once
from lobal.molecules.field.kernel import MolecularKernel, Scales
from lobal.molecules.field.labels import EnergiesForces, Labels, split_labels
from lobal.molecules.field.radial import Radial, RadialKernel
from lobal.molecules.geometry.descriptor import Geometry, jacobian_product, transposed_product
from lobal.molecules.geometry.permutations import descriptor_permutations


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
    permutations: Int[Tensor, "g D"]  # of the descriptors
    anchors: Float[Tensor, "m D"]  # y
    squares: Float[Tensor, "B m"]  # y^T A y
    slopes: Float[Tensor, "L m D"]  # beta
    offsets: Float[Tensor, "L B m"]  # y^T A beta
    energies: Float[Tensor, "L m"] | None  # w_E, where energies are labels

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
        """Contract the weights of all training labels (in the order of `covariance_along`) with the Jacobians."""
        w_E, w_F = split_labels(weights, labels, training.number_of_atoms)
        unweighted = cls.unweighted(kernel, training.values, bandwidths=bandwidths)
        return unweighted.weighted(w_E if labels.energies else None, jacobian_product(training, w_F))

    @classmethod
    def unweighted(
        cls, kernel: MolecularKernel, values: Float[Tensor, "n D"], *, bandwidths: Bandwidths
    ) -> "Predictor":
        """A predictor with slopes of zero: everything that does not depend on the weights."""
        columns = descriptor_permutations(kernel.permutations)
        scales, centre = kernel.scales(), values.mean(0)
        anchors = (values[:, columns] - centre).flatten(0, 1)
        return cls(
            radial=kernel.radial,
            bandwidths=bandwidths,
            scales=scales,
            centre=centre,
            permutations=columns,
            anchors=anchors,
            squares=scales.bandwidths.square().reciprocal() @ anchors.square().mT,
            slopes=anchors.new_zeros(len(bandwidths), *anchors.shape),
            offsets=anchors.new_zeros(len(bandwidths), len(scales.weights), len(anchors)),
            energies=None,
        )

    def weighted(self, w_E: Float[Tensor, "L n"] | None, pulled: Float[Tensor, "L n D"]) -> "Predictor":
        """The predictor with weights of energies, if these are labels, and J w_F."""
        slopes = (
            2.0 * self.bandwidths.square().reciprocal()[:, None, None] * pulled[..., self.permutations].flatten(1, 2)
        )
        return replace(
            self,
            slopes=slopes,
            offsets=self.scales.bandwidths.square().reciprocal() @ (self.anchors * slopes).mT,
            energies=None if w_E is None else w_E.repeat_interleave(len(self.permutations), dim=1),
        )

    def experts(self, some: slice) -> "Predictor":
        """A predictor of some of the L experts."""
        return replace(
            self,
            bandwidths=self.bandwidths[some],
            slopes=self.slopes[some],
            offsets=self.offsets[some],
            energies=None if self.energies is None else self.energies[some],
        )

    def at(self, geometry: Geometry) -> EnergiesForces:
        """Energies and forces of configurations already described."""
        step = rows_at_once(self.offsets.numel(), geometry.values.device)
        values = geometry.values.split(step) if len(geometry.values) > 0 else [geometry.values]
        parts = [self.contracted(each, self.radials(each)) for each in values]
        energies, slope = (torch.cat(columns, dim=1) for columns in zip(*parts, strict=True))
        return EnergiesForces(energies, -transposed_product(geometry, slope))

    def radials(self, values: Float[Tensor, "n D"]) -> Radial:
        """g, g' and g'' between configurations and anchors, (L, B, n, m) each."""
        A, x = self._precisions(), values - self.centre
        squared = ((A * x.square()).sum(-1, keepdim=True) + self.squares[:, None]).flatten(0, 1)
        squared = torch.addmm(squared, (A * x).flatten(0, 1), self.anchors.mT, alpha=-2.0).clamp_min_(0.0)
        precision = self.bandwidths.square().reciprocal()[:, None, None, None]
        return self.radial(squared.unflatten(0, (len(A), len(x))) * precision)

    def contracted(
        self, values: Float[Tensor, "n D"], g: Radial
    ) -> tuple[Float[Tensor, "L n"], Float[Tensor, "L n D"]]:
        """Energies and their derivatives by the descriptors; a row of the products is a new configuration and an A."""
        A, x = self._precisions(), values - self.centre
        split = (len(A), len(x))
        a = ((A * x).flatten(0, 1) @ self.slopes.mT).unflatten(1, split) - self.offsets[:, :, None]  # (L, B, n, m)
        each, along = torch.linalg.vecdot(g.first, a), g.second * a
        if self.energies is not None:
            w = self.energies[:, None, None]
            each, along = each + torch.linalg.vecdot(g.value, w), along + g.first * w
        along *= 2.0 * self.bandwidths.square().reciprocal()[:, None, None, None]
        towards = along.flatten(1, 2) @ self.anchors - g.first.flatten(1, 2) @ self.slopes
        slope = A * (along.sum(-1, keepdim=True) * x - towards.unflatten(1, split))
        weights = self.scales.weights
        return torch.einsum("lbn,b->ln", each, weights), torch.einsum("lbnd,b->lnd", slope, weights)

    def _precisions(self) -> Float[Tensor, "B 1 D"]:
        return self.scales.bandwidths.square().reciprocal()[:, None]
