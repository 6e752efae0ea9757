"""The paper's joint training of gate and experts (Sec. 4.4.2), from labelled data to a fitted mixture."""

from dataclasses import replace

import torch

from lobal.core.dataset import LabelledSet
from lobal.experts.interface import Experts
from lobal.mixture.adam.objective import mixture_squared_error
from lobal.mixture.adam.responses import FixedResponses, Responses, SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import Trainer
from lobal.mixture.data import TrainingData
from lobal.mixture.gate import SoftmaxGate
from lobal.mixture.model import FittedMixture, Mixture
from lobal.mixture.progress import Progress
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import Start

# The default gate bandwidth in units of the global expert's: the gate varies more slowly than the function. On 11 data
# sets 2 was mostly better than 15, except for few labels in many columns; 3 itself was not tried.
GATE_WIDTH = 3.0


def fit_by_adam(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture with a softmax gate."""
    settings, training = start.settings, adam_settings(start.settings)
    responses: Responses
    if settings.exact:
        experts = start.exact_experts(data.points, start.hyperparameters, settings.bandwidths)
        responses = FixedResponses(data.points, validation_labels(data), experts, data.gate_set)
    else:
        responses = sparse_responses(data, start)
    gate_features = start.gate_features(responses.points, gate_width(start, settings))
    gate = SoftmaxGate.uniform(gate_features, n_experts=len(settings.bandwidths), scale=training.gate_scale)
    trained = Trainer(responses, gate, training, start.generator).run(progress)
    return FittedMixture(
        Mixture(
            experts=_final_experts(responses, trained, data, start),
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


def sparse_responses(data: TrainingData, start: Start) -> SparseResponses:
    """Trainable sparse experts on inducing points of their own, and the points in random order."""
    points, settings = data.for_training(), start.settings
    points = points[torch.randperm(len(points), generator=start.generator).to(points.y.device)]
    inducing = start.inducing_points(points, settings.n_inducing, start.shared_bandwidth)
    return SparseResponses(
        points,
        validation_labels(data),
        start.features_at(inducing, settings.bandwidths),
        start.hyperparameters,
        covariance=adam_settings(settings).covariance,
        cache_bytes=settings.cache_bytes,
        is_shuffled=True,
    )


def validation_labels(data: TrainingData) -> LabelledSet:
    """The validation labels, which Adam needs."""
    if data.validation is None:
        raise ValueError("the Adam engine needs validation labels, got none; pass some, or use the analytic engine")
    return data.validation


def _final_experts(responses: Responses, gate: SoftmaxGate, data: TrainingData, start: Start) -> Experts:
    """The experts to predict with: as trained, conditioned once more, or exact ones in their place."""
    trained, settings = responses.experts(), start.settings
    if settings.exchange or (settings.refit and settings.exact):
        return start.exact_experts(data.for_final_fit(), trained.hyperparameters, settings.bandwidths)
    if not (settings.refit and isinstance(responses, SparseResponses)):
        return trained
    refitted = responses.refit(gate, with_validation=not data.keep_validation)
    if not data.keep_validation:
        return refitted
    # Validation can still tell which inducing values are better; the posterior covariance is kept either way.
    validation = validation_labels(data)
    weights = gate(validation.X)
    candidates = refitted, responses.experts()
    errors = [mixture_squared_error(weights, each.mean(validation.X), validation).item() for each in candidates]
    return replace(refitted, whitened_mean=candidates[errors.index(min(errors))].whitened_mean)
