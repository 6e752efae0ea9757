"""The analytic engine on exact experts: the gate learns from their leave-one-out predictions."""

from dataclasses import replace
from functools import partial

import torch

from lobal.core.kernels import scale_inputs
from lobal.experts.exact import neighbourhoods
from lobal.experts.leave_one_out import exact_leave_one_out, leave_one_out_among_neighbours
from lobal.mixture.analytic.gate_choice import best_gate, best_gate_features, measures
from lobal.mixture.analytic.preparation import Plan, extended_ladder, first_plan
from lobal.mixture.analytic.training import fit_gate, updated_noise, utilities
from lobal.mixture.data import TrainingData
from lobal.mixture.ladder import CHANGES, in_use
from lobal.mixture.model import FittedMixture, Mixture
from lobal.mixture.progress import Progress
from lobal.mixture.start import Start

# The most labels in a neighbourhood of the pilot, which costs O(L n NEIGHBOURS^2).
NEIGHBOURS = 512


def fit_exact(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture of exact experts.

    They cost O(L n^3) and are fitted only once: bandwidths and noise come from a pilot.
    """
    plan, gates = first_plan(data, start)
    if start.settings.pilot:
        plan = _pilot(plan, start)
    points, bandwidths, hyperparameters, gate_features, training = plan
    experts = start.exact_experts(points, hyperparameters, bandwidths)
    predictions = exact_leave_one_out(experts)
    if start.settings.pilot:
        utility = utilities(predictions, points.y, training)
        gate_features = best_gate_features(gates, points, utility, training, start.generator)
    else:
        training = replace(training, compared=False)
    trained = best_gate(gate_features, points, predictions, hyperparameters, training)
    if progress is not None:
        progress(trained.as_epoch(0))
    shared = start.shared_bandwidth
    mixture = Mixture(experts=experts, gate=trained.gate, bandwidths=bandwidths, shared_bandwidth=shared)
    return FittedMixture(mixture, trained.residual, measure=trained.measure)


def _pilot(plan: Plan, start: Start) -> Plan:
    """A plan with the bandwidths in use, with or without the price of leverage, and the noise, from neighbourhoods.

    The noise is updated once: without noise, further updates converge slowly to experts that are too certain.
    """
    points, longer, hyperparameters, gate_features, training = plan
    phi = gate_features(points.X)[0]
    groups = neighbourhoods(scale_inputs(points.X, start.shared_bandwidth), NEIGHBOURS)
    for _ in range(CHANGES):
        bandwidths = longer
        fitted = partial(start.exact_experts, bandwidths=bandwidths)
        predictions = leave_one_out_among_neighbours(points, hyperparameters, groups, fitted)
        both = measures(training)[:2]  # with the price of leverage and without
        fits = [fit_gate(gate_features, phi, points, predictions, hyperparameters, measure) for measure in both]
        shares = torch.stack([fit.shares for fit in fits]).amax(dim=0)
        longer = extended_ladder(bandwidths, shares, points, start)
        if len(longer) == len(bandwidths):
            break
    if points.noise is None:
        everything = torch.ones_like(predictions.mean)  # is explained by as many inducing points as labels
        noise = updated_noise(hyperparameters, everything, predictions, points, fits[0].gate.at_features(phi))
        hyperparameters = hyperparameters._replace(noise=noise)
    used = in_use(bandwidths, shares) if start.settings.adaptive else bandwidths
    return plan._replace(bandwidths=used, hyperparameters=hyperparameters)
