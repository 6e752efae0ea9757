"""Where every engine starts: the global expert, inducing points, features, and exact experts."""

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.dataset import LabelledSet
from lobal.core.density import column_spread
from lobal.core.kernels import Kernel, WhitenedFeatures, gaussian, scale_inputs
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.global_expert import LITTLE_NOISE, GlobalExpert, fit_global_expert, searched_again
from lobal.experts.interface import Hyperparameters
from lobal.inducing.select import select_inducing
from lobal.mixture.settings import MixtureSettings

# With so many columns and more, "auto" is k-means: its density t^(d/(d+2)) is within a fifth of the target's exponent,
# and the tails that it covers better are worth 2 to 3% of the error on two data sets of nine columns.
KMEANS_COLUMNS = 8
CLEARLY_MORE = 2.0  # times as much noise as little noise: with less, a start with little noise is the same


@final
@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a fit starts: settings, random numbers, and the global expert's values where the settings give none."""

    settings: MixtureSettings
    generator: torch.Generator
    hyperparameters: Hyperparameters
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E
    global_bandwidth: Float[Tensor, " d"]
    kernel: Kernel  # of the experts
    rougher: "Start | None" = None  # the same with a Matern kernel, if a single Gaussian process is better with one
    is_quiet: bool = False  # whether its noise is less than the global expert's

    def quieter(self, points: LabelledSet) -> "Start | None":
        """The same start with little noise; None if the noise is known, or little already."""
        variance, (_, scale, noise) = points.y.var(), self.hyperparameters
        if points.noise is not None or noise.item() <= CLEARLY_MORE * LITTLE_NOISE * variance:
            return None
        little = {"noise": LITTLE_NOISE * variance, "scale": torch.maximum(scale, variance)}
        rougher = None if self.rougher is None else self.rougher.quieter(points) or self.rougher
        hyperparameters = self.hyperparameters._replace(**little)
        return replace(self, hyperparameters=hyperparameters, rougher=rougher, is_quiet=True)

    def with_bandwidths(self, bandwidths: Bandwidths) -> "Start":
        """The same start with another ladder to begin with."""
        rougher = None if self.rougher is None else self.rougher.with_bandwidths(bandwidths)
        return replace(self, settings=replace(self.settings, bandwidths=bandwidths), rougher=rougher)

    def searched_again(self, points: LabelledSet) -> "Start":
        """The same start with the global expert of other points, near this one; what was given stays."""
        if self.is_quiet:  # the global expert's noise would come back
            return self
        near = GlobalExpert(self.hyperparameters, self.global_bandwidth, self.kernel)
        unit, anisotropic = column_spread(points.X), self.settings.anisotropic
        groups = self.settings.column_groups
        expert = searched_again(points, near, unit=unit, anisotropic=anisotropic, groups=groups)
        return _start(expert, self.settings, self.generator)

    def exact_experts(
        self, points: LabelledSet, hyperparameters: Hyperparameters, bandwidths: Bandwidths
    ) -> ExactExperts:
        """Exact experts conditioned on all points."""
        return exact_experts(
            points.X,
            points.y,
            with_known_noise(hyperparameters, points),
            bandwidths=bandwidths,
            shared_bandwidth=self.shared_bandwidth,
            kernel=self.kernel,
        )

    def features_at(self, inducing: Float[Tensor, "m d"], bandwidths: Bandwidths) -> WhitenedFeatures:
        """Features of sparse experts on the given inducing points."""
        shared = self.shared_bandwidth
        return WhitenedFeatures.at(inducing, bandwidths=bandwidths, shared_bandwidth=shared, kernel=self.kernel)

    def gate_features(self, points: LabelledSet, width: Float[Tensor, "..."]) -> WhitenedFeatures:
        """Features of a gate of the given bandwidth, on inducing points of its own."""
        inducing = self.inducing_points(points, self.settings.n_gate_inducing, width)
        one = torch.ones_like(self.settings.bandwidths[:1])
        return WhitenedFeatures.at(inducing, bandwidths=one, shared_bandwidth=width, kernel=gaussian)

    def inducing_points(self, points: LabelledSet, m: int, bandwidth: Float[Tensor, "..."]) -> Float[Tensor, "k d"]:
        """At most m inducing points that represent the inputs, by the method and the weights that are given."""
        method = self.settings.inducing
        if method == "auto" and points.X.shape[1] >= KMEANS_COLUMNS:
            method = "kmeans"
        return points_in_units(points.X, m, bandwidth, method=method, weight=points.spread, generator=self.generator)


def global_start(points: LabelledSet, settings: MixtureSettings, generator: torch.Generator) -> Start:
    """The global expert's hyperparameters and bandwidth, except where the settings give them."""
    expert = fit_global_expert(
        points,
        unit=column_spread(points.X),
        kernel=settings.kernel,
        anisotropic=settings.anisotropic,
        generator=generator,
        groups=settings.column_groups,
    )
    return _start(expert, settings, generator)


def _start(expert: GlobalExpert, settings: MixtureSettings, generator: torch.Generator) -> Start:
    """The start with this expert's values where the settings give none."""
    hyperparameters, shared = expert.hyperparameters, settings.shared_bandwidth
    if settings.scale is not None:
        hyperparameters = hyperparameters._replace(scale=torch.full_like(hyperparameters.scale, settings.scale))
    return Start(
        settings=settings,
        generator=generator,
        hyperparameters=hyperparameters,
        shared_bandwidth=expert.bandwidth if shared is None else shared,
        global_bandwidth=expert.bandwidth,
        kernel=expert.kernel,
        rougher=None if expert.rougher is None else _start(expert.rougher, settings, generator),
    )


def with_known_noise(hyperparameters: Hyperparameters, points: LabelledSet) -> Hyperparameters:
    """The hyperparameters with the noise variances of the points, where these are known."""
    return hyperparameters if points.noise is None else hyperparameters._replace(noise=points.noise)


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
