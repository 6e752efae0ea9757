"""The training objective of Sec. 4.4.1: gate-weighted ELBO or mean squared error, less the bandwidth penalty."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.mixture.adam.responses import Response
from lobal.mixture.gate import gated_mean

Objective: TypeAlias = Callable[[Float[Tensor, "b L"], Response, LabelledSet, Float[Tensor, " L"], int], Scalar]


def elbo(
    gate: Float[Tensor, "b L"], response: Response, batch: LabelledSet, divergence: Float[Tensor, " L"], n: int
) -> Scalar:
    """-sum_l [ w_B^-1 sum_b v_l(x_b) P_bl - KL_l / n_l ] with v_l = G_l w and n_l = n w_B / nu_l, for noisy labels.

    An expert that carries no weight pays no divergence and receives no gradient.
    """
    fit = torch.einsum("b,bl,lb->", batch.weight, gate, response.log_likelihood) / batch.weight.sum()
    return expert_shares(gate, batch.weight) @ divergence / n - fit


def squared_error(
    gate: Float[Tensor, "b L"], response: Response, batch: LabelledSet, divergence: Float[Tensor, " L"], n: int
) -> Scalar:
    """The mixture's mean squared error, for (almost) noise-free labels; divergence and n are not used."""
    del divergence, n
    return mixture_squared_error(gate, response.mean, batch)


def expert_shares(gate: Float[Tensor, "b L"], weight: Float[Tensor, " b"]) -> Float[Tensor, " L"]:
    """nu_l / w_B, the share of the batch that each expert carries; the shares sum to one."""
    return weight @ gate / weight.sum()


def mixture_squared_error(gate: Float[Tensor, "b L"], mean: Float[Tensor, "L b"], points: LabelledSet) -> Scalar:
    """w_B^-1 sum_b w_b (y_b - f(x_b))^2, the objective for noise-free problems and the validation figure."""
    return points.weight @ (points.y - gated_mean(gate, mean)).square() / points.weight.sum()
