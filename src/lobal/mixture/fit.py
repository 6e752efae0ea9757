"""From labelled data to a fitted mixture: global expert, inducing points, experts, gate, training."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.arrays import Bandwidths
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.expert import Experts, Hyperparameters
from lobal.inducing.selection import inducing_points
from lobal.kernels import Kernel, WhitenedFeatures, gaussian, scale_inputs
from lobal.mixture.adam import AdamSettings, Progress, Trainer
from lobal.mixture.gate import Gate
from lobal.mixture.global_expert import fit_global_expert
from lobal.mixture.model import Mixture
from lobal.mixture.objective import mixture_squared_error
from lobal.mixture.responses import (
    CovarianceModel,
    FixedResponses,
    Responses,
    SparseResponses,
    zero_covariance,
)
from lobal.problems.problem import LabelledSet

# The default gate bandwidth in units of the global expert's: experts switch more slowly than functions vary. Of 2 and
# 15, tried on 11 data sets, 2 was mostly the better, 15 at few labels in many columns; 3 itself was not tried.
GATE_WIDTH = 3.0


@final
@dataclass(frozen=True, kw_only=True)
class MixtureSettings:
    """What the mixture is made of; defaults are the paper's where it names one."""

    bandwidths: Bandwidths  # sigma_l, ascending
    shared: Float[Tensor, "..."] | None = None  # Sigma_E: a number, one width per column, or a matrix
    gate_bandwidth: Float[Tensor, "..."] | None = None  # sigma_G I, likewise
    anisotropic: bool = False  # one width per column in the global expert's bandwidth
    scale: float | None = None  # initial lambda_E; None: the global expert's
    kernel: Kernel = gaussian
    dense: bool = False  # exact experts, the gate trained on leave-one-out responses or on a gate set
    n_inducing: int = 512  # m_E
    n_gate_inducing: int = 128  # m_G
    gate_scale: float = 10.0  # lambda_G
    covariance: CovarianceModel = zero_covariance  # S while training
    refit: bool = True  # condition the experts once more under the trained gate
    exchange: bool = False  # put exact experts in the place of the sparse ones at the end
    training: AdamSettings = field(default_factory=AdamSettings)


@final
@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a mixture is fitted to.

    The gate of dense experts learns from `gate_set`, or from leave-one-out responses where there is none. The
    validation labels steer the training and then join the data, unless `keep_validation` holds them back.
    """

    points: LabelledSet
    validation: LabelledSet
    gate_set: LabelledSet | None = None
    keep_validation: bool = False

    def in_the_end(self) -> LabelledSet:
        """All labels that the final experts may be conditioned on."""
        labels = self.points if self.gate_set is None else LabelledSet.joined(self.points, self.gate_set)
        return labels if self.keep_validation else LabelledSet.joined(labels, self.validation)


class FittedMixture(NamedTuple):
    """A mixture and what its experts share."""

    mixture: Mixture
    hyperparameters: Hyperparameters


class _Start(NamedTuple):
    """Where training starts: from the global expert, or from what the user knows."""

    hyperparameters: Hyperparameters
    shared: Float[Tensor, "..."]
    gate_bandwidth: Float[Tensor, "..."]


def fit_mixture(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> FittedMixture:
    """A mixture trained on the data by the protocol of Sec. 4.4.2."""
    start = _global_start(data.points, settings, generator)
    prepare = _dense_responses if settings.dense else _sparse_responses
    responses = prepare(data, start, settings, generator)
    trainer = Trainer(
        responses, _initial_gate(responses.points, start, settings, generator), settings.training, generator
    )
    gate = trainer.run(progress)
    experts = _final_experts(responses, gate, data, settings, start)
    mixture = Mixture(experts=experts, gate=gate, bandwidths=settings.bandwidths, shared=start.shared)
    return FittedMixture(mixture, experts.hyperparameters)


def column_widths(X: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """The natural width of each input column: its standard deviation, one where it is constant."""
    spread = X.std(dim=0)
    negligible = 1e-12 * X.abs().amax(dim=0)
    return torch.where(spread > negligible, spread, torch.ones_like(spread))


def _global_start(points: LabelledSet, settings: MixtureSettings, generator: torch.Generator) -> _Start:
    expert = fit_global_expert(
        points,
        unit=column_widths(points.X),
        kernel=settings.kernel,
        anisotropic=settings.anisotropic,
        generator=generator,
    )
    hyperparameters = expert.hyperparameters
    if settings.scale is not None:
        hyperparameters = hyperparameters._replace(scale=torch.full_like(hyperparameters.scale, settings.scale))
    return _Start(
        hyperparameters,
        shared=expert.bandwidth if settings.shared is None else settings.shared,
        gate_bandwidth=GATE_WIDTH * expert.bandwidth if settings.gate_bandwidth is None else settings.gate_bandwidth,
    )


def _sparse_responses(
    data: TrainingData, start: _Start, settings: MixtureSettings, generator: torch.Generator
) -> SparseResponses:
    points = data.points if data.gate_set is None else LabelledSet.joined(data.points, data.gate_set)
    features = WhitenedFeatures.at(
        _spread_points(points, settings.n_inducing, start.shared, generator),
        bandwidths=settings.bandwidths,
        shared=start.shared,
        kernel=settings.kernel,
    )
    return SparseResponses(points, data.validation, features, start.hyperparameters, covariance=settings.covariance)


def _dense_responses(
    data: TrainingData, start: _Start, settings: MixtureSettings, generator: torch.Generator
) -> FixedResponses:
    del generator  # no inducing points, nothing to draw
    experts = _exact(data.points, start.hyperparameters, start.shared, settings)
    if data.gate_set is not None:
        return FixedResponses.on_gate_set(data.gate_set, data.validation, experts)
    return FixedResponses.leave_one_out(data.points, data.validation, experts)


def _exact(
    points: LabelledSet,
    hyperparameters: Hyperparameters,
    shared: Float[Tensor, "..."],
    settings: MixtureSettings,
) -> ExactExperts:
    if points.noise is not None:
        hyperparameters = hyperparameters._replace(noise=points.noise)
    return exact_experts(
        points.X,
        points.y,
        hyperparameters,
        bandwidths=settings.bandwidths,
        shared=shared,
        kernel=settings.kernel,
    )


def _initial_gate(points: LabelledSet, start: _Start, settings: MixtureSettings, generator: torch.Generator) -> Gate:
    features = WhitenedFeatures.at(
        _spread_points(points, settings.n_gate_inducing, start.gate_bandwidth, generator),
        bandwidths=torch.ones_like(settings.bandwidths[:1]),
        shared=start.gate_bandwidth,
        kernel=gaussian,
    )
    return Gate.uniform(features, n_experts=len(settings.bandwidths), scale=settings.gate_scale)


def _spread_points(
    points: LabelledSet, m: int, shared: Float[Tensor, "..."], generator: torch.Generator
) -> Float[Tensor, "m d"]:
    """Inducing points spread in the geometry of the kernel they serve, in units of the inputs."""
    scaled = inducing_points(scale_inputs(points.X, shared), m, generator=generator, weight=points.spread)
    return scaled @ shared.mT if shared.ndim == 2 else scaled * shared


def _final_experts(
    responses: Responses, gate: Gate, data: TrainingData, settings: MixtureSettings, start: _Start
) -> Experts:
    """The experts to predict with: as trained, conditioned once more, or exchanged for exact ones."""
    trained = responses.experts()
    if settings.exchange or (settings.refit and settings.dense):
        return _exact(data.in_the_end(), trained.hyperparameters, start.shared, settings)
    if not (settings.refit and isinstance(responses, SparseResponses)):
        return trained
    refitted = responses.refit(gate, with_validation=not data.keep_validation)
    if not data.keep_validation:
        return refitted
    # Validation can still tell which inducing values are better; the posterior covariance is kept either way.
    best = min((refitted, responses.experts()), key=lambda experts: _error(experts, gate, data.validation))
    return replace(refitted, whitened_mean=best.whitened_mean)


def _error(experts: Experts, gate: Gate, validation: LabelledSet) -> float:
    return mixture_squared_error(gate(validation.X), experts.mean(validation.X), validation.y, validation.weight).item()
