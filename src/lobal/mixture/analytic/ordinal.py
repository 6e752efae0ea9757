"""Fitting the ordinal gate: one smooth position on the ladder of bandwidths, by Newton's method.

The gate maximises sum_i w_i U_i(p(x_i)) - |b|^2 / 2, where p = mu_g + sqrt(lambda_G) phi^T b is the position and U_i(p)
interpolates the utilities of the experts at point i. Linear interpolation, which the gate answers with, has kinks at
which the climb would stop by chance. So it follows a smoothed ladder, weights softmax(-(p - l)^2 / (2 T^2)), from a
large T, which has few maxima, to one that is close to linear interpolation, and there to the end.
"""

from collections.abc import Iterator
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import WhitenedFeatures
from lobal.mixture.gate import OrdinalGate

# On the Doppler function 0.25 and 0.35 were best; 0.5 and more blur the ladder, less runs into the kinks.
TEMPERATURES = (1.0, 0.35)
# Nats per point that a step of Newton's still promises when the climb ends: roughly on the way, to rounding at the end.
ROUGHLY, TOLERANCE = 1e-5, 1e-12
ITERATIONS = 60
LONGEST_STEP = 1.0  # of a position on the ladder: beyond, no parabola describes the utilities
SUFFICIENT = 1e-4  # the share of the promised gain that a step has to bring
HALVINGS = 30
FOLDS = 4  # of the points, each left out once when gates are compared
COMPARED_TOLERANCE = 1e-4  # nats a point: enough to tell gates apart
LEFT_OUT = (0.05, 0.2, 0.5, 1.0)  # shares of the concave part of the loss, tried in turn


class Channel(NamedTuple):
    """The gate's one channel: position mu_g + sqrt(lambda_G) phi^T b on the ladder."""

    mean: Scalar  # mu_g
    whitened_mean: Float[Tensor, " m"]  # b


def fit_ordinal_gate(
    features: WhitenedFeatures,
    phi: Float[Tensor, "n m"],
    utility: Float[Tensor, "L n"],
    weight: Float[Tensor, " n"],
    *,
    scale: float,
    start: OrdinalGate | None = None,
    tolerance: float = TOLERANCE,
) -> OrdinalGate:
    """The gate of greatest posterior density: points x_i with features phi ask for the expert of greatest utility.

    `start` is a gate fitted to similar utilities on the same ladder; otherwise the climb begins at the single expert
    that serves all points best.
    """
    begun = None if start is None else Channel(start.mean, start.whitened_mean)
    channel = fit_channel(phi, utility, weight, scale=scale, start=begun, tolerance=tolerance)
    return OrdinalGate(features=features, scale=phi.new_tensor(scale), n_experts=len(utility), **channel._asdict())


def fit_channel(
    phi: Float[Tensor, "n m"],
    utility: Float[Tensor, "L n"],
    weight: Float[Tensor, " n"],
    *,
    scale: float,
    start: Channel | None = None,
    tolerance: float = TOLERANCE,
) -> Channel:
    """The same for features of any kind."""
    parameters = phi.new_zeros(1 + phi.shape[1])
    if start is None:
        parameters[0] = (utility @ weight).argmax()
    else:
        parameters[0], parameters[1:] = start
    climb = Climb(phi, utility, weight, phi.new_tensor(scale).sqrt())
    for temperature in (TEMPERATURES if start is None else TEMPERATURES[1:]) if len(utility) > 1 else ():
        is_last = temperature == TEMPERATURES[-1]
        parameters = climb.run(parameters, temperature, tolerance if is_last else max(tolerance, ROUGHLY))
    return Channel(parameters[0], parameters[1:])


def cross_fitted_channels(
    phi: Float[Tensor, "n m"], utility: Float[Tensor, "L n"], weight: Float[Tensor, " n"], *, scale: float
) -> Iterator[tuple[Bool[Tensor, " n"], Channel]]:
    """Channels fitted without one fold of the points each, and which points these are."""
    fold = torch.arange(len(phi), device=phi.device) % FOLDS
    for number in range(FOLDS):
        rest = fold != number
        channel = fit_channel(phi[rest], utility[:, rest], weight[rest], scale=scale, tolerance=COMPARED_TOLERANCE)
        yield ~rest, channel


class Interpolation(NamedTuple):
    """Utilities at a position on the ladder, and their first two derivatives in it."""

    value: Float[Tensor, " n"]
    slope: Float[Tensor, " n"]
    curvature: Float[Tensor, " n"]


def interpolated(table: Float[Tensor, "n L"], position: Float[Tensor, " n"], temperature: float) -> Interpolation:
    """Each row's utilities interpolated at its position on the ladder.

    With weights softmax(-(p - l)^2 / (2 T^2)) the derivatives are moments: the covariance of step and utility over
    T^2, and that of the squared deviation of the step and utility over T^4.
    """
    steps = torch.arange(table.shape[1], dtype=table.dtype, device=table.device)
    weights = torch.softmax(-(position[:, None] - steps).square() / (2.0 * temperature**2), dim=1)
    deviation = steps - (weights @ steps)[:, None]
    weighted = weights * table
    value = weighted.sum(dim=1)
    slope = (weighted * deviation).sum(dim=1)
    variance = (weights * deviation.square()).sum(dim=1)
    third = (weighted * deviation.square()).sum(dim=1) - value * variance
    return Interpolation(value, slope / temperature**2, third / temperature**4)


class Place(NamedTuple):
    """Where the climb is: what it minimises there, and at every point the slope and curvature of the utility."""

    parameters: Float[Tensor, " k"]
    loss: Scalar
    slope: Float[Tensor, " n"]
    curvature: Float[Tensor, " n"]


@final
class Climb:
    """The gate's objective and Newton's way to its optimum, parameters (mu_g, b)."""

    def __init__(
        self, phi: Float[Tensor, "n m"], utility: Float[Tensor, "L n"], weight: Float[Tensor, " n"], spread: Scalar
    ) -> None:
        self._design = torch.cat([torch.ones_like(phi[:, :1]), spread * phi], dim=1)
        self._table, self._weight = utility.mT.contiguous(), weight
        self._prior = torch.ones_like(self._design[0])
        self._prior[0] = 0.0

    def run(self, start: Float[Tensor, " k"], temperature: float, tolerance: float) -> Float[Tensor, " k"]:
        """The parameters from which no step promises more than `tolerance` nats a point."""
        place = self.at(start, temperature)
        for _ in range(ITERATIONS):
            gradient = self.gradient(place)
            step = self._newton_step(place, gradient)
            promise = -(gradient @ step).item()
            if not promise > 2.0 * tolerance * len(self._table):
                break
            further = self._along(place, step, promise, temperature)
            if further is None:
                break
            place = further
        return place.parameters

    def at(self, parameters: Float[Tensor, " k"], temperature: float) -> Place:
        """The negative utility of all points and the prior's charge, with their derivatives in the positions."""
        position = self._design @ parameters
        value, slope, curvature = interpolated(self._table, position, temperature)
        # Far off the ladder all positions are alike and no slope leads back: one nat a squared step holds on to it.
        off = position - position.clamp(0, self._table.shape[1] - 1)
        value, slope, curvature = value - 0.5 * off.square(), slope - off, curvature - (off != 0).to(off)
        loss = 0.5 * (self._prior * parameters.square()).sum() - self._weight @ value
        return Place(parameters, loss, slope, curvature)

    def gradient(self, place: Place) -> Float[Tensor, " k"]:
        """The derivative of the loss in the parameters."""
        return self._prior * place.parameters - (self._weight * place.slope) @ self._design

    def hessian(self, place: Place) -> Float[Tensor, "k k"]:
        """The second derivative of the loss in the parameters."""
        return torch.diag(self._prior) - self._outer_products(self._weight * place.curvature)

    def _outer_products(self, weight: Float[Tensor, " n"], rows: Bool[Tensor, " n"] | None = None) -> Tensor:
        design = self._design if rows is None else self._design[rows]
        return design.mT @ (design * (weight if rows is None else weight[rows])[:, None])

    def _newton_step(self, place: Place, gradient: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
        """Newton's step; where the loss is not convex, with as much of its concave part as leaves it so: downhill."""
        hessian = self.hessian(place)
        hessian[0, 0] += 1e-9 * len(self._table)  # mu_g has no prior of its own
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if failed.item():
            concave = self._outer_products(self._weight * place.curvature, place.curvature > 0)
            for share in LEFT_OUT:
                factor, failed = torch.linalg.cholesky_ex(hessian + share * concave)
                if not failed.item():
                    break
        return -torch.cholesky_solve(gradient[:, None], factor)[:, 0]

    def _along(self, place: Place, step: Float[Tensor, " k"], promise: float, temperature: float) -> Place | None:
        """A place further along the step where the loss is sufficiently lower, if rounding still shows one."""
        share = min(1.0, LONGEST_STEP / (self._design @ step).abs().max().item())
        for _ in range(HALVINGS):
            further = self.at(place.parameters + share * step, temperature)
            if (further.loss <= place.loss - SUFFICIENT * share * promise).item():
                return further
            share *= 0.5
        return None
