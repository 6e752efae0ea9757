from dataclasses import replace
from typing import Any

import pytest
import torch

from lobal.molecules.field.expert import ForceExperts, dense_experts
from lobal.molecules.field.gate import GateFeatures
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.radial import gaussian
from lobal.molecules.field.softmax_gate import SoftmaxMolecularGate
from lobal.molecules.geometry.descriptor import describe
from tests.molecules.setting import GROUP, labelled, problem, random_molecules, rotation

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-7}
SPREAD = torch.full((6,), 0.5, dtype=torch.float64)
KERNEL = MolecularKernel(radial=gaussian, shared_bandwidth=SPREAD, permutations=GROUP)
LADDER = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)

every_kappa = pytest.mark.parametrize("kappa", [1, 2, 4])


def some_experts(generator: torch.Generator) -> ForceExperts:
    data = labelled(random_molecules(generator, 12))
    return dense_experts(problem(data, kernel=KERNEL, bandwidths=LADDER, parameters=(7.0, 10.0, 1e-6)))


def some_gate(generator: torch.Generator, kappa: int = 4) -> SoftmaxMolecularGate:
    """A gate whose channels differ by some units from one configuration to another."""
    points = describe(random_molecules(generator, 6)).values
    features = GateFeatures(points=points, width=points.new_tensor(0.2), permutations=GROUP)
    means, b = (torch.randn(4, *size, dtype=torch.float64, generator=generator) for size in ((), (6,)))
    return SoftmaxMolecularGate(
        features=features, scale=points.new_tensor(30.0), means=means, whitened_mean=b, kappa=kappa
    )


@every_kappa
def test_weights_sum_to_one_and_at_most_kappa_experts_have_some(kappa: int, generator: torch.Generator) -> None:
    weights = some_gate(generator, kappa).at(describe(random_molecules(generator, 50)))
    torch.testing.assert_close(weights.sum(1), torch.ones(50, dtype=torch.float64))
    assert (weights >= 0.0).all()
    assert ((weights > 0.0).sum(1) == kappa).all()
    assert len(weights.argmax(1).unique()) > 1


def test_no_configurations_have_no_weights(generator: torch.Generator) -> None:
    geometry = describe(random_molecules(generator, 1))
    assert some_gate(generator).at(geometry.at(slice(0))).shape == (0, 4)


def test_a_gate_does_not_see_how_a_molecule_lies_or_is_numbered(generator: torch.Generator) -> None:
    experts, gate, R = some_experts(generator), some_gate(generator), random_molecules(generator, 5)
    (energies, forces), weights = gate.mixed(experts.predictor, experts.constants, describe(R))
    turn = rotation(generator)
    for permutation in GROUP:
        moved = describe((R @ turn + 3.0)[:, permutation])
        (same, turned), their_weights = gate.mixed(experts.predictor, experts.constants, moved)
        torch.testing.assert_close(their_weights, weights, **CLOSE)
        torch.testing.assert_close(same, energies, **CLOSE)
        torch.testing.assert_close(turned, (forces @ turn)[:, :, permutation], rtol=1e-5, atol=1e-6)


@every_kappa
def test_forces_of_a_mixture_are_minus_the_slope_of_its_energy(kappa: int, generator: torch.Generator) -> None:
    experts, gate, R = some_experts(generator), some_gate(generator, kappa), random_molecules(generator, 3)
    (energies, forces), weights = gate.mixed(experts.predictor, experts.constants, describe(R))
    step = 1e-5 * torch.randn(3, 4, 3, dtype=torch.float64, generator=generator)
    above, below = (
        gate.mixed(experts.predictor, experts.constants, describe(R + sign * step))[0].energies for sign in (1, -1)
    )
    torch.testing.assert_close((above - below)[0], -2.0 * (forces[0] * step).sum((1, 2)), rtol=1e-4, atol=1e-10)
    each = experts.predict(R)
    torch.testing.assert_close(energies[0], (weights.mT * each.energies).sum(0))
    alone = torch.einsum("nl,lnac->nac", weights, each.forces)
    assert torch.allclose(forces[0], alone) == (kappa == 1)  # the paper's forces, which conserve no energy


def test_features_of_forces_are_minus_the_slopes_of_those_of_energies(generator: torch.Generator) -> None:
    features, data = some_gate(generator).features, labelled(random_molecules(generator, 3))
    moves = problem(data).directions.moves
    phi = features.along(moves)
    torch.testing.assert_close(phi[:, 0], features(data.geometry.values))
    change = 1e-6 * moves.jacobians[2]
    slope = (features(moves.values + change) - features(moves.values - change)) / 2e-6
    torch.testing.assert_close(phi[:, 3], -slope, rtol=1e-5, atol=1e-7)


def test_a_gate_can_be_moved(generator: torch.Generator) -> None:
    gate, geometry = some_gate(generator), describe(random_molecules(generator, 4))
    torch.testing.assert_close(gate.to(torch.device("cpu")).at(geometry), gate.at(geometry))
    assert torch.equal(replace(gate, kappa=1).at(geometry).argmax(1), gate.at(geometry).argmax(1))
