"""The gradient of the training objective in closed form, for the paper's choice: sparse experts with S = 0.

With omega = w / w_B the objective of Sec. 4.4.1 is sum_b omega_b sum_l G_bl c_bl, where c_bl = -P_bl + KL_l / n plus
the price of bandwidth l. So its derivative in the channels is omega G (c - <G, c>), and what remains are products of
the features with rows. Autograd gives the same numbers with three times as many operations, each of which is too small
to keep a GPU busy.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.arrays import Scalar
from lobal.experts.expert import Hyperparameters


class Gradients(NamedTuple):
    """The objective and its derivatives."""

    objective: Scalar
    channels: Float[Tensor, "b L"]
    whitened_mean: Float[Tensor, "L m"]
    mean: Scalar
    log_scale: Scalar
    log_noise: Scalar  # meaningless where the noise is given


class Batch(NamedTuple):
    """What the objective needs to know about some of the points."""

    phi: Float[Tensor, "L b m"]  # in whatever precision: all else is in that of the labels
    explained: Float[Tensor, "L b"]  # q
    y: Float[Tensor, " b"]
    weight: Float[Tensor, " b"]


class Trainable(NamedTuple):
    """What a training step reads of all points, and the tensors that it moves."""

    phi: Float[Tensor, "n L m"]  # in single precision, those of a point side by side
    explained: Float[Tensor, "n L"]  # q
    y: Float[Tensor, " n"]
    weight: Float[Tensor, " n"]
    given_noise: Float[Tensor, " n"] | None
    whitened_mean: Float[Tensor, "L m"]
    mean: Scalar
    log_scale: Scalar
    log_noise: Scalar  # moved unless the noise is given


def bandwidth_prices(L: int, penalty: float, like: Tensor) -> Float[Tensor, " L"]:
    """What a point pays for an expert: theta times 2 (L - l) / (L - 1), Eq. (eq:smallBWpenalty)."""
    steps_down = torch.arange(L - 1, -1, -1, dtype=like.dtype, device=like.device)
    return 2.0 * penalty / max(L - 1, 1) * steps_down


def elbo_gradients(
    batch: Batch,
    gate: Float[Tensor, "b L"],
    whitened_mean: Float[Tensor, "L m"],
    shared: Hyperparameters,
    prices: Float[Tensor, " L"],
    n: int,
) -> Gradients:
    """The gate-weighted negative ELBO of a batch of n points, bandwidths priced, and its gradient."""
    omega = batch.weight / batch.weight.sum()
    root = shared.scale.sqrt()
    latent = root * torch.bmm(whitened_mean.to(batch.phi)[:, None], batch.phi.mT)[:, 0]
    residual = batch.y - shared.mean - latent
    beyond = shared.scale * (1.0 - batch.explained)
    variance = beyond + shared.noise
    pull = residual / variance  # dP / d mean
    likelihood = residual * pull + variance.log()  # -2 P
    cost = 0.5 * likelihood + (0.5 / n * whitened_mean.square().sum(1) + prices)[:, None]
    carried = gate.mT * omega
    weighted = carried * cost
    channels = weighted.mT - gate * weighted.sum(0)[:, None]
    pushed = carried * pull
    widened = 0.5 * carried * (1.0 / variance - pull.square())  # d objective / d variance
    inducing = (
        -root * torch.bmm(pushed.to(batch.phi)[:, None], batch.phi)[:, 0] + carried.sum(1)[:, None] / n * whitened_mean
    )
    return Gradients(
        objective=weighted.sum(),
        channels=channels,
        whitened_mean=inducing,
        mean=-pushed.sum(),
        log_scale=(widened * beyond - 0.5 * pushed * latent).sum(),
        log_noise=(widened * shared.noise).sum(),
    )
