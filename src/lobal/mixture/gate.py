"""The gate: L sparse Gaussian process channels and a noisy top-kappa softmax, Eq. (eq:gateSparse)."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.arrays import Inputs, Scalar
from lobal.kernels import WhitenedFeatures


def top_kappa_softmax(channels: Float[Tensor, "n L"], kappa: int) -> Float[Tensor, "n L"]:
    """Softmax over the kappa largest channels of each row; the others get exactly zero.

    Eq. (eq:gateSparse). Ties are broken by position, so that exactly kappa channels are kept.
    """
    if not 1 <= kappa <= channels.shape[1]:
        raise ValueError(f"kappa must lie between 1 and L = {channels.shape[1]}, got {kappa}")
    kept = channels.topk(kappa, dim=1).indices
    cut = torch.full_like(channels, -math.inf).scatter(1, kept, 0.0)
    return torch.softmax(channels + cut, dim=1)


@final
@dataclass(frozen=True, kw_only=True)
class Gate:
    """G(x), the probabilities of the L experts at x."""

    features: WhitenedFeatures  # one bandwidth sigma_G, shared by all channels
    scale: Scalar  # lambda_G
    means: Float[Tensor, " L"]  # mu_g
    whitened_mean: Float[Tensor, "L m"]
    kappa: int

    @classmethod
    def uniform(cls, features: WhitenedFeatures, *, n_experts: int, scale: float) -> "Gate":
        """A gate that weighs all experts alike: where training starts."""
        like = features.points
        return cls(
            features=features,
            scale=like.new_tensor(scale),
            means=like.new_zeros(n_experts),
            whitened_mean=like.new_zeros(n_experts, len(like)),
            kappa=n_experts,
        )

    def channels(self, phi: Float[Tensor, "n m"]) -> Float[Tensor, "n L"]:
        """g_l, the channels before the softmax, from features computed before."""
        return self.means + self.scale.sqrt() * (phi @ self.whitened_mean.mT)

    def __call__(self, X: Inputs) -> Float[Tensor, "n L"]:
        """Expert probabilities; rows sum to one and at most kappa entries of a row differ from zero."""
        products = self.features.products(X, self.whitened_mean.mT[None])[0]
        return top_kappa_softmax(self.means + self.scale.sqrt() * products, self.kappa)
