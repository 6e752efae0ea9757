"""The training objective of Sec. 4.4.1: gate-weighted ELBO or mean squared error, and the bandwidth penalty."""

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar


def expert_shares(gate: Float[Tensor, "b L"], weight: Float[Tensor, " b"]) -> Float[Tensor, " L"]:
    """nu_l / w_B, the share of the batch that each expert carries; the shares sum to one."""
    return weight @ gate / weight.sum()


def small_bandwidth_penalty(shares: Float[Tensor, " L"]) -> Scalar:
    """2 / (L - 1) sum_l nu_l (L - l) / sum_l nu_l, Eq. (eq:smallBWpenalty).

    One at equal loads, zero if the largest bandwidth carries everything, two if the smallest does.
    """
    L = len(shares)
    steps_down = torch.arange(L - 1, -1, -1, dtype=shares.dtype, device=shares.device)
    return 2.0 / max(L - 1, 1) * (shares @ steps_down) / shares.sum()


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


def gated_mean(gate: Float[Tensor, "n L"], mean: Float[Tensor, "L n"]) -> Float[Tensor, " n"]:
    """f(x) = sum_l G(x)_l y_l(x), Eq. (eq:fMoE)."""
    return torch.einsum("nl,ln->n", gate, mean)
