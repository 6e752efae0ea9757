"""Fitting the ordinal gate: one smooth position on the ladder of bandwidths, by L-BFGS.

The gate maximises sum_i w_i U_i(p(x_i)) - |b|^2 / 2, where p = mu_g + sqrt(lambda_G) phi^T b is the position and U_i(p)
interpolates the utilities of the experts at point i. Linear interpolation has kinks and plateaus' worth of local
maxima, so the climb starts from a smoothed ladder, weights softmax(-(p - l)^2 / (2 T^2)), and lowers T to zero.
"""

import functools
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.kernels import WhitenedFeatures
from lobal.mixture.gate import OrdinalGate

# A value to minimise and its gradient, of the parameters (mu_g, b).
Objective: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]

TEMPERATURES = (1.0, 0.5, 0.0)
ITERATIONS = 30  # of L-BFGS, at every temperature


def fit_ordinal_gate(
    features: WhitenedFeatures,
    phi: Float[Tensor, "n m"],
    utility: Float[Tensor, "L n"],
    weight: Float[Tensor, " n"],
    *,
    scale: float,
    start: OrdinalGate | None = None,
) -> OrdinalGate:
    """The gate of greatest posterior density: points x_i with features phi ask for the expert of greatest utility.

    `start` is a gate fitted to similar utilities on the same ladder; otherwise the climb begins at the single expert
    that serves all points best. It happens on the CPU wherever the data are: hundreds of small steps, each of which
    takes a GPU longer to launch than to do, and the same digits on every device.
    """
    device = phi.device
    phi, weight, table = phi.cpu(), weight.cpu(), utility.mT.cpu().contiguous()
    L = table.shape[1]
    spread = phi.new_tensor(scale).sqrt()
    parameters = phi.new_zeros(1 + phi.shape[1])
    if start is None:
        parameters[0] = (weight @ table).argmax()
    else:
        parameters[0], parameters[1:] = start.mean, start.whitened_mean

    def objective(parameters: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        b = parameters[1:]
        value, slope = interpolated(table, parameters[0] + spread * (phi @ b), temperature)
        push = weight * slope
        gradient = torch.cat([-push.sum()[None], b - spread * (push @ phi)])
        return 0.5 * b.square().sum() - weight @ value, gradient

    temperatures = TEMPERATURES if start is None else TEMPERATURES[1:]
    for temperature in temperatures if L > 1 else ():
        parameters = _climb(parameters, functools.partial(objective, temperature=temperature), len(phi))
    parameters = parameters.to(device)
    return OrdinalGate(
        features=features,
        scale=spread.square().to(device),
        mean=parameters[0],
        whitened_mean=parameters[1:],
        n_experts=L,
    )


def interpolated(
    table: Float[Tensor, "n L"], position: Float[Tensor, " n"], temperature: float
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Each row's utilities interpolated at its position on the ladder, and the derivative in the position."""
    L = table.shape[1]
    steps = torch.arange(L, dtype=table.dtype, device=table.device)
    if temperature > 0:
        weights = torch.softmax(-(position[:, None] - steps).square() / (2.0 * temperature**2), dim=1)
        centred = steps - (weights @ steps)[:, None]
        slope = torch.einsum("nl,nl,nl->n", weights, centred, table) / temperature**2
        return torch.einsum("nl,nl->n", weights, table), slope
    inside = position.clamp(0, L - 1)
    lower = inside.floor().clamp_max(L - 2)
    pair = lower.long()[:, None] + torch.arange(2, device=table.device)
    low, high = table.gather(1, pair).unbind(1)
    slope = torch.where(inside == position, high - low, 0.0)
    return torch.lerp(low, high, inside - lower), slope


def _climb(start: Tensor, objective: Objective, n: int) -> Tensor:
    parameters = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [parameters],
        max_iter=ITERATIONS,
        history_size=10,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )

    @torch.no_grad()
    def closure() -> float:
        value, gradient = objective(parameters)
        parameters.grad = gradient / n  # per point, so that tolerances mean the same for any number of them
        return float(value) / n

    optimiser.step(closure)
    return parameters.detach()
