"""Layers of a deep Gaussian process over one column, and what labels say about them.

Every layer is a Gaussian process with the Gaussian kernel, as a sum of sine functions on an interval with independent
normal weights (Solin and Särkkä 2020): smooth functions need few of them, and the time that the likelihood takes does
not grow with the cube of the labels. Hidden layers are kept as weights; those of the output layer and its variance are
integrated out.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

from lobal.core.linalg import safe_cholesky

# The bandwidth is at least so many times the shortest wave length / (2 pi), and at most such a share of the room
# between reach and end of the interval: tests/baselines/test_deep_gp_layers.py says how well the kernel is met then.
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

    def sums(self, x: Float[Tensor, "*chains n"], weights: Float[Tensor, "*chains M"]) -> Float[Tensor, "*chains n"]:
        """sum_j w_j phi_j(x) at every input, in O(sqrt(M)) sines each."""
        fine, coarse = _powers(self.angles(x), self.number + 1)
        step = fine.shape[-2]
        padded = torch.nn.functional.pad(weights, (1, step * step - 1 - self.number)).unflatten(-1, (step, step))
        found: Tensor = (coarse * (padded.to(fine.dtype) @ fine)).sum(-2).imag
        return found / math.sqrt(self.half_width)

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
    number: int


def moments(basis: SineBasis, x: Float[Tensor, "C n"], y: Float[Tensor, " n"]) -> Moments:
    """The moments of labels at inputs, in O(n M) time; sums of products of sines follow from sums of cosines."""
    values = torch.stack([torch.ones_like(y), y])
    sums = exponential_sums(basis.angles(x), values, 2 * basis.number + 1)
    products = sums[:, 1, 1 : basis.number + 1].imag / math.sqrt(basis.half_width)
    return Moments(sums[:, 0].real, products, y @ y, len(y))


def exponential_sums(
    angles: Float[Tensor, "C n"], values: Float[Tensor, "v n"], number: int
) -> Complex[Tensor, "C v number"]:
    """sum_i v_i exp(i s t_i), s = 0 ... number - 1, for every row of values."""
    fine, coarse = _powers(angles, number)
    left = coarse[:, None] * values[:, None]
    products = left.flatten(1, 2) @ fine.mT
    sums: Tensor = products.unflatten(1, (len(values), -1)).flatten(2)
    return sums[..., :number]


def _powers(
    angles: Float[Tensor, "*chains n"], number: int
) -> tuple[Complex[Tensor, "*chains k n"], Complex[Tensor, "*chains k n"]]:
    """exp(i q t) and exp(i k p t) for p, q = 0 ... k - 1: the products of both are all powers up to `number` or more.

    A sum of `number` powers is then two sums of k, which is the root of it.
    """
    step = math.isqrt(number - 1) + 1
    one = torch.ones_like(angles)
    return _successive(torch.polar(one, angles), step), _successive(torch.polar(one, step * angles), step)


def _successive(base: Complex[Tensor, "*chains n"], number: int) -> Complex[Tensor, "*chains number n"]:
    """The powers 0 ... number - 1, by doubling."""
    found, following = torch.ones_like(base)[..., None, :], base[..., None, :]
    while found.shape[-2] < number:
        found, following = torch.cat([found, found * following], dim=-2), following.square()
    return found[..., :number, :]


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
        return self.basis.sums(x, self.deviations * weights[..., 0])

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
    A = (differences - sums) * (
        deviations[:, :, None] * (deviations / (2.0 * basis.half_width * noise[:, None]))[:, None]
    )
    A = A + torch.eye(M, dtype=A.dtype, device=A.device)
    factor = torch.linalg.cholesky_ex(A).L  # at least the identity
    right = (deviations * of.products / noise[:, None])[..., None]
    projected: Tensor = torch.linalg.solve_triangular(factor, right, upper=False)[..., 0]
    quadratic = of.square / noise - projected.square().sum(1)
    log_determinant = 2.0 * factor.diagonal(dim1=1, dim2=2).log().sum(1) + of.number * noise.log()
    return OutputPosterior(
        basis=basis,
        deviations=deviations,
        factor=factor,
        projected=projected,
        noise=noise,
        log_evidence=-0.5 * (of.number * quadratic.log() + log_determinant),
        scale=quadratic / of.number,
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
        places = basis.sums(places, standardised * basis.deviations(bandwidths[:, layer]))
        beyond = (places.abs() / following[layer].reach - 1.0).relu()
        overshoot = overshoot + beyond.square().sum(1)
    return Warped(places, overshoot == 0.0, overshoot)
