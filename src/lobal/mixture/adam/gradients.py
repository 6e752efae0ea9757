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


class Parameters(NamedTuple):
    """What a step moves of the experts: of one training, or of several along axes before all others."""

    whitened_mean: Float[Tensor, "*C L m"]
    mean: Float[Tensor, "*C"]
    log_scale: Float[Tensor, "*C"]
    log_noise: Float[Tensor, "*C"]  # without effect where the noise is given


class Gradients(NamedTuple):
    """The objective and its derivatives."""

    objective: Float[Tensor, "*C"]
    channels: Float[Tensor, "*C b L"]
    parameters: Parameters


class Batch(NamedTuple):
    """What the objective needs to know about some of the points."""

    phi: Float[Tensor, "L b m"]  # in whatever precision: all else is in that of the labels
    explained: Float[Tensor, "L b"]  # q
    y: Float[Tensor, " b"]
    weight: Float[Tensor, " b"]
    noise: Float[Tensor, " b"] | None = None  # where it is given


class Trainable(NamedTuple):
    """What a training step reads of all points, and the tensors that it moves, those of `Parameters`."""

    phi: Float[Tensor, "n L m"]  # in single precision, those of a point side by side
    explained: Float[Tensor, "n L"]  # q
    y: Float[Tensor, " n"]
    weight: Float[Tensor, " n"]
    given_noise: Float[Tensor, " n"] | None
    whitened_mean: Float[Tensor, "*C L m"]
    mean: Float[Tensor, "*C"]
    log_scale: Float[Tensor, "*C"]
    log_noise: Float[Tensor, "*C"]  # moved unless the noise is given


def bandwidth_prices(L: int, penalty: float, like: Tensor) -> Float[Tensor, " L"]:
    """What a point pays for an expert: theta times 2 (L - l) / (L - 1), Eq. (eq:smallBWpenalty)."""
    steps_down = torch.arange(L - 1, -1, -1, dtype=like.dtype, device=like.device)
    return 2.0 * penalty / max(L - 1, 1) * steps_down


def expert_products(rows: Float[Tensor, "*C L j"], matrices: Float[Tensor, "L j k"]) -> Float[Tensor, "*C L k"]:
    """The row of every expert times its matrix, which is read once for all trainings."""
    stacked = rows.reshape(-1, *rows.shape[-2:]).transpose(0, 1)
    return torch.bmm(stacked, matrices).transpose(0, 1).reshape(*rows.shape[:-1], matrices.shape[-1])


def elbo_gradients(
    batch: Batch,
    gate: Float[Tensor, "*C b L"],
    parameters: Parameters,
    prices: Float[Tensor, "*C L"],
    n: int,
) -> Gradients:
    """The gate-weighted negative ELBO of a batch of n points, bandwidths priced, and its gradient."""
    whitened_mean, mean = parameters.whitened_mean, parameters.mean[..., None, None]
    scale = parameters.log_scale.exp()[..., None, None]
    noise = parameters.log_noise.exp()[..., None, None] if batch.noise is None else batch.noise
    omega = batch.weight / batch.weight.sum()
    root = scale.sqrt()
    latent = root * expert_products(whitened_mean.to(batch.phi), batch.phi.mT)
    residual = batch.y - mean - latent
    beyond = scale * (1.0 - batch.explained)
    variance = beyond + noise
    pull = residual / variance  # dP / d mean
    likelihood = residual * pull + variance.log()  # -2 P
    cost = 0.5 * likelihood + (0.5 / n * whitened_mean.square().sum(-1) + prices)[..., None]
    carried = gate.mT * omega
    weighted = carried * cost
    pushed = carried * pull
    widened = 0.5 * carried * (1.0 / variance - pull.square())  # d objective / d variance
    inducing = carried.sum(-1)[..., None] / n * whitened_mean - root * expert_products(pushed.to(batch.phi), batch.phi)
    return Gradients(
        objective=weighted.sum((-2, -1)),
        channels=weighted.mT - gate * weighted.sum(-2)[..., None],
        parameters=Parameters(
            whitened_mean=inducing,
            mean=-pushed.sum((-2, -1)),
            log_scale=(widened * beyond - 0.5 * pushed * latent).sum((-2, -1)),
            log_noise=(widened * noise).sum((-2, -1)) if batch.noise is None else torch.zeros_like(parameters.mean),
        ),
    )
