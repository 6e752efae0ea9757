from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.experts.interface import Hyperparameters
from lobal.mixture.analytic.ordinal import Channel
from lobal.mixture.model import Mixture
from lobal.molecules.field.expert import Ladder, molecular_experts
from lobal.molecules.field.gate import GateFeatures, MolecularGate, smooth_weights
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.mixture import GateSettings, Misses, fit_gate, fit_mixture, misses_at
from lobal.molecules.field.radial import gaussian
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import closure
from tests.molecules.setting import pair_potential, random_molecules, rotation

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-7}
GROUP = closure(torch.tensor([[1, 2, 0, 3], [1, 0, 2, 3]]))
KERNEL = MolecularKernel(radial=gaussian, shared=torch.full((6,), 0.5, dtype=torch.float64), permutations=GROUP)
SIGMAS = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
PARAMETERS = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (7.0, 10.0, 1e-6)))
LADDER = Ladder(kernel=KERNEL, bandwidths=SIGMAS, labels=Labels.BOTH)


def labelled(R: Tensor) -> LabelledMolecules:
    energies, forces = pair_potential(R)
    return LabelledMolecules.at(R, energies=energies, forces=forces)


def some_gate(generator: torch.Generator, *, n_experts: int = 4, scale: float = 4.0) -> MolecularGate:
    """A gate whose position goes up and down the ladder."""
    points = describe(random_molecules(generator, 6)).values
    features = GateFeatures.at(points, width=points.new_tensor(0.2), permutations=GROUP)
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
    expected = gate(R.flatten(1))
    torch.testing.assert_close(gate((R @ rotation(generator) + 3.0).flatten(1)), expected, **CLOSE)
    for permutation in GROUP:
        torch.testing.assert_close(gate(R[:, permutation].flatten(1)), expected, **CLOSE)


def test_slopes_of_a_gate_are_its_derivatives(generator: torch.Generator) -> None:
    gate, R = some_gate(generator), random_molecules(generator, 3)
    weights, slope = gate.with_slopes(describe(R))
    torch.testing.assert_close(weights.value, gate(R.flatten(1)))
    step = 1e-6 * torch.randn(3, 4, 3, dtype=torch.float64, generator=generator)
    change = gate((R + step).flatten(1)) - gate((R - step).flatten(1))
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
    mixture = fit_mixture(labelled(random_molecules(generator, 12)), LADDER, PARAMETERS, generator=generator)
    mixture = type(mixture)(experts=mixture.experts, gate=some_gate(generator), misses=mixture.misses)
    R = random_molecules(generator, 3)
    energies, forces = mixture.predict(describe(R))
    step = 1e-5 * torch.randn(3, 4, 3, dtype=torch.float64, generator=generator)
    change = mixture.predict(describe(R + step)).energies - mixture.predict(describe(R - step)).energies
    torch.testing.assert_close(change[0], -2.0 * (forces[0] * step).sum((1, 2)), rtol=1e-4, atol=1e-10)
    each, weights = mixture.experts.predict(R).energies, mixture.gate(R.flatten(1))
    torch.testing.assert_close(energies[0], (weights.mT * each).sum(0))


@pytest.mark.parametrize("labels", list(Labels))
def test_what_is_missed_is_what_experts_without_the_configuration_miss(
    labels: Labels, generator: torch.Generator
) -> None:
    R = random_molecules(generator, 8)
    ladder = Ladder(kernel=KERNEL, bandwidths=SIGMAS, labels=labels)
    ours = fit_mixture(labelled(R), ladder, PARAMETERS, generator=generator).misses
    without = molecular_experts(labelled(R[1:]), ladder, PARAMETERS)
    for part, expected in zip(ours, misses_at(without, labelled(R[:1]), labels), strict=True):
        assert (part is None) == (expected is None)
        if part is not None:
            torch.testing.assert_close(part[:, :1], expected, rtol=1e-5, atol=1e-6)


def test_losses_are_relative_to_the_best_expert() -> None:
    energies = torch.tensor([[1.0, 1.0], [3.0, 3.0]], dtype=torch.float64)
    forces = torch.tensor([[4.0, 0.0], [2.0, 2.0]], dtype=torch.float64)[..., None].expand(2, 2, 3)
    misses = Misses(energies, forces)
    units = misses.units()
    assert units == [1.0, 4.0]
    expected = torch.tensor([[0.25 + 0.75 * 4.0, 0.25], [3.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(misses.losses(units), expected)
    torch.testing.assert_close(Misses(energies, None).losses(units), energies.square())
    torch.testing.assert_close(Misses(None, forces).losses(units), forces[..., 0].square() / 4.0)
    torch.testing.assert_close(misses.at(torch.tensor([1])).losses(units), expected[:, 1:])


def test_what_a_gate_misses_is_what_its_mixture_misses(generator: torch.Generator) -> None:
    mixture = fit_mixture(labelled(random_molecules(generator, 12)), LADDER, PARAMETERS, generator=generator)
    gate, data = some_gate(generator), labelled(random_molecules(generator, 5))
    energies, forces = type(mixture)(experts=mixture.experts, gate=gate, misses=mixture.misses).predict(data.geometry)
    weights, slope = gate.with_slopes(data.geometry)
    ours = misses_at(mixture.experts, data, Labels.BOTH).under(weights, slope.flatten(1))
    assert data.energies is not None
    assert data.forces is not None
    torch.testing.assert_close(ours, Misses(energies - data.energies, (forces - data.forces).flatten(2)))


def test_a_gate_finds_where_experts_are_right(generator: torch.Generator) -> None:
    """Two experts, each right on one side of a distance."""
    R = random_molecules(generator, 200)
    geometry = describe(R)
    side = (geometry.values - geometry.values.median(0).values) @ geometry.values.std(0)
    right = (side > 0.0).to(torch.float64)
    energies = torch.stack([right, 1.0 - right]) + 0.1
    gate = fit_gate(
        Misses(energies, None), geometry, torch.arange(4)[None], GateSettings(inducing=50), generator=generator
    )
    weights = gate(R.flatten(1))
    assert (weights[:, 1] - right).abs().mean() < 0.25
    single = fit_gate(Misses(energies[:1], None), geometry, GROUP, GateSettings(inducing=50), generator=generator)
    torch.testing.assert_close(single(R.flatten(1)), torch.ones(200, 1, dtype=torch.float64))


def test_a_gate_set_takes_the_place_of_leaving_out(generator: torch.Generator) -> None:
    data, gate_set = labelled(random_molecules(generator, 10)), labelled(random_molecules(generator, 15))
    mixture = fit_mixture(data, LADDER, PARAMETERS, gate_set=gate_set, generator=generator)
    expected = misses_at(mixture.experts, gate_set, Labels.BOTH)
    torch.testing.assert_close(tuple(mixture.misses), tuple(expected))
    assert len(mixture.gate.features.points) <= 15


def test_a_gate_needs_some_configurations(generator: torch.Generator) -> None:
    data = labelled(random_molecules(generator, 7))
    with pytest.raises(ValueError, match="a gate is fitted to 8 configurations at least, got 7"):
        fit_mixture(data, LADDER, PARAMETERS, generator=generator)


@pytest.mark.parametrize("with_gate_set", [False, True])
def test_sparse_experts_are_mixed_like_dense_ones(with_gate_set: bool, generator: torch.Generator) -> None:
    data = labelled(random_molecules(generator, 12))
    gate_set = labelled(random_molecules(generator, 9)) if with_gate_set else None
    dense, sparse = (
        fit_mixture(
            data,
            LADDER,
            PARAMETERS,
            inducing=inducing,
            gate_set=gate_set,
            generator=torch.Generator().manual_seed(0),
        )
        for inducing in (None, data.geometry)
    )
    new = describe(random_molecules(generator, 4))
    for ours, expected in zip(sparse.predict(new), dense.predict(new), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-2, atol=1e-2)


def test_the_mixture_of_rows_of_numbers_takes_molecules_too(generator: torch.Generator) -> None:
    """Experts and gate have the interfaces that `lobal.mixture` knows, and nothing there knows about atoms."""
    fitted = fit_mixture(labelled(random_molecules(generator, 12)), LADDER, PARAMETERS, generator=generator)
    mixture = Mixture(experts=fitted.experts, gate=fitted.gate, bandwidths=SIGMAS, shared=KERNEL.shared)
    R = random_molecules(generator, 4)
    torch.testing.assert_close(mixture.mean(R.flatten(1)), fitted.predict(describe(R)).energies[0])
    bandwidth = mixture.local_bandwidth(R.flatten(1))
    assert ((bandwidth >= SIGMAS[0] - 1e-12) & (bandwidth <= SIGMAS[-1] + 1e-12)).all()
