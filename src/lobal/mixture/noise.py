"""Noise that differs from place to place: a smooth variance v(x) learned from squared errors.

The log-variance g = log v is a Gaussian process on a few inducing points (Goldberg et al. 1998, Kersting et al. 2007).
Kersting et al. regress log r^2 on x. Here g has the likelihood of the residuals themselves, which needs no correction
for E[log chi^2] = -1.27 and tells more: a residual says g to a variance of 2, and log r^2 to one of 4.93. Sums of
squares S_i with nu_i degrees of freedom, the part u_i of whose variance is the model's, have

    log p(S | g) = -1/2 sum_i [nu_i log t_i + S_i / t_i],    t_i = exp(g_i) + u_i,

and Newton's method finds the g of greatest posterior density in O(n m^2) an iteration. Bandwidth and prior variance of
g are those under which held-out squares are likeliest; a constant is kept unless it is clearly beaten.
`lobal.mixture.squared_errors` says what residuals, leverage and noise have to do with each other.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs, Scalar
from lobal.core.kernels import WhitenedFeatures, gaussian, scale_inputs
from lobal.inducing.selection import inducing_points
from lobal.mixture.squared_errors import SquaredErrors

# Of the average square: less noise than this is no longer told from what the model gets wrong.
SMALLEST_SHARE = 1e-4
ITERATIONS = 50  # of Newton's method, which takes about ten
TOLERANCE = 1e-10  # of the Newton decrement per degree of freedom
HALVINGS = 30  # of a step
FOLDS = 4  # of the squares, each held out once
MOST_COMPARED = 4096  # squares: enough to tell log-variances apart
# A dozen candidates compete with a constant, and the luckiest should not win: with two, one in 45 did.
STANDARD_ERRORS = 2.0
FEATURE_TENSORS = ("points", "bandwidths", "shared", "factor")


@final
@dataclass(frozen=True, kw_only=True)
class NoiseSettings:
    """Which log-variances to choose from; a constant is always among them."""

    n_inducing: int = 128
    widths: tuple[float, ...] = (30.0, 10.0, 3.0, 1.0)  # bandwidths of g, in units of the target function's
    scales: tuple[float, ...] = (0.1, 1.0, 10.0)  # prior variances of g: one standard deviation is 1.4, 2.7, 24 fold


class _Prior(NamedTuple):
    """Bandwidth and variance of g."""

    width: float
    scale: float


@final
@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """v(x) = exp(g(x)), with g between the least and the greatest value that it takes at the labels.

    Far from them g tends to its prior mean.
    """

    features: WhitenedFeatures  # of one bandwidth
    mean: Scalar
    scale: Scalar
    whitened_mean: Float[Tensor, " m"]
    lowest: Scalar  # bounds of g
    highest: Scalar

    def __call__(self, X: Inputs) -> Float[Tensor, " n"]:
        """Noise variances at the inputs."""
        b = self.whitened_mean[None, :, None]
        g = self.mean + self.scale.sqrt() * self.features.products(X, b)[0, :, 0]
        return g.clamp(self.lowest, self.highest).exp()

    @property
    def is_constant(self) -> bool:
        """Whether nothing spoke for a variance that differs from place to place."""
        return bool(self.lowest == self.highest)

    def at_least(self, smallest: float) -> "NoiseModel":
        """The same, but nowhere below the given variance."""
        floor = math.log(smallest)
        return replace(self, lowest=self.lowest.clamp_min(floor), highest=self.highest.clamp_min(floor))

    def scaled(self, factor: float) -> "NoiseModel":
        """The same for labels in other units: all variances times the factor."""
        shift = math.log(factor)
        return replace(self, mean=self.mean + shift, lowest=self.lowest + shift, highest=self.highest + shift)

    def tensors(self) -> dict[str, Tensor]:
        """Everything the model is, by name; `from_tensors` puts it together again."""
        named = {name: getattr(self, name) for name in _own_tensors()}
        named |= {name: getattr(self.features, name) for name in FEATURE_TENSORS}
        return {name: tensor.detach().cpu().clone() for name, tensor in named.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "NoiseModel":
        """The model that `tensors` took apart."""
        features = WhitenedFeatures(kernel=gaussian, **{name: tensors[name] for name in FEATURE_TENSORS})
        return cls(features=features, **{name: tensors[name] for name in _own_tensors()})


def _own_tensors() -> list[str]:
    return [field.name for field in fields(NoiseModel) if field.name != "features"]


def estimate_noise(
    errors: SquaredErrors,
    *,
    shared: Float[Tensor, "..."],
    generator: torch.Generator,
    settings: NoiseSettings | None = None,
) -> NoiseModel:
    """The noise variance that predicts held-out squares best, a constant unless that is clearly beaten.

    `shared` is the bandwidth of the target function, a number, one width per column or a matrix: the noise is taken to
    depend on the same directions, no faster than the function.
    """
    settings = NoiseSettings() if settings is None else settings
    scaled = inducing_points(scale_inputs(errors.X, shared), settings.n_inducing, generator=generator)
    points = scaled @ shared.mT if shared.ndim == 2 else scaled * shared
    level = constant_log_variance(errors)
    prior = _best_prior(errors, points, shared, settings, generator)
    features = _features(points, shared, (settings.widths[0] if prior is None else prior.width,))
    theta, g = level.new_zeros(1 + len(points)), level[None]
    if prior is not None:
        design = _design(features(errors.X)[0], prior.scale)
        theta = log_variance_parameters(design, errors, level)
        g = level + design @ theta
    g = g.clamp_min(_floor(errors))
    return NoiseModel(
        features=features,
        mean=level + theta[0],
        scale=level.new_tensor(0.0 if prior is None else prior.scale),
        whitened_mean=theta[1:],
        lowest=g.min(),
        highest=g.max(),
    )


def _features(
    points: Float[Tensor, "m d"], shared: Float[Tensor, "..."], widths: tuple[float, ...]
) -> WhitenedFeatures:
    return WhitenedFeatures.at(points, bandwidths=points.new_tensor(widths), shared=shared, kernel=gaussian)


def _design(phi: Float[Tensor, "n m"], scale: float) -> Float[Tensor, "n k"]:
    """Columns with standard normal coefficients: the level, known up to a factor e or so, and the features."""
    return torch.cat([torch.ones_like(phi[:, :1]), math.sqrt(scale) * phi], dim=1)


def _best_prior(
    errors: SquaredErrors,
    points: Float[Tensor, "m d"],
    shared: Float[Tensor, "..."],
    settings: NoiseSettings,
    generator: torch.Generator,
) -> _Prior | None:
    """Width and scale under which held-out squares are likeliest; none if a constant does about as well."""
    rows = torch.randperm(len(errors.total), generator=generator)[:MOST_COMPARED]
    few = errors.at(rows.to(errors.X.device))
    constant = _held_out_likelihood(None, few)
    best, greatest = None, 0.0
    for width, phi in zip(settings.widths, _features(points, shared, settings.widths)(few.X), strict=True):
        for scale in settings.scales:
            gain = _held_out_likelihood(_design(phi, scale), few) - constant
            clear = STANDARD_ERRORS * gain.std().item() / math.sqrt(len(gain))
            if gain.mean().item() > max(greatest, clear):
                best, greatest = _Prior(width, scale), gain.mean().item()
    return best


def _held_out_likelihood(design: Float[Tensor, "n k"] | None, errors: SquaredErrors) -> Float[Tensor, " n"]:
    """log p(S_i | g) with g from the other folds; constant without a design."""
    fold = torch.arange(len(errors.total), device=errors.X.device) % FOLDS
    likelihood = torch.zeros_like(errors.total)
    for number in range(FOLDS):
        out = fold == number
        rest = errors.at(~out)
        level = constant_log_variance(rest)
        g = level.expand(int(out.sum()))
        if design is not None:
            g = g + design[out] @ log_variance_parameters(design[~out], rest, level)
        likelihood[out] = log_likelihood(g, errors.at(out))
    return likelihood


def constant_log_variance(errors: SquaredErrors) -> Scalar:
    """log v of greatest likelihood if the noise is the same everywhere; not below a small share of the squares."""
    floor = _floor(errors)
    model = errors.freedom @ errors.model_variance / errors.freedom.sum()
    start = torch.maximum((_average(errors) - model).clamp_min(0.0).log(), floor)
    wide = 10.0  # the standard deviation of a prior without a say
    column = torch.full_like(errors.total, wide)[:, None]
    return torch.maximum(start + wide * log_variance_parameters(column, errors, start)[0], floor)


def _average(errors: SquaredErrors) -> Scalar:
    return errors.total.sum() / errors.freedom.sum()


def _floor(errors: SquaredErrors) -> Scalar:
    return (SMALLEST_SHARE * _average(errors)).log()


def log_likelihood(g: Float[Tensor, " n"], errors: SquaredErrors) -> Float[Tensor, " n"]:
    """log p(S_i | g_i), less what does not depend on g."""
    t = g.exp() + errors.model_variance
    return -0.5 * (errors.freedom * t.log() + errors.total / t)


def derivatives(g: Float[Tensor, " n"], errors: SquaredErrors) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """The first derivative of the log-likelihood in each g_i, and minus the second."""
    v = g.exp()
    t = v + errors.model_variance
    share, surplus = v / t, errors.total / t - errors.freedom
    return 0.5 * share * surplus, 0.5 * share * (share * (2.0 * surplus + errors.freedom) - surplus)


def log_variance_parameters(design: Float[Tensor, "n k"], errors: SquaredErrors, level: Scalar) -> Float[Tensor, " k"]:
    """theta of greatest posterior density in g = level + design theta with theta ~ N(0, I), by Newton's method.

    Where all variance is noise the objective is concave. Elsewhere points whose curvature has the wrong sign are left
    out of the matrix, which keeps the step an ascent; it is halved until the objective rises.
    """

    def objective(theta: Tensor) -> float:
        return (log_likelihood(level + design @ theta, errors).sum() - 0.5 * theta.square().sum()).item()

    theta = design.new_zeros(design.shape[1])
    value, enough = objective(theta), TOLERANCE * errors.freedom.sum().item()
    for _ in range(ITERATIONS):
        slope, curvature = derivatives(level + design @ theta, errors)
        gradient = design.mT @ slope - theta
        step = _newton_step(design, curvature.clamp_min(0.0), gradient)
        tries = (theta + 0.5**halving * step for halving in range(HALVINGS))
        better = next(((tried, reached) for tried in tries if (reached := objective(tried)) > value), None)
        if better is None or (gradient @ step).item() < enough:
            break
        theta, value = better
    return theta


def _newton_step(
    design: Float[Tensor, "n k"], curvature: Float[Tensor, " n"], gradient: Float[Tensor, " k"]
) -> Float[Tensor, " k"]:
    weighted = design * curvature.sqrt()[:, None]
    identity = torch.eye(len(gradient), dtype=gradient.dtype, device=gradient.device)
    return torch.cholesky_solve(gradient[:, None], torch.linalg.cholesky(identity + weighted.mT @ weighted))[:, 0]
