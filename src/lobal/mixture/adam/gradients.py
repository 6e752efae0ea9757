"""The gradient of the training objective in closed form, for the paper's choice: sparse experts with S = 0.

With omega = w / w_B the objective of Sec. 4.4.1 is sum_b omega_b sum_l G_bl c_bl, where c_bl = -P_bl + KL_l / n plus
the penalty of bandwidth l. Its derivative in the channels is omega G (c - <G, c>), and the remaining derivatives are
products of the features with rows. Autograd returns the same numbers with three times as many operations.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet


class Parameters(NamedTuple):
    """The trainable parameters of the experts, or the derivatives in them."""

    whitened_mean: Float[Tensor, "L m"]
    mean: Scalar
    log_scale: Scalar
    log_noise: Scalar  # without effect where the noise is given


def _row_products(rows: Float[Tensor, "L j"], matrices: Float[Tensor, "L j k"]) -> Float[Tensor, "L k"]:
    """Each expert's row times its matrix: multiplied in the precision of the matrices, returned in that of the rows."""
    return torch.bmm(rows[:, None].to(matrices), matrices)[:, 0].to(rows)


def elbo_gradients(
    batch: LabelledSet,
    phi: Float[Tensor, "L b m"],
    explained: Float[Tensor, "L b"],
    gate: Float[Tensor, "b L"],
    parameters: Parameters,
    prices: Float[Tensor, " L"],
    n: int,
) -> tuple[Scalar, Float[Tensor, "b L"], Parameters]:
    """The gate-weighted negative ELBO of a batch from n points, with penalised bandwidths, and its gradient.

    That in the gate's channels, then that in the parameters. The features may be in lower precision than the labels.
    """
    whitened_mean, mean, log_scale, log_noise = parameters
    scale = log_scale.exp()
    noise = log_noise.exp() if batch.noise is None else batch.noise
    omega = batch.weight / batch.weight.sum()
    root = scale.sqrt()
    latent = root * _row_products(whitened_mean, phi.mT)
    residual = batch.y - mean - latent
    beyond = scale * (1.0 - explained)
    variance = beyond + noise
    pull = residual / variance  # dP / d mean
    likelihood = residual * pull + variance.log()  # -2 P
    cost = 0.5 * likelihood + (0.5 / n * whitened_mean.square().sum(-1) + prices)[:, None]
    carried = gate.mT * omega
    weighted = carried * cost
    pushed = carried * pull
    widened = 0.5 * carried * (1.0 / variance - pull.square())  # d objective / d variance
    slopes = Parameters(
        whitened_mean=carried.sum(-1)[:, None] / n * whitened_mean - root * _row_products(pushed, phi),
        mean=-pushed.sum(),
        log_scale=(widened * beyond - 0.5 * pushed * latent).sum(),
        log_noise=(widened * noise).sum() if batch.noise is None else torch.zeros_like(mean),
    )
    return weighted.sum(), weighted.mT - gate * weighted.sum(0)[:, None], slopes
