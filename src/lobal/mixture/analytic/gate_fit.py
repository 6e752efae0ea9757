"""Fitting the ordinal gate: one smooth position on the ladder of bandwidths, by Newton's method.

The gate maximises sum_i w_i U_i(p(x_i)) - |b|^2 / 2, where p = mu_g + sqrt(lambda_G) phi^T b is the position and U_i(p)
interpolates the utilities of the experts at point i. The gate interpolates linearly, which has kinks where Newton's
method would stop. So the fit uses smooth weights, softmax(-(p - l)^2 / (2 T^2)): first with a large T, for which there
are few maxima, then with a small one, close to linear interpolation.
"""

from collections.abc import Iterator
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.kernels import WhitenedFeatures
from lobal.mixture.gate import OrdinalGate

# T. On the Doppler function 0.25 and 0.35 were best; with 0.5 and more bandwidths blur, with less the kinks matter.
TEMPERATURES = (1.0, 0.35)
# Predicted gain of a Newton step, in nats per point, at which the search ends: for the large T and for the small one.
ROUGHLY, TOLERANCE = 1e-5, 1e-12
ITERATIONS = 60
LONGEST_STEP = 1.0  # change of a position: utilities further away are not described by a parabola
SUFFICIENT = 1e-4  # share of the predicted gain that a step has to achieve
HALVINGS = 30
FOLDS = 4  # of the points, each left out once when gates are compared
COMPARED_TOLERANCE = 1e-4  # nats per point: enough to compare gates
LEFT_OUT = (0.05, 0.2, 0.5, 1.0)  # shares of the concave part of the loss that are left out, tried in turn


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
) -> OrdinalGate:
    """The gate of greatest posterior density for the utilities of the experts at points with features phi.

    `start` is a gate fitted to similar utilities on the same ladder; without it, the search starts at the single expert
    of greatest total utility.
    """
    begun = None if start is None else Channel(start.mean, start.whitened_mean)
    channel = fit_channel(phi, utility, weight, scale=scale, start=begun)
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
    search = NewtonSearch(phi, utility, weight, phi.new_tensor(scale).sqrt())
    for temperature in (TEMPERATURES if start is None else TEMPERATURES[1:]) if len(utility) > 1 else ():
        is_last = temperature == TEMPERATURES[-1]
        parameters = search.run(parameters, temperature, tolerance if is_last else max(tolerance, ROUGHLY))
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


class Iterate(NamedTuple):
    """Parameters and their loss, with the slope and curvature of the utility at every point."""

    parameters: Float[Tensor, " k"]
    loss: Scalar
    slope: Float[Tensor, " n"]
    curvature: Float[Tensor, " n"]


@final
class NewtonSearch:
    """Minimises the gate's loss in the parameters (mu_g, b) by Newton's method."""

    def __init__(
        self, phi: Float[Tensor, "n m"], utility: Float[Tensor, "L n"], weight: Float[Tensor, " n"], spread: Scalar
    ) -> None:
        self._design = torch.cat([torch.ones_like(phi[:, :1]), spread * phi], dim=1)
        self._table, self._weight = utility.mT.contiguous(), weight
        self._prior = torch.ones_like(self._design[0])
        self._prior[0] = 0.0

    def run(self, start: Float[Tensor, " k"], temperature: float, tolerance: float) -> Float[Tensor, " k"]:
        """The parameters at which the predicted gain of a step is below `tolerance` nats per point."""
        iterate = self.at(start, temperature)
        for _ in range(ITERATIONS):
            gradient = self.gradient(iterate)
            step = self._newton_step(iterate, gradient)
            gain = -(gradient @ step).item()
            if not gain > 2.0 * tolerance * len(self._table):
                break
            further = self._line_search(iterate, step, gain, temperature)
            if further is None:
                break
            iterate = further
        return iterate.parameters

    def at(self, parameters: Float[Tensor, " k"], temperature: float) -> Iterate:
        """The loss, negative utility plus negative log prior, with the derivatives of the utility in the positions."""
        position = self._design @ parameters
        value, slope, curvature = interpolated(self._table, position, temperature)
        # Far off the ladder utilities are constant and no slope leads back: a penalty of one nat per squared step does.
        off = position - position.clamp(0, self._table.shape[1] - 1)
        value, slope, curvature = value - 0.5 * off.square(), slope - off, curvature - (off != 0).to(off)
        loss = 0.5 * (self._prior * parameters.square()).sum() - self._weight @ value
        return Iterate(parameters, loss, slope, curvature)

    def gradient(self, iterate: Iterate) -> Float[Tensor, " k"]:
        """The derivative of the loss in the parameters."""
        return self._prior * iterate.parameters - (self._weight * iterate.slope) @ self._design

    def hessian(self, iterate: Iterate) -> Float[Tensor, "k k"]:
        """The second derivative of the loss in the parameters."""
        return torch.diag(self._prior) - self._outer_products(self._weight * iterate.curvature)

    def _outer_products(self, weight: Float[Tensor, " n"], rows: Bool[Tensor, " n"] | None = None) -> Tensor:
        design = self._design if rows is None else self._design[rows]
        return design.mT @ (design * (weight if rows is None else weight[rows])[:, None])

    def _newton_step(self, iterate: Iterate, gradient: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
        """The Newton step; where the loss is not convex, without so much of its concave part that it is a descent."""
        hessian = self.hessian(iterate)
        hessian[0, 0] += 1e-9 * len(self._table)  # mu_g has no prior
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if failed.item():
            concave = self._outer_products(self._weight * iterate.curvature, iterate.curvature > 0)
            for share in LEFT_OUT:
                factor, failed = torch.linalg.cholesky_ex(hessian + share * concave)
                if not failed.item():
                    break
        return -torch.cholesky_solve(gradient[:, None], factor)[:, 0]

    def _line_search(
        self, iterate: Iterate, step: Float[Tensor, " k"], gain: float, temperature: float
    ) -> Iterate | None:
        """The first of ever shorter steps with a sufficiently lower loss, if there is one despite rounding."""
        share = min(1.0, LONGEST_STEP / (self._design @ step).abs().max().item())
        for _ in range(HALVINGS):
            further = self.at(iterate.parameters + share * step, temperature)
            if (further.loss <= iterate.loss - SUFFICIENT * share * gain).item():
                return further
            share *= 0.5
        return None
