"""Gates: the weight of each expert at an input.

The paper's gate is a softmax over L sparse Gaussian process channels, Eq. (eq:gateSparse). The ordinal gate has one
channel, a position on the ladder of bandwidths, and interpolates between the two nearest experts. It uses that
neighbouring bandwidths predict alike, which L independent channels have to learn from data.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs, Scalar
from lobal.core.kernels import WhitenedFeatures


def top_kappa_softmax(channels: Float[Tensor, "n L"], kappa: int) -> Float[Tensor, "n L"]:
    """Softmax over the kappa largest channels of each row; the others are exactly zero.

    Eq. (eq:gateSparse). Ties are broken by position, so that exactly kappa channels are kept.
    """
    if not 1 <= kappa <= channels.shape[1]:
        raise ValueError(f"kappa must lie between 1 and L = {channels.shape[1]}, got {kappa}")
    kept = channels.topk(kappa, dim=1).indices
    cut = torch.full_like(channels, -math.inf).scatter(1, kept, 0.0)
    return torch.softmax(channels + cut, dim=1)


def interpolation_weights(position: Float[Tensor, " n"], L: int) -> Float[Tensor, "n L"]:
    """Weights of the experts l = 0 ... L - 1 that interpolate linearly at each position, clamped to the ladder."""
    steps = torch.arange(L, dtype=position.dtype, device=position.device)
    return (1.0 - (position.clamp(0, L - 1)[:, None] - steps).abs()).clamp_min(0.0)


def gated_mean(gate: Float[Tensor, "n L"], mean: Float[Tensor, "L n"]) -> Float[Tensor, " n"]:
    """f(x) = sum_l G(x)_l y_l(x), Eq. (eq:fMoE)."""
    return torch.einsum("nl,ln->n", gate, mean)


class Gate(ABC):
    """G(x), the probabilities of the L experts at x."""

    features: WhitenedFeatures

    @abstractmethod
    def __call__(self, X: Inputs) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one."""


@final
@dataclass(frozen=True, kw_only=True)
class SoftmaxGate(Gate):
    """The paper's gate: softmax over the kappa largest of L channels, one per expert."""

    features: WhitenedFeatures  # one bandwidth sigma_G, shared by all channels
    scale: Scalar  # lambda_G
    means: Float[Tensor, " L"]  # mu_g
    whitened_mean: Float[Tensor, "L m"]
    kappa: int

    @classmethod
    def uniform(cls, features: WhitenedFeatures, *, n_experts: int, scale: float) -> "SoftmaxGate":
        """A gate that weighs all experts equally, the start of training."""
        like = features.points
        return cls(
            features=features,
            scale=like.new_tensor(scale),
            means=like.new_zeros(n_experts),
            whitened_mean=like.new_zeros(n_experts, len(like)),
            kappa=n_experts,
        )

    def channels(self, phi: Float[Tensor, "n m"]) -> Float[Tensor, "n L"]:
        """g_l, the channels before the softmax, from given features."""
        return self.means + self.scale.sqrt() * (phi @ self.whitened_mean.mT)

    def __call__(self, X: Inputs) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one and at most kappa entries of a row differ from zero."""
        products = self.features.products(X, self.whitened_mean.mT[None])[0]
        return top_kappa_softmax(self.means + self.scale.sqrt() * products, self.kappa)


@final
@dataclass(frozen=True, kw_only=True)
class OrdinalGate(Gate):
    """One channel, the position on the ladder of L bandwidths; interpolates between the two nearest experts."""

    features: WhitenedFeatures  # one bandwidth sigma_G
    scale: Scalar  # lambda_G, in squared steps of the ladder
    mean: Scalar  # mu_g
    whitened_mean: Float[Tensor, " m"]
    n_experts: int  # L

    def __call__(self, X: Inputs) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one and at most two neighbouring entries of a row differ from zero."""
        products = self.features.products(X, self.whitened_mean[None, :, None])[0, :, 0]
        return interpolation_weights(self.mean + self.scale.sqrt() * products, self.n_experts)

    def at_features(self, phi: Float[Tensor, "n m"]) -> Float[Tensor, "n L"]:
        """The same from given features."""
        return interpolation_weights(self.mean + self.scale.sqrt() * (phi @ self.whitened_mean), self.n_experts)
