import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import DivergedError
from lobal.molecules.field.expert import dense_experts_and_tangents, factored_experts
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.mixture import Residuals
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.field.softmax_training import GateData, mixture_residuals, trained_gate
from tests.molecules.field.test_softmax_gate import KERNEL, LADDER, some_experts, some_gate
from tests.molecules.setting import every_label, labelled, problem, random_molecules

QUICK = SoftmaxGateOptions(max_epochs=60, batch_size=64, gate_rate=1.0).training()


def two_experts(generator: torch.Generator, n: int = 200) -> GateData:
    """Energies alone; each of two experts is right where one of two features is large."""
    side = (torch.arange(n) % 2).to(torch.float64)
    phi = torch.stack([side, 1.0 - side], dim=1)[:, None]
    energies = torch.stack([side, 1.0 - side]) + 0.1 * torch.randn(2, n, dtype=torch.float64, generator=generator)
    return GateData(phi=phi, residuals=Residuals(energies, None), slopes=[], weight=torch.ones_like(side))


def gate_of(data: GateData, training: AdamSettings = QUICK) -> Tensor:
    trained = trained_gate(data, training, generator=torch.Generator().manual_seed(0)).parameters
    channels = trained.means + training.gate_scale**0.5 * data.phi[:, 0] @ trained.whitened_mean.mT
    return channels.softmax(1)


def test_the_gate_finds_where_experts_are_right(generator: torch.Generator) -> None:
    data = two_experts(generator)
    gate = gate_of(data)
    assert (gate[:, 0] - (1.0 - data.phi[:, 0, 0])).abs().mean() < 0.15
    trained = trained_gate(data, QUICK, generator=torch.Generator().manual_seed(0))
    assert 0 < trained.epochs <= QUICK.max_epochs
    assert trained.validation_loss < 0.3  # the experts alone have one


def test_the_penalty_prefers_large_bandwidths(generator: torch.Generator) -> None:
    data = two_experts(generator)
    shares = [gate_of(data, replace(QUICK, penalty=penalty))[:, 1].mean().item() for penalty in (0.0, 0.3, 10.0)]
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.9


def test_weights_decide_and_only_their_ratios_count(generator: torch.Generator) -> None:
    data = two_experts(generator)
    same = replace(data, phi=torch.ones_like(data.phi))  # the gate cannot tell configurations apart
    side = data.phi[:, 0, 0]
    ours = [gate_of(replace(same, weight=1.0 + ratio * side))[0, 1].item() for ratio in (0.0, 4.0)]
    assert ours[1] > ours[0] + 0.1  # the second expert is right where the weight is
    doubled = gate_of(replace(same, weight=2.0 * (1.0 + 4.0 * side)))[0, 1].item()
    assert doubled == pytest.approx(ours[1], rel=1e-6)


def test_configurations_of_weight_zero_do_not_count(generator: torch.Generator) -> None:
    data = two_experts(generator)
    wrong = torch.where(data.phi[:, 0, 0] > 0.0, 100.0, data.residuals.energies)
    weight = 1.0 - data.phi[:, 0, 0]
    gates = [gate_of(replace(data, residuals=Residuals(energies, None), weight=weight))[0] for energies in
             (data.residuals.energies, wrong)]  # fmt: skip
    torch.testing.assert_close(*gates)


def test_few_configurations_have_a_weight(generator: torch.Generator) -> None:
    """As many batches and a validation set of no weight have no mean loss."""
    data = two_experts(generator)
    weight = (torch.arange(200) < 20).to(torch.float64)
    trained = trained_gate(replace(data, weight=weight), replace(QUICK, batch_size=8), generator=generator)
    assert 0.0 < trained.validation_loss < 1.0


@every_label
def test_residuals_under_the_gate_are_those_of_its_mixture(labels: Labels, generator: torch.Generator) -> None:
    """As predicted, with the term of the gate's slope in the forces; without energies that is left out."""
    experts, gate, data = some_experts(generator), some_gate(generator), labelled(random_molecules(generator, 5))
    directions = problem(data).directions
    (energies, forces), weights = gate.mixed(experts.predictor, experts.constants, data.geometry)
    each = experts.predictor.at(data.geometry)
    assert data.energies is not None
    assert data.forces is not None
    reduced = torch.stack(
        [directions.reduced(torch.cat([e[:, None], f.flatten(1)], 1)) for e, f in zip(*each, strict=True)]
    )
    known = directions.reduced(data.residual(Labels.BOTH, experts.constants[0]))
    off = reduced - known
    residuals = Residuals(off[..., 0] if labels.energies else None, off[..., 1:] if labels.forces else None)
    channels = gate.scale.sqrt() * gate.features.along(directions.moves) @ gate.whitened_mean.mT
    found = mixture_residuals(residuals, weights, channels[:, 1:])
    missed = directions.reduced(
        torch.cat([(energies[0] - data.energies)[:, None], (forces[0] - data.forces).flatten(1)], 1)
    )
    if found.energies is not None:
        torch.testing.assert_close(found.energies[0], missed[:, 0])
    if found.forces is not None:
        assert torch.allclose(found.forces[0], missed[:, 1:]) == labels.energies


def test_tangents_are_derivatives_by_mu_and_log_lambda(generator: torch.Generator) -> None:
    data, at = labelled(random_molecules(generator, 12)), random_molecules(generator, 3)
    given = problem(data, kernel=KERNEL, bandwidths=LADDER, parameters=(7.0, 10.0, 1e-3))
    experts, tangents = dense_experts_and_tangents(given)
    assert tangents.mean is not None
    mu, scale, _ = given.hyperparameters
    for tangent, step, changes, atol in (
        (tangents.mean, 0.5, [{"mean": mu + sign * 0.5} for sign in (1, -1)], 1e-8),  # linear
        (tangents.log_scale, 0.02, [{"scale": scale * math.exp(sign * 0.02)} for sign in (1, -1)], 1e-5),
    ):
        there = [replace(given, hyperparameters=given.hyperparameters._replace(**change)) for change in changes]
        above, below = (factored_experts(each).predict(at) for each in there)
        for high, low, slope in zip(above, below, tangent.predict(at), strict=True):
            torch.testing.assert_close((high - low) / (2.0 * step), slope, rtol=2e-3, atol=atol)
    torch.testing.assert_close(experts.predict(at), factored_experts(given).predict(at))


def test_hyperparameters_are_trained_with_the_gate(generator: torch.Generator) -> None:
    """Both experts miss all energies by the same, which one step of a hyperparameter takes away."""
    data = two_experts(generator)
    ones = torch.ones_like(data.residuals.energies)
    moved = replace(data, residuals=Residuals(data.residuals.energies + 0.2, None), slopes=[Residuals(ones, None)])
    trained = trained_gate(moved, replace(QUICK, hyperparameter_rate=1.0), generator=torch.Generator().manual_seed(0))
    assert trained.parameters.hyperparameters.item() == pytest.approx(-0.2, abs=0.1)
    fixed = trained_gate(moved, replace(QUICK, hyperparameter_rate=0.0), generator=torch.Generator().manual_seed(0))
    assert fixed.parameters.hyperparameters.item() == 0.0


def test_training_that_diverges_is_an_error(generator: torch.Generator) -> None:
    data = two_experts(generator)
    broken = replace(data, residuals=Residuals(torch.full_like(data.residuals.energies, torch.nan), None))
    with pytest.raises(DivergedError, match=r"lower learning_rate, now 0\.005"):
        trained_gate(broken, QUICK, generator=generator)
