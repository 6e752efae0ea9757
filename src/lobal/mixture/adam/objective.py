"""The training objective of Sec. 4.4.1: gate-weighted ELBO or mean squared error, and the bandwidth penalty."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.mixture.adam.responses import Response
from lobal.mixture.gate import gated_mean
from lobal.mixture.ladder import steps_down

Objective: TypeAlias = Callable[[Float[Tensor, "b L"], Response, LabelledSet, Float[Tensor, " L"], int], Scalar]


def elbo(
    gate: Float[Tensor, "b L"], response: Response, batch: LabelledSet, divergence: Float[Tensor, " L"], n: int
) -> Scalar:
    """The gate-weighted negative ELBO, for noisy labels."""
    return gated_negative_elbo(gate, response.log_likelihood, batch.weight, divergence, n)


def squared_error(
    gate: Float[Tensor, "b L"], response: Response, batch: LabelledSet, divergence: Float[Tensor, " L"], n: int
) -> Scalar:
    """The mixture's mean squared error, for (almost) noise-free labels; divergence and n are not used."""
    del divergence, n
    return mixture_squared_error(gate, response.mean, batch.y, batch.weight)


def expert_shares(gate: Float[Tensor, "b L"], weight: Float[Tensor, " b"]) -> Float[Tensor, " L"]:
    """nu_l / w_B, the share of the batch that each expert carries; the shares sum to one."""
    return weight @ gate / weight.sum()


def small_bandwidth_penalty(shares: Float[Tensor, " L"]) -> Scalar:
    """2 / (L - 1) sum_l nu_l (L - l) / sum_l nu_l, Eq. (eq:smallBWpenalty).

    One at equal loads, zero if the largest bandwidth carries everything, two if the smallest does.
    """
    L = len(shares)
    return 2.0 / max(L - 1, 1) * (shares @ steps_down(L, like=shares)) / shares.sum()


def gated_negative_elbo(
    gate: Float[Tensor, "b L"],
    log_likelihood: Float[Tensor, "L b"],
    weight: Float[Tensor, " b"],
    divergence: Float[Tensor, " L"],
    n: int,
) -> Scalar:
    """-sum_l [ w_B^-1 sum_b v_l(x_b) P_bl - KL_l / n_l ] with v_l = G_l w and n_l = n w_B / nu_l (Sec. 4.4.1).

    An expert that carries no weight pays no divergence and receives no gradient.
    """
    fit = torch.einsum("b,bl,lb->", weight, gate, log_likelihood) / weight.sum()
    return expert_shares(gate, weight) @ divergence / n - fit


def mixture_squared_error(
    gate: Float[Tensor, "b L"],
    mean: Float[Tensor, "L b"],
    y: Float[Tensor, " b"],
    weight: Float[Tensor, " b"],
) -> Scalar:
    """w_B^-1 sum_b w_b (y_b - f(x_b))^2, the objective for noise-free problems and the validation figure."""
    return weight @ (y - gated_mean(gate, mean)).square() / weight.sum()
