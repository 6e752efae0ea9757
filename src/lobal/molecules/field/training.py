"""From labelled configurations to a force field: symmetries, Sigma_E, experts of several bandwidths, a gate."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import resolve_device
from lobal.core.checks import whole_number
from lobal.molecules.density import intrinsic_dimension
from lobal.molecules.field.anisotropy import isotropic_bandwidth, trained_bandwidth
from lobal.molecules.field.expert import ForceExperts, dense_experts_and_left_out
from lobal.molecules.field.forcefield import Errors, ForceField, errors_on, fingerprints
from lobal.molecules.field.gate import ForceGate
from lobal.molecules.field.gate_labels import GateLabels, GateSet, check_gate_labels, labels_of_gate
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.mixture import FEWEST, Residuals, fit_gate
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.radial import radial_kernel_named
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_fit import fit_softmax_mixture
from lobal.molecules.field.sparse import sparse_experts_and_left_out
from lobal.molecules.field.trials import FEW, NOISE, Choice, best_choice, fitted_expert, validation_trials
from lobal.molecules.geometry.clustering import inducing_rows, number_distinct
from lobal.molecules.geometry.descriptor import Geometry
from lobal.molecules.geometry.permutations import Permutations, symmetrised_bandwidth
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory, set_apart

logger = logging.getLogger(__name__)

FEWEST_CONFIGURATIONS = 10  # to learn from and to validate with


def train(
    trajectory: Trajectory,
    settings: ForceFieldSettings,
    *,
    n: int = 500,
    validation: int = 200,
    seed: int = 0,
    gate_labels: int = 0,
) -> tuple[ForceField, Errors]:
    """A force field from configurations drawn at random, and its errors at others.

    Args:
        trajectory: configurations with energies, forces or both.
        settings: how the force field is learned.
        n: configurations to learn from, if there are as many.
        validation: configurations to choose bandwidth and noise by, at most a fifth of all.
        seed: of everything random.
        gate_labels: further configurations for the paper's gate (`settings.softmax_gate`), if there are as many; with
            0, or where fewer than 8 are left, it learns from leave-one-out predictions of the others.

    Raises:
        ValueError: there are too few configurations, not the labels that the settings ask for, or the gate has no use
            for further ones.
    """
    whole_number("gate_labels", gate_labels, least=0)
    if gate_labels > 0 and settings.softmax_gate is None:
        raise ValueError(f"gate_labels={gate_labels} needs the paper's gate: softmax_gate=SoftmaxGateOptions()")
    learned, held_out = split(trajectory, n=n + gate_labels, validation=validation, seed=seed)
    gate_set = GateSet(learned.at(slice(n, None))) if len(learned) - n >= FEWEST else None
    learned, generator = learned.at(slice(n)), torch.Generator().manual_seed(seed)
    force_field = fit_force_field(learned, settings, validation=held_out, gate_set=gate_set, generator=generator)
    errors = errors_on(force_field, held_out)
    about = {"validation": len(held_out), "seed": seed, "errors": errors._asdict()}
    return replace(force_field, about=force_field.about | about), errors


def split(trajectory: Trajectory, *, n: int, validation: int, seed: int) -> tuple[Trajectory, Trajectory]:
    """Configurations to learn from and to validate with, at random, from different trajectories if there are several.

    Exact copies of the former are left out of the latter: they would favour the smallest bandwidth.
    """
    if len(trajectory) < FEWEST_CONFIGURATIONS:
        raise ValueError(
            f"need at least {FEWEST_CONFIGURATIONS} configurations, got {len(trajectory)} in {trajectory.source}"
        )
    if min(n, validation) < 2:
        raise ValueError(f"n and validation must be at least 2 configurations, got {n} and {validation}")
    most = min(validation, len(trajectory) // 5)
    apart = set_apart(trajectory, most, generator=torch.Generator().manual_seed(seed))
    order = torch.randperm(len(trajectory), generator=torch.Generator().manual_seed(seed))
    learned, held_out = order[~apart[order]][:n], order[apart[order]][:most]
    held_out = held_out[~torch.isin(*(fingerprints(trajectory.R[rows]) for rows in (held_out, learned)))]
    if len(held_out) == 0:
        raise ValueError(
            f"all {most} validation configurations of {trajectory.source} are copies of those to learn from; "
            "remove duplicates"
        )
    return trajectory.at(learned), trajectory.at(held_out)


def fit_force_field(
    learned: Trajectory,
    settings: ForceFieldSettings,
    *,
    shared_bandwidth: Float[Tensor, " D"] | None = None,
    permutations: Permutations | None = None,
    validation: Trajectory | None = None,
    gate_set: GateSet | None = None,
    weight: Float[Tensor, " n"] | None = None,
    generator: torch.Generator,
) -> ForceField:
    """A force field given all labels of the configurations.

    Args:
        learned: configurations with the labels that the settings ask for.
        settings: how the force field is learned.
        shared_bandwidth: Sigma_E, where it is known already.
        permutations: the symmetries, where they are known already.
        validation: configurations by which a single dense expert has its bandwidth and noise, and others their noise
            where labels are not exact; without any the settings say.
        gate_set: further configurations for the paper's gate; without any it learns from leave-one-out predictions.
        weight: q / p, importance weights of the configurations learned from, for the paper's gate without a gate set.
        generator: source of everything random.

    Raises:
        ValueError: there are too few configurations, or not the labels that the settings ask for.
    """
    check_gate_labels(settings, gate_set, weight)
    data = learned.labelled(resolve_device(settings.device))
    default = Labels.ENERGIES if data.forces is None else Labels.FORCES
    labels = default if settings.labels is None else Labels.named(settings.labels)
    if permutations is None:
        logger.info("looking for symmetries of %d configurations", len(learned))
        permutations = permutation_group(learned.R, learned.species)
    permutations = permutations.to(data.geometry.values.device)
    radial = radial_kernel_named(settings.kernel)
    if shared_bandwidth is None and settings.anisotropy is None:
        shared_bandwidth = isotropic_bandwidth(data.geometry.values, permutations)
    elif shared_bandwidth is None:
        shared_bandwidth = _trained_bandwidth(data, labels, permutations, settings, generator)
    Sigma = shared_bandwidth.to(data.geometry.values)
    kernel = MolecularKernel(radial=radial, shared_bandwidth=Sigma, permutations=permutations)
    choice = None if validation is None else _choice(data, labels, kernel, settings, validation)
    logger.info("learning from %d configurations", len(learned))
    if choice is not None and not settings.mixture and settings.inducing is None:
        about = {"noise": choice.noise, "bandwidth": choice.bandwidth}
        fit = _Fit(fitted_expert(kernel, data, labels, choice), about)
    else:
        noise = settings.noise if choice is None or choice.noise <= NOISE else choice.noise
        problem = Problem.of(data, labels, kernel, Sigma.new_tensor(settings.bandwidths), noise=noise)
        if settings.softmax_gate is None:
            fit = _fitted_ladder(problem, settings, {"noise": noise}, generator)
        else:
            fit = _fitted_softmax(
                problem, labels_of_gate(data, gate_set, weight), settings, {"noise": noise}, generator
            )
    known = None if fit.rows is None and gate_set is None else learned.R
    if gate_set is not None:
        known = torch.cat([learned.R, gate_set.trajectory.R])
    R, dimension = learned.R.to(Sigma.device), intrinsic_dimension(data.geometry.values, permutations)
    common = {"source": Path(learned.source).name, "configurations": len(learned), "symmetries": len(permutations)}
    return ForceField(
        species=learned.species.to(Sigma.device),
        kernel=kernel,
        bandwidths=fit.experts.predictor.bandwidths,
        labels=fit.experts.labels,
        positions=R if fit.rows is None else R[fit.rows],
        weights=fit.experts.weights,
        constants=fit.experts.constants,
        about=common | {"labels": labels.name, "dimension": dimension} | fit.about,
        gate=fit.gate,
        learned=None if known is None else fingerprints(known),
    )


def _trained_bandwidth(
    data: LabelledMolecules,
    labels: Labels,
    permutations: Permutations,
    settings: ForceFieldSettings,
    generator: torch.Generator,
) -> Float[Tensor, " D"]:
    """Sigma_E as the settings ask for it."""
    logger.info("training the bandwidths of all pairs of atoms")
    return trained_bandwidth(
        data,
        radial_kernel_named(settings.kernel),
        permutations,
        labels=labels,
        generator=generator,
        m=settings.anisotropy_size,
        folds=settings.anisotropy_folds,
        tied=settings.anisotropy == "tied",
        loss=settings.anisotropy_loss,
    )


class _Fit(NamedTuple):
    """Experts, and how they were learned."""

    experts: ForceExperts
    about: dict[str, Any]
    gate: ForceGate | None = None
    rows: Int[Tensor, " m"] | None = None  # of the configurations that they predict with; none for all


def _choice(
    data: LabelledMolecules,
    labels: Labels,
    kernel: MolecularKernel,
    settings: ForceFieldSettings,
    validation: Trajectory,
) -> Choice:
    """Bandwidth and noise of a single dense expert, by validation."""
    n, m = len(data.geometry.values), settings.inducing
    trials = validation_trials(kernel, labels, data, validation.labelled(data.geometry.values.device))
    # Sparse experts are for more configurations than trials, which are dense, should learn from.
    return best_choice(trials, n if m is None else min(n, 4 * max(FEW, m)))


def _fitted_ladder(
    problem: Problem, settings: ForceFieldSettings, about: dict[str, Any], generator: torch.Generator
) -> _Fit:
    """Experts of all bandwidths, dense or sparse: a mixture, or the one of least leave-one-out error."""
    geometry, kernel, rows = problem.data.geometry, problem.kernel, None
    if settings.inducing is None:
        experts, left_out = dense_experts_and_left_out(problem)
    else:
        rows = spread_out(geometry, settings.inducing, kernel, generator=generator)
        about["inducing"] = len(rows)
        experts, left_out = sparse_experts_and_left_out(problem, geometry.at(rows))
    residuals = Residuals.of(left_out, problem.data, problem.labels)
    best = residuals.best_expert()
    about |= {"bandwidths": list(settings.bandwidths), "best_expert": best}
    if not settings.mixture:
        return _Fit(experts.only(best), about | {"bandwidth": settings.bandwidths[best]}, None, rows)
    logger.info("fitting the gate to %d configurations", len(geometry.values))
    gate = fit_gate(residuals, geometry, kernel.permutations, settings, generator=generator)
    return _Fit(experts, _about_gate(about, gate, geometry), gate, rows)


def _fitted_softmax(
    problem: Problem,
    gate_labels: GateLabels,
    settings: ForceFieldSettings,
    about: dict[str, Any],
    generator: torch.Generator,
) -> _Fit:
    """Experts of all bandwidths with the paper's gate."""
    geometry, rows = problem.data.geometry, None
    if settings.inducing is not None:
        rows = spread_out(geometry, settings.inducing, problem.kernel, generator=generator)
        about["inducing"] = len(rows)
    inducing = None if rows is None else geometry.at(rows)
    experts, gate, found = fit_softmax_mixture(problem, inducing, gate_labels, settings, generator=generator)
    about |= found | {"bandwidths": list(settings.bandwidths)}
    return _Fit(experts, _about_gate(about, gate, geometry), gate, rows)


def _about_gate(about: dict[str, Any], gate: ForceGate, geometry: Geometry) -> dict[str, Any]:
    """With width, lambda_G and the experts' shares of the configurations."""
    shares = gate.at(geometry).mean(0).tolist()
    return about | {"gate_width": gate.features.width.item(), "gate_scale": gate.scale.item(), "shares": shares}


def spread_out(geometry: Geometry, m: int, kernel: MolecularKernel, *, generator: torch.Generator) -> Int[Tensor, " m"]:
    """The rows of m inducing configurations, by distances in units of Sigma_E; of all distinct ones if there are fewer.

    Like the gate, too small for a GPU to be of use, and done on the CPU.
    """
    permutations = kernel.permutations.cpu()
    values = geometry.values.cpu() / symmetrised_bandwidth(kernel.shared_bandwidth.cpu(), permutations)
    number = number_distinct(values, permutations, most=m)
    return inducing_rows(values, number, permutations, generator=generator).to(geometry.values.device)
