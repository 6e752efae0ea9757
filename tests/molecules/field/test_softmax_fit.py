from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal.core.files import load_record, save_record
from lobal.molecules.field.forcefield import ForceField, errors_on, unseen
from lobal.molecules.field.gate_labels import GateSet
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_gate import SoftmaxMolecularGate
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.field.training import fit_force_field, train
from lobal.molecules.geometry.trajectory import Trajectory
from tests.molecules.setting import water

OPTIONS = SoftmaxGateOptions(max_epochs=20, batch_size=16, sparsity=3)
SETTINGS = ForceFieldSettings(
    anisotropy=None, bandwidths=(0.125, 0.25, 0.5, 1.0), gate_inducing=15, softmax_gate=OPTIONS
)
LEARNED, FURTHER = water(30), water(60, seed=3)


def fitted(
    settings: ForceFieldSettings = SETTINGS,
    *,
    learned: Trajectory = LEARNED,
    gate_set: GateSet | None = None,
    **options: Any,
) -> ForceField:
    generator = torch.Generator().manual_seed(0)
    return fit_force_field(learned, settings, gate_set=gate_set, generator=generator, **options)


APART, LEFT_OUT = fitted(gate_set=GateSet(FURTHER)), fitted()
SPARSE = fitted(replace(SETTINGS, inducing=15), gate_set=GateSet(FURTHER))
FORCES = fitted(replace(SETTINGS, labels="forces"), gate_set=GateSet(replace(FURTHER, energies=None)))
ENERGIES = fitted(replace(SETTINGS, labels="energies"), gate_set=GateSet(replace(FURTHER, forces=None)))
NAMES = ["gate set", "left out", "sparse", "forces", "energies"]
every_field = pytest.mark.parametrize("field", [APART, LEFT_OUT, SPARSE, FORCES, ENERGIES], ids=NAMES)


@every_field
def test_forces_are_minus_the_slope_of_the_energy(field: ForceField) -> None:
    R, step = water(1, seed=1).R, 1e-5
    moved = torch.zeros(9, 3, 3, dtype=torch.float64).view(9, 9).fill_diagonal_(step).view(9, 3, 3)
    slope = (field.predict(R + moved).energies - field.predict(R - moved).energies) / (2.0 * step)
    np.testing.assert_allclose(field.predict(R).forces.flatten(), -slope, rtol=1e-4, atol=1e-3)


@every_field
def test_energies_are_those_of_the_molecule_turned_and_numbered_otherwise(field: ForceField) -> None:
    R = water(4, seed=1).R
    energies = field.predict(R).energies
    np.testing.assert_allclose(field.predict(R[:, [0, 2, 1]]).energies, energies, rtol=1e-9)
    np.testing.assert_allclose(field.predict(R.flip(2) + 2.0).energies, energies, rtol=1e-9)
    np.testing.assert_allclose(field.local_bandwidth(R[:, [0, 2, 1]]), field.local_bandwidth(R), rtol=1e-9)


@every_field
def test_a_saved_force_field_predicts_the_same(field: ForceField, tmp_path: Path) -> None:
    field.save(tmp_path / "water.lobal")
    loaded, R = ForceField.load(tmp_path / "water.lobal"), water(4, seed=1).R
    for ours, expected in zip(loaded.predict(R), field.predict(R), strict=True):
        np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(loaded.local_bandwidth(R), field.local_bandwidth(R))
    assert isinstance(loaded.gate, SoftmaxMolecularGate)
    assert (loaded.gate.kappa, loaded.about) == (3, field.about)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [("gate.kappa", torch.tensor([5])), ("gate.means", torch.zeros(3)), ("gate.whitened_mean", torch.zeros(4, 3))],
)
def test_damaged_gates_are_refused(name: str, tensor: torch.Tensor, tmp_path: Path) -> None:
    APART.save(tmp_path / "water.lobal")
    tensors, fields = load_record(tmp_path / "water.lobal")
    changed = tensor.to(torch.float64) if tensor.is_floating_point() else tensor
    save_record(tmp_path / "damaged", tensors | {name: changed}, fields)
    with pytest.raises(ValueError, match=rf"is not a force field that lobal saved: {name} must"):
        ForceField.load(tmp_path / "damaged")


def test_it_predicts_better_than_its_experts() -> None:
    new = water(100, seed=1)
    mixed = errors_on(APART, new).force_rmse
    assert mixed is not None
    assert all(mixed < (errors_on(APART.expert(number), new).force_rmse or 0.0) for number in range(4))


def test_configurations_of_the_gate_set_have_been_learned_from() -> None:
    known = replace(FURTHER, R=torch.cat([LEARNED.R, FURTHER.R]), energies=None, forces=None, number=None)
    assert APART.has_learned_from(known.R).all()
    assert not LEFT_OUT.has_learned_from(FURTHER.R).any()
    assert len(unseen(APART, water(5, seed=9))) == 5
    assert (APART.about["gate_labels"], LEFT_OUT.about["gate_labels"]) == (60, 0)


def test_mu_and_lambda_are_trained_with_a_gate_set_and_dense_experts_only() -> None:
    for field, is_joint in ((APART, True), (LEFT_OUT, False), (SPARSE, False)):
        assert ("log_scale_moved" in field.about) == is_joint
    assert APART.about["mean_moved"] != 0.0
    assert APART.constants[0] - LEFT_OUT.constants[0] == pytest.approx(APART.about["mean_moved"])
    still = replace(OPTIONS, hyperparameter_rate=0.0)
    fixed = fitted(replace(SETTINGS, softmax_gate=still), gate_set=GateSet(FURTHER))
    torch.testing.assert_close(fixed.weights, LEFT_OUT.weights, rtol=1e-6, atol=1e-9)


def test_importance_weights_reach_the_gate_and_only_their_ratios_count() -> None:
    R, weight = water(5, seed=1).R, torch.linspace(0.0, 1.0, 60, dtype=torch.float64)
    plain, weighted, doubled = (
        fitted(gate_set=GateSet(FURTHER, each)).local_bandwidth(R) for each in (None, weight, 2.0 * weight)
    )
    np.testing.assert_allclose(doubled, weighted, rtol=1e-6)
    assert np.abs(plain / weighted - 1.0).max() > 1e-4
    learned = fitted(weight=torch.linspace(0.0, 1.0, 30, dtype=torch.float64)).local_bandwidth(R)
    assert np.abs(learned / LEFT_OUT.local_bandwidth(R) - 1.0).max() > 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": torch.ones(29)}, r"one number for each of 30 configurations, .* got shape \(29,\)"),
        ({"weight": torch.zeros(30)}, "not negative and not all zero"),
        ({"weight": (torch.arange(30) < 5).double()}, "at least 8 configurations of positive weight, got 5"),
        ({"weight": torch.ones(30), "gate_set": GateSet(FURTHER)}, "leave weight out"),
        (
            {"gate_set": GateSet(FURTHER.at(slice(7)))},
            "a gate needs at least 8 configurations of positive weight, got 7",
        ),
        ({"gate_set": GateSet(replace(FURTHER, energies=None))}, "energies are needed as labels"),
    ],
)
def test_gate_labels_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(**options)


@pytest.mark.parametrize("options", [{"weight": torch.ones(30)}, {"gate_set": GateSet(FURTHER)}])
def test_the_ordinal_gate_takes_none(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is for the paper's gate; set softmax_gate=SoftmaxGateOptions\(\)"):
        fitted(replace(SETTINGS, softmax_gate=None), **options)


def test_training_draws_the_gate_set_beside_the_others() -> None:
    field, errors = train(water(120), SETTINGS, n=30, validation=20, gate_labels=40)
    assert (field.about["gate_labels"], field.about["configurations"], len(field.positions)) == (40, 30, 30)
    assert errors.force_rmse is not None
    few, _ = train(water(60), SETTINGS, n=40, validation=12, gate_labels=100)
    assert few.about["gate_labels"] == 8  # all there are
    for n in (41, 48):  # seven are too few for a gate
        none, _ = train(water(60), SETTINGS, n=n, validation=12, gate_labels=100)
        assert none.about["gate_labels"] == 0


def test_numbers_of_gate_labels_without_a_use_are_refused() -> None:
    with pytest.raises(ValueError, match="gate_labels must be a whole number, at least 0, got -10"):
        train(water(60), SETTINGS, n=40, validation=12, gate_labels=-10)
    with pytest.raises(ValueError, match="gate_labels=10 needs the paper's gate"):
        train(water(60), replace(SETTINGS, softmax_gate=None), n=48, validation=12, gate_labels=10)


def test_the_preset_equals_its_options_spelt_out() -> None:
    small = {"anisotropy": None, "gate_inducing": 12}
    preset = ForceFieldSettings(preset="paper", **small)
    assert preset.softmax_gate == SoftmaxGateOptions()
    spelt_out = ForceFieldSettings(
        labels="both",
        kernel="gaussian",
        mixture=True,
        inducing=None,
        bandwidths=tuple(2.0 ** (-1.25 + 0.5 * j) for j in range(1, 9)),
        noise=1e-9,
        anisotropy=None,
        anisotropy_size=128,
        anisotropy_loss="mse",
        gate_inducing=12,
        softmax_gate=SoftmaxGateOptions(
            sparsity=8,
            penalty=0.01,
            width=0.1,
            scale=1e4,
            batch_size=1024,
            learning_rate=0.005,
            hyperparameter_rate=0.05,
            gate_rate=0.1,
            gate_noise=0.01,
        ),
    )
    assert {**asdict(preset), "preset": None} == asdict(spelt_out)
    ours, theirs = (fitted(each, learned=LEARNED.at(slice(12))) for each in (preset, spelt_out))
    np.testing.assert_array_equal(ours.predict(FURTHER.R).forces, theirs.predict(FURTHER.R).forces)
