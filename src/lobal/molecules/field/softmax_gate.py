"""The paper's gate of a mixture of force fields: a softmax of sparse Gaussian processes, one for every expert.

The channels are g_l = mu_l + sqrt(lambda_G) phi^T b_l, with the features of the ordinal gate, and the weights of the
experts their softmax, Eq. (eq:gateSparse). Its derivative is dG_l = G_l (dg_l - sum_k G_k dg_k), so that

    sum_l E_l dG_l / dR = sum_l G_l (E_l - E) dg_l / dR.

Where fewer than all experts are kept, the energy has a step wherever one of them takes the place of another, and forces
are its derivative elsewhere.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import rows_at_once
from lobal.mixture.gate import top_kappa_softmax
from lobal.molecules.field.gate import ForceGate, GateFeatures
from lobal.molecules.field.labels import EnergiesForces
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.geometry.descriptor import Geometry, transposed_product


@final
@dataclass(frozen=True, kw_only=True)
class SoftmaxMolecularGate(ForceGate):
    """Expert probabilities of configurations."""

    features: GateFeatures
    scale: Scalar  # lambda_G
    means: Float[Tensor, " L"]  # mu_g
    whitened_mean: Float[Tensor, "L m"]  # b
    kappa: int

    def to(self, device: torch.device) -> "SoftmaxMolecularGate":
        moved = {name: getattr(self, name).to(device) for name in ("features", "scale", "means", "whitened_mean")}
        return replace(self, **moved)

    def at(self, geometry: Geometry) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one and at most kappa entries of a row differ from zero."""
        return top_kappa_softmax(self._channels(geometry)[0].mT, self.kappa)

    def mixed(
        self, predictor: Predictor, constants: Float[Tensor, " L"], geometry: Geometry
    ) -> tuple[EnergiesForces, Float[Tensor, "n L"]]:
        channels, slopes = self._channels(geometry)
        weights = top_kappa_softmax(channels.mT, self.kappa)
        E, F = predictor.at(geometry)
        E = E + constants[:, None]
        energies = (weights.mT * E).sum(0)
        pull = torch.einsum("ln,lnd->nd", weights.mT * (E - energies), slopes)
        forces = torch.einsum("nl,lnac->nac", weights, F) - transposed_product(geometry, pull)
        return EnergiesForces(energies[None], forces[None]), weights

    def _channels(self, geometry: Geometry) -> tuple[Float[Tensor, "L n"], Float[Tensor, "L n D"]]:
        """g_l and their derivatives by the descriptors."""
        # All channels have one kernel, whose values are computed once.
        one, step = self.channels.experts(slice(1)), rows_at_once(self.channels.offsets.numel(), self.means.device)
        blocks = geometry.values.split(step) if len(geometry.values) > 0 else [geometry.values]
        parts = [self.channels.contracted(each, one.radials(each)) for each in blocks]
        values, slopes = (torch.cat(columns, dim=1) for columns in zip(*parts, strict=True))
        return self.means[:, None] + values, slopes

    @cached_property
    def channels(self) -> Predictor:
        """sqrt(lambda_G) phi^T b_l."""
        return self.features.predictor(self.scale.sqrt() * self.whitened_mean)

    def weights_at(self, channels: Float[Tensor, "L n"]) -> tuple[Float[Tensor, "n L"], Float[Tensor, "n L L"]]:
        weights = top_kappa_softmax((self.means[:, None] + channels).mT, self.kappa)
        return weights, weights.diag_embed() - weights[:, :, None] * weights[:, None]
