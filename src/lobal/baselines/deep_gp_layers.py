"""Layers of a deep Gaussian process over one column, and what labels say about them.

Every layer is a Gaussian process with the Gaussian kernel, as a sum of sine functions on an interval with independent
normal weights (Solin and Särkkä 2020): smooth functions need few of them, and neither their number nor the time that the
likelihood takes grows with the square of the labels. Hidden layers are kept as weights; those of the output layer and
its variance are integrated out.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lobal.core.linalg import safe_cholesky

# The bandwidth is at least so many times the shortest wave length / (2 pi), and at most such a share of the room between
# reach and end of the interval: the kernel is then met within a thousandth, or, at the ends of the reach, a hundredth.
RESOLVED = 3.0
ROOM = 0.5


@final
@dataclass(frozen=True, kw_only=True)
class SineBasis:
    """The functions sin(j pi (x + L) / 2 L) / sqrt(L), j = 1, 2 ... on [-L, L]."""

    half_width: float  # L
    number: int
    reach: float  # largest |x| of inputs; less than L, as functions are zero at the ends

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest bandwidth that the functions can represent."""
        return RESOLVED * 2.0 * self.half_width / (math.pi * self.number), ROOM * (self.half_width - self.reach)

    def angles(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """pi (x + L) / 2 L."""
        return (x + self.half_width) * (math.pi / (2.0 * self.half_width))

    def functions(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape M"]:
        """All functions at the inputs."""
        orders = torch.arange(1, self.number + 1, dtype=x.dtype, device=x.device)
        return torch.sin(self.angles(x)[..., None] * orders) / math.sqrt(self.half_width)

    def deviations(self, bandwidth: Float[Tensor, "*chains"]) -> Float[Tensor, "*chains M"]:
        """Prior standard deviations of the weights: the root of the kernel's spectral density."""
        orders = torch.arange(1, self.number + 1, dtype=bandwidth.dtype, device=bandwidth.device)
        scaled = bandwidth[..., None] * orders * (math.pi / (2.0 * self.half_width))
        return (math.sqrt(2.0 * math.pi) * bandwidth[..., None]).sqrt() * torch.exp(-0.25 * scaled.square())

    def weights_of(self, slope: float, bandwidth: float) -> Float[Tensor, " M"]:
        """Standardised weights under which the layer is the function slope * x, within the reach."""
        x = torch.linspace(-self.reach, self.reach, 8 * self.number, dtype=torch.float64)
        phi = self.functions(x) * self.deviations(torch.tensor(bandwidth, dtype=torch.float64))
        normal = phi.mT @ phi
        normal.diagonal().add_(1e-4)  # of 8 * number squares: keeps weights small that make no difference
        return torch.cholesky_solve((phi.mT @ (slope * x))[:, None], safe_cholesky(normal).lower)[:, 0]


class Moments(NamedTuple):
    """What the likelihood needs to know of inputs x and labels y of the output layer, for every chain."""

    cosines: Float[Tensor, "C S"]  # sum_i cos(s t_i), s = 0 ... 2 M, of the angles t
    products: Float[Tensor, "C M"]  # sum_i y_i phi_j(x_i)
    square: Float[Tensor, ""]  # sum_i y_i^2
    count: int


def moments(basis: SineBasis, x: Float[Tensor, "C n"], y: Float[Tensor, " n"]) -> Moments:
    """The moments of labels at inputs, in O(n M) time; sums of products of sines follow from sums of cosines."""
    values = torch.stack([torch.ones_like(y), y])
    sums = exponential_sums(basis.angles(x), values, 2 * basis.number + 1)
    products = sums[:, 1, 1 : basis.number + 1].imag / math.sqrt(basis.half_width)
    return Moments(sums[:, 0].real, products, y @ y, len(y))


def exponential_sums(
    angles: Float[Tensor, "C n"], values: Float[Tensor, "v n"], number: int
) -> Tensor:  # complex, (C, v, number)
    """sum_i v_i exp(i s t_i), s = 0 ... number - 1: with s = k p + q a matrix product of two short lists of powers."""
    step = math.isqrt(number - 1) + 1
    orders = torch.arange(step, dtype=angles.dtype, device=angles.device)
    fine = angles[:, None, :] * orders[:, None]
    coarse = step * fine
    left = torch.polar(values[None, :, None, :].expand(len(angles), -1, step, -1), coarse[:, None])
    right = torch.polar(torch.ones_like(fine), fine)
    products = left.flatten(1, 2) @ right.mT  # (C, v step, step)
    return products.unflatten(1, (len(values), step)).flatten(2)[..., :number]


@final
@dataclass(frozen=True, kw_only=True)
class OutputPosterior:
    """The posterior of the output layer's weights, standardised by their prior; its variance is that of the labels."""

    basis: SineBasis
    deviations: Float[Tensor, "C M"]
    factor: Float[Tensor, "C M M"]  # R, with R R^T = I + D Phi^T Phi D / g
    projected: Float[Tensor, "C M"]  # R^-1 D Phi^T y / g
    noise: Float[Tensor, " C"]  # g, in units of the layer's variance
    log_evidence: Float[Tensor, " C"]  # up to a constant
    scale: Float[Tensor, " C"]  # the layer's variance tau^2 of greatest likelihood

    def mean(self, x: Float[Tensor, "C n"]) -> Float[Tensor, "C n"]:
        """The mean at inputs."""
        weights: Tensor = torch.linalg.solve_triangular(self.factor.mT, self.projected[..., None], upper=True)
        return (self.basis.functions(x) @ (self.deviations[..., None] * weights))[..., 0]

    def roots(self, x: Float[Tensor, "C n"]) -> Float[Tensor, "C M n"]:
        """V: the posterior covariance of the layer at inputs is tau^2 V^T V."""
        scaled = (self.basis.functions(x) * self.deviations[:, None]).mT
        whitened: Tensor = torch.linalg.solve_triangular(self.factor, scaled, upper=False)
        return whitened


def output_posterior(
    basis: SineBasis, of: Moments, bandwidth: Float[Tensor, " C"], noise: Float[Tensor, " C"]
) -> OutputPosterior:
    """The output layer given its inputs; its variance is integrated out under the prior 1 / tau^2."""
    M, deviations = basis.number, basis.deviations(bandwidth)
    mirrored = torch.cat([of.cosines[:, 1:M].flip(1), of.cosines[:, :M]], dim=1)
    differences = mirrored.unfold(1, M, 1).flip(1)  # entries j, k: order |j - k|
    sums = of.cosines[:, 2:].unfold(1, M, 1)  # order j + k
    A = (differences - sums) * (deviations[:, :, None] * (deviations / (2.0 * basis.half_width * noise[:, None]))[:, None])
    A = A + torch.eye(M, dtype=A.dtype, device=A.device)
    factor = torch.linalg.cholesky_ex(A).L  # at least the identity
    right = (deviations * of.products / noise[:, None])[..., None]
    projected: Tensor = torch.linalg.solve_triangular(factor, right, upper=False)[..., 0]
    quadratic = of.square / noise - projected.square().sum(1)
    log_determinant = 2.0 * factor.diagonal(dim1=1, dim2=2).log().sum(1) + of.count * noise.log()
    return OutputPosterior(
        basis=basis,
        deviations=deviations,
        factor=factor,
        projected=projected,
        noise=noise,
        log_evidence=-0.5 * (of.count * quadratic.log() + log_determinant),
        scale=quadratic / of.count,
    )


class Warped(NamedTuple):
    """Inputs of the output layer, and whether those of all layers are within reach."""

    places: Float[Tensor, "C n"]
    is_inside: Bool[Tensor, " C"]
    overshoot: Float[Tensor, " C"]  # squared distances beyond the reach, in units of it


def warped(
    hidden: tuple[SineBasis, ...],
    output: SineBasis,
    x: Float[Tensor, " n"],
    weights: tuple[Float[Tensor, "C _"], ...],
    bandwidths: Float[Tensor, "C layers"],
) -> Warped:
    """Inputs passed through the hidden layers."""
    places, overshoot = x.expand(len(bandwidths), -1), torch.zeros_like(bandwidths[:, 0])
    following = (*hidden[1:], output)
    for layer, (basis, standardised) in enumerate(zip(hidden, weights, strict=True)):
        scaled = standardised * basis.deviations(bandwidths[:, layer])
        inputs = x if layer == 0 else places
        places = (basis.functions(inputs) @ scaled[..., None])[..., 0]
        beyond = (places.abs() / following[layer].reach - 1.0).relu()
        overshoot = overshoot + beyond.square().sum(1)
    return Warped(places, overshoot == 0.0, overshoot)
