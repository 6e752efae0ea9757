"""Where every engine starts: the global expert, inducing points, and exact experts."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, gaussian, scale_inputs
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.global_expert import fit_global_expert
from lobal.experts.interface import Hyperparameters
from lobal.inducing.select import select_inducing
from lobal.mixture.settings import MixtureSettings

# With so many columns and more, "auto" is k-means: its density t^(d/(d+2)) is within a fifth of the target's exponent,
# and the tails that it covers better are worth 2 to 3% of the error on two data sets of nine columns.
KMEANS_COLUMNS = 8


class Start(NamedTuple):
    """Initial hyperparameters and bandwidths: the global expert's, or those that were given."""

    hyperparameters: Hyperparameters
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E
    global_bandwidth: Float[Tensor, " d"]


def global_start(points: LabelledSet, settings: MixtureSettings, generator: torch.Generator) -> Start:
    """The global expert's hyperparameters and bandwidth, except where the settings give them."""
    expert = fit_global_expert(
        points,
        unit=column_widths(points.X),
        kernel=settings.kernel,
        anisotropic=settings.anisotropic,
        generator=generator,
    )
    hyperparameters, given = expert.hyperparameters, settings.shared_bandwidth
    if settings.scale is not None:
        hyperparameters = hyperparameters._replace(scale=torch.full_like(hyperparameters.scale, settings.scale))
    return Start(hyperparameters, expert.bandwidth if given is None else given, expert.bandwidth)


def column_widths(X: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """The standard deviation of each input column, one where the column is constant."""
    spread = X.std(dim=0)
    negligible = 1e-12 * X.abs().amax(dim=0)
    return torch.where(spread > negligible, spread, torch.ones_like(spread))


def with_known_noise(hyperparameters: Hyperparameters, points: LabelledSet) -> Hyperparameters:
    """The hyperparameters with the noise variances of the points, where these are known."""
    return hyperparameters if points.noise is None else hyperparameters._replace(noise=points.noise)


def exact_experts_on(
    points: LabelledSet,
    hyperparameters: Hyperparameters,
    bandwidths: Bandwidths,
    start: Start,
    settings: MixtureSettings,
) -> ExactExperts:
    """Exact experts conditioned on all points."""
    return exact_experts(
        points.X,
        points.y,
        with_known_noise(hyperparameters, points),
        bandwidths=bandwidths,
        shared_bandwidth=start.shared_bandwidth,
        kernel=settings.kernel,
    )


def gate_features_at(
    points: LabelledSet, width: Float[Tensor, "..."], settings: MixtureSettings, generator: torch.Generator
) -> WhitenedFeatures:
    """Features of a gate of the given bandwidth, on inducing points of its own."""
    return WhitenedFeatures.at(
        spread_points(points, settings.n_gate_inducing, width, settings, generator),
        bandwidths=torch.ones_like(settings.bandwidths[:1]),
        shared_bandwidth=width,
        kernel=gaussian,
    )


def spread_points(
    points: LabelledSet, m: int, bandwidth: Float[Tensor, "..."], settings: MixtureSettings, generator: torch.Generator
) -> Float[Tensor, "k d"]:
    """At most m inducing points that represent the inputs, by the method and the weights that are given."""
    X, weight, method = points.X, points.spread, settings.inducing
    if method == "auto" and X.shape[1] >= KMEANS_COLUMNS:
        method = "kmeans"
    return points_in_units(X, m, bandwidth, method=method, weight=weight, generator=generator)


def points_in_units(
    X: Float[Tensor, "n d"],
    m: int,
    bandwidth: Float[Tensor, "..."],
    *,
    method: str = "auto",
    weight: Float[Tensor, " n"] | None = None,
    generator: torch.Generator,
) -> Float[Tensor, "k d"]:
    """At most m inducing points for the inputs X, chosen by distances in units of the bandwidth."""
    scaled = select_inducing(scale_inputs(X, bandwidth), m, method=method, weight=weight, generator=generator)
    return scaled @ bandwidth.mT if bandwidth.ndim == 2 else scaled * bandwidth
