"""The analytic engine on sparse experts."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.features import StoredFeatures
from lobal.experts.interface import Experts
from lobal.experts.leave_one_out import condition, sparse_leave_one_out
from lobal.experts.svgp import FullCovariance, SparseExperts
from lobal.mixture.analytic.gate_choice import best_gate_features, squared_if_clearly_better
from lobal.mixture.analytic.preparation import Plan, extended_ladder, first_plan
from lobal.mixture.analytic.training import Trained, train, utilities
from lobal.mixture.data import TrainingData
from lobal.mixture.gate import Gate
from lobal.mixture.ladder import CHANGES, trimmed
from lobal.mixture.model import FittedMixture, Mixture
from lobal.mixture.progress import Progress
from lobal.mixture.start import Start, with_known_noise

# The pilot's points: one in so many, but not fewer than a training needs to find the bandwidths.
PILOT_SHARE = 4
SMALLEST_PILOT = 512
# Inducing points are denser where the pilot's bandwidth is small: sigma^-d times as dense as the inputs. Bandwidths in
# many columns are uncertain, so d is at most MOST_COLUMNS, and the logarithm of the factor is bounded.
MOST_COLUMNS = 2
LARGEST_LOG_DENSITY = 3.0


def fit_sparse(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture of sparse experts."""
    plan, gates = first_plan(data, start)
    settings = start.settings
    if settings.pilot and (settings.adaptive or len(gates) > 1):
        plan = _pilot(plan, gates, start, progress)
    stored, trained = _train(plan, settings.n_inducing, start, progress)
    bandwidths = stored.features.bandwidths
    if settings.exchange:
        experts: Experts = start.exact_experts(data.for_final_fit(), trained.hyperparameters, bandwidths)
    else:
        weights = trained.gate(plan.points.X) if settings.refit else None
        factor, mean = condition(stored, plan.points, trained.hyperparameters, weights)
        experts = SparseExperts(
            features=stored.features,
            hyperparameters=trained.hyperparameters,
            whitened_mean=mean,
            covariance=FullCovariance.best(factor),
        )
    shared = start.shared_bandwidth
    mixture = Mixture(experts=experts, gate=trained.gate, bandwidths=bandwidths, shared_bandwidth=shared)
    return FittedMixture(mixture, trained.residual, measure=trained.measure)


def _pilot(plan: Plan, gates: list[WhitenedFeatures], start: Start, progress: Progress | None) -> Plan:
    """A better plan, from a training on a subset of the points with half the inducing points, 1/16 of the work.

    It finds the ladder of bandwidths, the gate's bandwidth, the initial noise, how to compare experts and, unless the
    points have weights for that, where the inducing points should lie.
    """
    points, generator = plan.points, start.generator
    n_few = max(len(points) // PILOT_SHARE, min(len(points), SMALLEST_PILOT))
    few = points[torch.randperm(len(points), generator=generator)[:n_few].to(points.y.device)]
    small = plan._replace(points=few, hyperparameters=with_known_noise(start.hyperparameters, few))
    stored, trained = _train(small, max(start.settings.n_inducing // 2, 1), start, progress)
    if start.settings.adaptive:
        plan = plan._replace(bandwidths=trimmed(stored.features.bandwidths, trained.shares))
    if points.noise is None:
        plan = plan._replace(hyperparameters=trained.hyperparameters)
    conditioned = condition(stored, few, trained.hyperparameters)
    predictions = sparse_leave_one_out(stored, few, trained.hyperparameters, conditioned)
    training = squared_if_clearly_better(plan.gate, few, predictions, plan.training)
    utility = trained.utility if training is plan.training else utilities(predictions, few.y, training)
    gate = best_gate_features(gates, few, utility, training, generator)
    if points.spread is None:
        weight = inducing_weight(trained.gate, stored.features.bandwidths, points.X)
        plan = plan._replace(points=replace(points, spread=weight))
    return plan._replace(gate=gate, training=training)


def inducing_weight(gate: Gate, bandwidths: Bandwidths, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """The wanted density of inducing points at the inputs over that of the inputs, from the local bandwidths."""
    log_bandwidth = gate(X) @ bandwidths.log()
    log_density = -min(X.shape[1], MOST_COLUMNS) * (log_bandwidth - log_bandwidth.mean())
    return log_density.clamp(-LARGEST_LOG_DENSITY, LARGEST_LOG_DENSITY).exp()


def _train(plan: Plan, n_inducing: int, start: Start, progress: Progress | None) -> tuple[StoredFeatures, Trained]:
    """Place inducing points and train; as long as an end of the ladder is in use, extend it and train again."""
    points, bandwidths, hyperparameters, gate_features, training = plan
    inducing = start.inducing_points(points, n_inducing, start.shared_bandwidth)
    for _ in range(CHANGES):
        stored = StoredFeatures(start.features_at(inducing, bandwidths), points.X, start.settings.cache_bytes)
        trained = train(stored, points, gate_features, hyperparameters, training, progress)
        # A bandwidth too small for the inducing points explains nothing, which is no reason to try a smaller one.
        resolved = (trained.gate(points.X).mT * stored.explained).mean(dim=1)
        longer = extended_ladder(bandwidths, resolved, points, start)
        if len(longer) == len(bandwidths):
            break
        bandwidths, hyperparameters = longer, trained.hyperparameters
    return stored, trained
