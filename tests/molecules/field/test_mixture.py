from typing import Any

import pytest
import torch

from lobal.mixture.analytic.gate_fit import Channel
from lobal.molecules.field.expert import ForceExperts, dense_experts
from lobal.molecules.field.gate import GateFeatures, MolecularGate, smooth_weights
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import EnergiesForces, LabelledMolecules, Labels
from lobal.molecules.field.mixture import Residuals, fit_gate
from lobal.molecules.field.radial import gaussian
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.descriptor import Geometry, describe
from tests.molecules.setting import GROUP, labelled, problem, random_molecules, rotation

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-7}
SPREAD = torch.full((6,), 0.5, dtype=torch.float64)
KERNEL = MolecularKernel(radial=gaussian, shared_bandwidth=SPREAD, permutations=GROUP)
LADDER = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
SETTINGS = ForceFieldSettings(gate_inducing=50)


def some_experts(generator: torch.Generator) -> ForceExperts:
    data = labelled(random_molecules(generator, 12))
    return dense_experts(problem(data, kernel=KERNEL, bandwidths=LADDER, parameters=(7.0, 10.0, 1e-6)))


def predicted(experts: ForceExperts, gate: MolecularGate, geometry: Geometry) -> EnergiesForces:
    return gate.mixed(experts.predictor, experts.constants, geometry)[0]


def residuals_at(experts: ForceExperts, data: LabelledMolecules) -> Residuals:
    energies, forces = experts.predictor.at(data.geometry)
    rows = torch.cat([(energies + experts.constants[:, None])[..., None], forces.flatten(2)], dim=2)
    return Residuals.of(rows, data, Labels.BOTH)


def some_gate(generator: torch.Generator, *, n_experts: int = 4, scale: float = 4.0) -> MolecularGate:
    """A gate whose position goes up and down the ladder."""
    points = describe(random_molecules(generator, 6)).values
    features = GateFeatures(points=points, width=points.new_tensor(0.2), permutations=GROUP)
    b = torch.randn(6, dtype=torch.float64, generator=generator)
    channel = Channel(points.new_tensor(1.5), b)
    return MolecularGate(features=features, scale=points.new_tensor(scale), channel=channel, n_experts=n_experts)


def test_weights_interpolate_and_have_continuous_slopes() -> None:
    position = torch.linspace(-1.0, 4.0, 501, dtype=torch.float64)
    weights = smooth_weights(position, 4)
    torch.testing.assert_close(weights.value.sum(1), torch.ones(501, dtype=torch.float64))
    assert (weights.value >= 0.0).all()
    assert ((weights.value > 0.0).sum(1) <= 2).all()
    torch.testing.assert_close(smooth_weights(torch.arange(4.0), 4).value, torch.eye(4))
    differences = (weights.value[2:] - weights.value[:-2]) / (position[2:] - position[:-2])[:, None]
    torch.testing.assert_close(weights.slope[1:-1], differences, rtol=0.0, atol=0.04)  # curvature times the step
    assert (weights.slope[1:] - weights.slope[:-1]).abs().max() < 0.1


def test_a_gate_does_not_see_how_a_molecule_lies_or_is_numbered(generator: torch.Generator) -> None:
    gate, R = some_gate(generator), random_molecules(generator, 5)
    expected = gate.at(describe(R))
    torch.testing.assert_close(gate.at(describe(R @ rotation(generator) + 3.0)), expected, **CLOSE)
    for permutation in GROUP:
        torch.testing.assert_close(gate.at(describe(R[:, permutation])), expected, **CLOSE)


def test_slopes_of_a_gate_are_its_derivatives(generator: torch.Generator) -> None:
    gate, R = some_gate(generator), random_molecules(generator, 3)
    weights, slope = gate.with_slopes(describe(R))
    torch.testing.assert_close(weights.value, gate.at(describe(R)))
    step = 1e-6 * torch.randn(3, 4, 3, dtype=torch.float64, generator=generator)
    change = gate.at(describe(R + step)) - gate.at(describe(R - step))
    expected = 2.0 * weights.slope * (slope * step).sum((1, 2))[:, None]
    torch.testing.assert_close(change, expected, rtol=1e-4, atol=1e-11)


def test_features_reproduce_the_kernel_at_the_inducing_configurations(generator: torch.Generator) -> None:
    features = some_gate(generator).features
    phi = features(features.points)
    K = phi @ phi.mT
    assert (K.diagonal() >= 1.0 - 1e-9).all()
    permuted = describe(random_molecules(torch.Generator().manual_seed(1), 4)).values
    assert features(permuted).shape == (4, 6)


def test_forces_of_a_mixture_are_minus_the_slope_of_its_energy(generator: torch.Generator) -> None:
    experts, gate, R = some_experts(generator), some_gate(generator), random_molecules(generator, 3)
    energies, forces = predicted(experts, gate, describe(R))
    step = 1e-5 * torch.randn(3, 4, 3, dtype=torch.float64, generator=generator)
    above, below = (predicted(experts, gate, describe(R + sign * step)).energies for sign in (1, -1))
    torch.testing.assert_close((above - below)[0], -2.0 * (forces[0] * step).sum((1, 2)), rtol=1e-4, atol=1e-10)
    torch.testing.assert_close(energies[0], (gate.at(describe(R)).mT * experts.predict(R).energies).sum(0))


def test_losses_are_relative_to_the_best_expert() -> None:
    energies = torch.tensor([[1.0, 1.0], [3.0, 3.0]], dtype=torch.float64)
    forces = torch.tensor([[4.0, 0.0], [2.0, 2.0]], dtype=torch.float64)[..., None].expand(2, 2, 3)
    residuals = Residuals(energies, forces)
    units = residuals.units()
    assert units == [1.0, 4.0]
    expected = torch.tensor([[0.25 + 0.75 * 4.0, 0.25], [3.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(residuals.losses(units), expected)
    torch.testing.assert_close(Residuals(energies, None).losses(units), energies.square())
    torch.testing.assert_close(Residuals(None, forces).losses(units), forces[..., 0].square() / 4.0)
    torch.testing.assert_close(residuals.at(torch.tensor([False, True])).losses(units), expected[:, 1:])


def test_residuals_under_a_gate_are_those_of_its_mixture(generator: torch.Generator) -> None:
    experts, gate = some_experts(generator), some_gate(generator)
    data = labelled(random_molecules(generator, 5))
    energies, forces = predicted(experts, gate, data.geometry)
    weights, slope = gate.with_slopes(data.geometry)
    ours = residuals_at(experts, data).under(weights, slope.flatten(1))
    assert data.energies is not None
    assert data.forces is not None
    torch.testing.assert_close(ours, Residuals(energies - data.energies, (forces - data.forces).flatten(2)))


def test_a_gate_finds_where_experts_are_right(generator: torch.Generator) -> None:
    """Two experts, each right on one side of a distance."""
    geometry = describe(random_molecules(generator, 200))
    side = (geometry.values - geometry.values.median(0).values) @ geometry.values.std(0)
    right = (side > 0.0).to(torch.float64)
    energies = torch.stack([right, 1.0 - right]) + 0.1
    gate = fit_gate(Residuals(energies, None), geometry, torch.arange(4)[None], SETTINGS, generator=generator)
    assert (gate.at(geometry)[:, 1] - right).abs().mean() < 0.25
    single = fit_gate(Residuals(energies[:1], None), geometry, GROUP, SETTINGS, generator=generator)
    torch.testing.assert_close(single.at(geometry), torch.ones(200, 1, dtype=torch.float64))


def test_a_gate_needs_some_configurations(generator: torch.Generator) -> None:
    data = labelled(random_molecules(generator, 7))
    residuals = residuals_at(some_experts(generator), data)
    with pytest.raises(ValueError, match="a gate needs at least 8 configurations, got 7"):
        fit_gate(residuals, data.geometry, GROUP, SETTINGS, generator=generator)
