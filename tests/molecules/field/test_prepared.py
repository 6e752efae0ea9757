"""What dynamics computes at every step equals what the force field predicts."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.prepared import PreparedForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.descriptor import describe
from tests.molecules.setting import water

CLOSE: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-7}  # weights of 10^6 eV cancel
SMALL: dict[str, Any] = {"anisotropy": None, "bandwidths": (0.25, 0.5, 1.0), "gate_inducing": 8}
FIELDS: dict[str, dict[str, Any]] = {
    "one expert": {"mixture": False, "labels": "forces"},
    "energies alone": {"mixture": False, "labels": "energies"},
    "another kernel": {"mixture": False, "kernel": "matern52"},
    "few configurations": {"mixture": False, "inducing": 6},
    "mixture": {},
    "softmax": {"softmax_gate": SoftmaxGateOptions(max_epochs=2)},
    "softmax of two": {"softmax_gate": SoftmaxGateOptions(max_epochs=2, sparsity=2)},
}


def fitted(shared_bandwidth: Tensor | None = None, **options: Any) -> ForceField:
    settings = ForceFieldSettings(**(SMALL | options))
    generator = torch.Generator().manual_seed(0)
    return fit_force_field(water(16), settings, shared_bandwidth=shared_bandwidth, generator=generator)


def assert_equal(field: ForceField, R: Tensor) -> None:
    prepared = PreparedForceField.of(field)
    energies, forces = prepared(R)
    expected = field.predict(R)
    torch.testing.assert_close(energies, torch.from_numpy(expected.energies), **CLOSE)
    torch.testing.assert_close(forces, torch.from_numpy(expected.forces), **CLOSE)
    torch.testing.assert_close(prepared(R[3:4])[1], forces[3:4], **CLOSE)


@pytest.mark.parametrize("options", FIELDS.values(), ids=FIELDS.keys())
def test_prepared_predictions_are_those_of_the_force_field(options: dict[str, Any]) -> None:
    assert_equal(fitted(**options), water(12, seed=1).R)


@pytest.mark.parametrize("mixture", [False, True])
def test_they_are_with_several_permuted_bandwidths_as_well(mixture: bool) -> None:
    field = fitted(torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64), mixture=mixture)
    assert len(field.kernel.scales().weights) == 2
    assert_equal(field, water(12, seed=1).R)


def test_configurations_with_several_pairs_of_experts_are_put_together_again() -> None:
    field, R = fitted(), water(40, seed=1).R
    assert field.gate is not None
    assert len((field.gate.at(describe(R)) > 0.0).int().argmax(1).unique()) == 2
    assert_equal(field, R)
    prepared = PreparedForceField.of(field)
    energies, forces = prepared(R)
    one_by_one = [prepared(each[None]) for each in R]
    torch.testing.assert_close(torch.cat([each[0] for each in one_by_one]), energies, **CLOSE)
    torch.testing.assert_close(torch.cat([each[1] for each in one_by_one]), forces, **CLOSE)


def test_positions_that_are_not_finite_or_coincide_have_no_numbers() -> None:
    prepared, R = PreparedForceField.of(fitted()), water(4).R
    R[1, 0, 0] = torch.nan
    R[2, 0] = R[2, 1]
    energies, forces = prepared(R)
    assert energies.isfinite().tolist() == forces.isfinite().all((1, 2)).tolist() == [True, False, False, True]
