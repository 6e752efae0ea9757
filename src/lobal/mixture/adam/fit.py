"""The paper's joint training of gate and experts (Sec. 4.4.2), from labelled data to a fitted mixture."""

from dataclasses import replace

import torch

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.interface import Experts
from lobal.mixture.adam.objective import mixture_squared_error
from lobal.mixture.adam.responses import FixedResponses, Responses, SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import Trainer
from lobal.mixture.data import TrainingData
from lobal.mixture.gate import Gate, SoftmaxGate
from lobal.mixture.model import FittedMixture, Mixture
from lobal.mixture.progress import Progress
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import Start, exact_experts_on, gate_features_at, spread_points

# The default gate bandwidth in units of the global expert's: the gate varies more slowly than the function. On 11 data
# sets 2 was mostly better than 15, except for few labels in many columns; 3 itself was not tried.
GATE_WIDTH = 3.0


def fit_by_adam(
    data: TrainingData,
    start: Start,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None,
) -> FittedMixture:
    """A mixture with a softmax gate."""
    training = adam_settings(settings)
    prepare = _exact_responses if settings.exact else sparse_responses
    responses = prepare(data, start, settings, generator)
    gate_features = gate_features_at(responses.points, gate_width(start, settings), settings, generator)
    gate = SoftmaxGate.uniform(gate_features, n_experts=len(settings.bandwidths), scale=training.gate_scale)
    trained = Trainer(responses, gate, training, generator).run(progress)
    return FittedMixture(
        Mixture(
            experts=_final_experts(responses, trained, data, settings, start),
            gate=trained,
            bandwidths=settings.bandwidths,
            shared_bandwidth=start.shared_bandwidth,
        )
    )


def adam_settings(settings: MixtureSettings) -> AdamSettings:
    """The settings of the training, which must be Adam's."""
    assert isinstance(settings.training, AdamSettings)
    return settings.training


def gate_width(start: Start, settings: MixtureSettings) -> torch.Tensor:
    """The bandwidth of the gate, by default a multiple of the global expert's."""
    return GATE_WIDTH * start.global_bandwidth if settings.gate_bandwidth is None else settings.gate_bandwidth


def sparse_responses(
    data: TrainingData, start: Start, settings: MixtureSettings, generator: torch.Generator
) -> SparseResponses:
    """Trainable sparse experts on inducing points of their own, and the points in random order."""
    points = data.for_training()
    points = points[torch.randperm(len(points), generator=generator).to(points.y.device)]
    features = WhitenedFeatures.at(
        spread_points(points, settings.n_inducing, start.shared_bandwidth, settings, generator),
        bandwidths=settings.bandwidths,
        shared_bandwidth=start.shared_bandwidth,
        kernel=settings.kernel,
    )
    return SparseResponses(
        points,
        validation_labels(data),
        features,
        start.hyperparameters,
        covariance=adam_settings(settings).covariance,
        cache_bytes=settings.cache_bytes,
        is_shuffled=True,
    )


def _exact_responses(
    data: TrainingData, start: Start, settings: MixtureSettings, generator: torch.Generator
) -> FixedResponses:
    del generator  # no inducing points, nothing to draw
    experts = exact_experts_on(data.points, start.hyperparameters, settings.bandwidths, start, settings)
    return FixedResponses(data.points, validation_labels(data), experts, data.gate_set)


def validation_labels(data: TrainingData) -> LabelledSet:
    """The validation labels, which Adam needs."""
    if data.validation is None:
        raise ValueError("the Adam engine needs validation labels, got none; pass some, or use the analytic engine")
    return data.validation


def _final_experts(
    responses: Responses, gate: SoftmaxGate, data: TrainingData, settings: MixtureSettings, start: Start
) -> Experts:
    """The experts to predict with: as trained, conditioned once more, or exact ones in their place."""
    trained = responses.experts()
    if settings.exchange or (settings.refit and settings.exact):
        points, bandwidths = data.for_final_fit(), settings.bandwidths
        return exact_experts_on(points, trained.hyperparameters, bandwidths, start, settings)
    if not (settings.refit and isinstance(responses, SparseResponses)):
        return trained
    refitted = responses.refit(gate, with_validation=not data.keep_validation)
    if not data.keep_validation:
        return refitted
    # Validation can still tell which inducing values are better; the posterior covariance is kept either way.
    best = min((refitted, responses.experts()), key=lambda experts: _error(experts, gate, validation_labels(data)))
    return replace(refitted, whitened_mean=best.whitened_mean)


def _error(experts: Experts, gate: Gate, validation: LabelledSet) -> float:
    return mixture_squared_error(gate(validation.X), experts.mean(validation.X), validation).item()
