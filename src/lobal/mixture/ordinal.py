"""Fitting the ordinal gate: one smooth position on the ladder of bandwidths, by L-BFGS.

The gate maximises sum_i w_i U_i(p(x_i)) - |b|^2 / 2, where p = mu_g + sqrt(lambda_G) phi^T b is the position and U_i(p)
interpolates the utilities of the experts at point i. Linear interpolation, which the gate answers with, has kinks at
which the climb would stop by chance. So it follows a smoothed ladder, weights softmax(-(p - l)^2 / (2 T^2)), from a
large T, which has few maxima, to one that is close to linear interpolation, and there to the end.
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

# On the Doppler function 0.25 and 0.35 were best; 0.5 and more blur the ladder, less runs into the kinks.
TEMPERATURES = (1.0, 0.35)
ITERATIONS = 120  # of L-BFGS, at every temperature
TOLERANCE = 1e-11  # of the objective per point: rounding then moves predictions by less than a thousandth


def fit_ordinal_gate(
    features: WhitenedFeatures,
    phi: Float[Tensor, "n m"],
    utility: Float[Tensor, "L n"],
    weight: Float[Tensor, " n"],
    *,
    scale: float,
    start: OrdinalGate | None = None,
    iterations: int = ITERATIONS,
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
        position = parameters[0] + spread * (phi @ b)
        value, slope = interpolated(table, position, temperature)
        # Far off the ladder all positions are alike and no slope leads back: one nat a squared step holds on to it.
        off = position - position.clamp(0, L - 1)
        value, slope = value - 0.5 * off.square(), slope - off
        push = weight * slope
        gradient = torch.cat([-push.sum()[None], b - spread * (push @ phi)])
        return 0.5 * b.square().sum() - weight @ value, gradient

    temperatures = TEMPERATURES if start is None else TEMPERATURES[1:]
    for temperature in temperatures if L > 1 else ():
        parameters = _climb(parameters, functools.partial(objective, temperature=temperature), len(phi), iterations)
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
    weights = torch.softmax(-(position[:, None] - steps).square() / (2.0 * temperature**2), dim=1)
    centred = steps - (weights @ steps)[:, None]
    slope = torch.einsum("nl,nl,nl->n", weights, centred, table) / temperature**2
    return torch.einsum("nl,nl->n", weights, table), slope


def _climb(start: Tensor, objective: Objective, n: int, iterations: int) -> Tensor:
    parameters = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [parameters],
        max_iter=iterations,
        history_size=10,
        tolerance_grad=TOLERANCE,
        tolerance_change=TOLERANCE,
        line_search_fn="strong_wolfe",
    )

    @torch.no_grad()
    def closure() -> float:
        value, gradient = objective(parameters)
        parameters.grad = gradient / n  # per point, so that tolerances mean the same for any number of them
        return float(value) / n

    optimiser.step(closure)
    return parameters.detach()
