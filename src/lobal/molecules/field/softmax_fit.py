"""A mixture of force fields with the paper's gate: experts in closed form, and what the gate learns from.

With a gate set of further labels and dense experts, mu and lambda of the experts are trained with the gate: predictions
are linear in mu, and taken to first order in log lambda, which moves by a fraction at the paper's rates. Experts are
then conditioned on all labels once more. Sparse experts, and leave-one-out predictions, keep theirs, and the gate is
trained alone. Sigma_E and the ladder stay as they are, as in the paper, and so does the noise, as labels have none.
"""

import logging
import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.expert import (
    ForceExperts,
    Tangents,
    dense_experts_and_left_out,
    dense_experts_and_tangents,
    factored_experts,
)
from lobal.molecules.field.gate import GateFeatures
from lobal.molecules.field.gate_labels import GateLabels
from lobal.molecules.field.kernel import energies_at
from lobal.molecules.field.labels import LabelledMolecules
from lobal.molecules.field.mixture import FEWEST, Residuals
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_gate import SoftmaxMolecularGate
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.field.softmax_training import GateData, TrainedGate, trained_gate
from lobal.molecules.field.sparse import sparse_experts_and_left_out
from lobal.molecules.geometry.clustering import inducing_rows, number_distinct
from lobal.molecules.geometry.descriptor import Geometry

logger = logging.getLogger(__name__)

# Configurations that the gate's inducing ones are chosen from, at most: four for each of the paper's 1024.
MOST_CLUSTERED = 4096


class SoftmaxFit(NamedTuple):
    """Experts, their gate, and how they were learned."""

    experts: ForceExperts
    gate: SoftmaxMolecularGate
    about: dict[str, Any]


def fit_softmax_mixture(
    problem: Problem,
    inducing: Geometry | None,
    gate_labels: GateLabels,
    settings: ForceFieldSettings,
    *,
    generator: torch.Generator,
) -> SoftmaxFit:
    """Experts of all bandwidths, dense or through inducing configurations, and the gate between them.

    The gate learns from leave-one-out predictions if its labels are those of the problem.

    Raises:
        ValueError: there are too few configurations for a gate.
        DivergedError: the training diverged.
    """
    options = settings.softmax_gate
    assert options is not None
    if (number := int(gate_labels.weight.count_nonzero())) < FEWEST:
        raise ValueError(
            f"a gate needs at least {FEWEST} configurations of positive weight, got {number}; fit without a mixture"
        )
    is_apart = gate_labels.data is not problem.data
    tangents: Tangents | None = None
    if inducing is not None:
        experts, left_out = sparse_experts_and_left_out(problem, inducing)
    elif is_apart and options.hyperparameter_rate > 0.0:
        experts, tangents = dense_experts_and_tangents(problem)
    elif is_apart:
        experts = factored_experts(problem)
    else:
        experts, left_out = dense_experts_and_left_out(problem)
    predicted = _predicted(experts, problem, gate_labels.data) if is_apart else left_out
    features = _features(gate_labels.data.geometry, problem, options, settings.gate_inducing, generator)
    data, units = _gate_data(problem, gate_labels, predicted, tangents, features)
    del predicted
    logger.info("training the gate on %d configurations", number)
    trained = trained_gate(data, options.training(), generator=generator)
    about: dict[str, Any] = {"best_expert": data.residuals.best_expert(), "gate_labels": number if is_apart else 0}
    about |= {"gate_epochs": trained.epochs, "gate_loss": trained.validation_loss}
    if tangents is not None:
        experts, moved = _conditioned_again(problem, trained, units)
        about |= moved
    return SoftmaxFit(experts, _gate(features, trained, options), about)


def _features(
    geometry: Geometry, problem: Problem, options: SoftmaxGateOptions, m: int, generator: torch.Generator
) -> GateFeatures:
    """At inducing configurations by symmetrised distributional clustering, on the CPU."""
    permutations = problem.kernel.permutations
    values = geometry.values[
        torch.randperm(len(geometry.values), generator=generator)[:MOST_CLUSTERED].to(geometry.values.device)
    ]
    group = permutations.cpu()
    number = number_distinct(values.cpu(), group, most=m)
    points = values[inducing_rows(values.cpu(), number, group, generator=generator).to(values.device)]
    return GateFeatures(points=points, width=points.new_tensor(options.width), permutations=permutations)


def _predicted(experts: ForceExperts, problem: Problem, data: LabelledMolecules) -> Float[Tensor, "L n w"]:
    """The labels of configurations, in the order of `Labels`."""
    energies, forces = experts.predictor.at(data.geometry)
    columns = [(energies + experts.constants[:, None])[..., None]] if problem.labels.energies else []
    return torch.cat([*columns, forces.flatten(2)] if problem.labels.forces else columns, dim=2)


def _gate_data(
    problem: Problem,
    gate_labels: GateLabels,
    predicted: Float[Tensor, "L n w"],
    tangents: Tangents | None,
    features: GateFeatures,
) -> tuple[GateData, dict[str, float]]:
    """Features and residuals along directions, and the units of the hyperparameters that are trained."""
    data, labels = gate_labels.data, problem.labels
    directions = ShapeDirections.of(data.geometry, labels)
    e, zero = int(labels.energies), torch.zeros_like(predicted[0, 0, 0])
    known = data.residual(labels, zero)

    def along(values: Float[Tensor, "L n w"]) -> Residuals:
        reduced = torch.stack([directions.reduced(each) for each in values])
        return Residuals(reduced[..., 0] if labels.energies else None, reduced[..., e:] if labels.forces else None)

    units = _units(problem, tangents)
    kinds = {} if tangents is None else tangents._asdict()
    slopes = [along(unit * _predicted(kinds[name], problem, data)) for name, unit in units.items()]
    moves = directions.moves if labels.energies else energies_at(data.geometry.values)
    gate_data = GateData(
        phi=features.along(moves), residuals=along(predicted - known), slopes=slopes, weight=gate_labels.weight
    )
    return gate_data, units


def _units(problem: Problem, tangents: Tangents | None) -> dict[str, float]:
    """Units of the hyperparameters that are trained: of mu, the deviation of the energies, and one of log lambda."""
    if tangents is None:
        return {}
    energies = problem.data.energies
    deviation = {} if tangents.mean is None or energies is None else {"mean": energies.std(correction=0).item()}
    return deviation | {"log_scale": 1.0}


def _conditioned_again(
    problem: Problem, trained: TrainedGate, units: dict[str, float]
) -> tuple[ForceExperts, dict[str, float]]:
    """Experts at the trained mu and lambda, and by how much these have moved."""
    steps = zip(units.items(), trained.parameters.hyperparameters.tolist(), strict=True)
    moved = {name: unit * step for (name, unit), step in steps}
    mean, log_scale = moved.get("mean", 0.0), moved["log_scale"]
    hyperparameters = problem.hyperparameters
    changed = hyperparameters._replace(
        mean=hyperparameters.mean + mean, scale=hyperparameters.scale * math.exp(log_scale)
    )
    logger.info("conditioning the experts: mu moved by %.2g eV, lambda by a factor of %.3g", mean, math.exp(log_scale))
    experts = factored_experts(replace(problem, hyperparameters=changed))
    return experts, {f"{name}_moved": step for name, step in moved.items()}


def _gate(features: GateFeatures, trained: TrainedGate, options: SoftmaxGateOptions) -> SoftmaxMolecularGate:
    parameters = trained.parameters
    return SoftmaxMolecularGate(
        features=features,
        scale=parameters.means.new_tensor(options.scale),
        means=parameters.means,
        whitened_mean=parameters.whitened_mean,
        kappa=min(options.sparsity, len(parameters.means)),
    )
