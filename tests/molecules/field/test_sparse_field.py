"""Force fields of sparse experts: fitted, saved, loaded, evaluated and trained from the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal.core.files import load_record, save_record
from lobal.molecules.field import sparse as module
from lobal.molecules.field.evaluation import errors_on, unseen
from lobal.molecules.field.fitting import FieldSettings, fit_force_field
from lobal.molecules.field.forcefield import ForceField, fingerprints
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.mixture import GateSettings
from lobal.molecules.field.training import Training, train
from lobal.molecules.geometry.trajectory import Trajectory
from tests.molecules.setting import water

SETTINGS = FieldSettings(anisotropic=False, bandwidths=(0.25, 0.5, 1.0), sparse=15, gate=GateSettings(inducing=10))
SINGLE = replace(SETTINGS, mixture=False)


ALL = water(60)
LEARNED = ALL.at(slice(40))


def fitted(settings: FieldSettings, learned: Trajectory = LEARNED) -> ForceField:
    return fit_force_field(learned, settings, generator=torch.Generator().manual_seed(0))


MIXTURE, FIELD = fitted(SETTINGS), fitted(SINGLE)
both_fields = pytest.mark.parametrize("field", [FIELD, MIXTURE], ids=["one expert", "mixture"])


@both_fields
def test_inducing_configurations_alone_are_kept(field: ForceField) -> None:
    learned = {row.numpy().tobytes() for row in LEARNED.R}
    assert field.positions.shape == (15, 3, 3)
    assert {row.numpy().tobytes() for row in field.positions} <= learned
    assert field.weights.shape == (len(field.bandwidths), 15 * 10)
    assert (field.about["configurations"], field.about["inducing"]) == (40, 15)


@pytest.mark.parametrize("labels", list(Labels))
def test_with_every_configuration_inducing_it_is_the_dense_force_field(
    labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "JITTER", 0.0)
    settings, R = replace(SINGLE, labels=labels.name, noise=1e-4), water(5, seed=1).R
    ours, dense = fitted(replace(settings, sparse=1000)), fitted(replace(settings, sparse=None))
    assert ours.about["inducing"] == 40
    assert ours.about["bandwidth"] == dense.about["bandwidth"]
    for part, expected in zip(ours.predict(R), dense.predict(R), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-3, atol=1e-4)


def test_all_labels_count_and_not_those_of_inducing_configurations_alone() -> None:
    rows = torch.isin(fingerprints(LEARNED.R), fingerprints(FIELD.positions))
    few = fitted(replace(SINGLE, sparse=None), LEARNED.at(rows.nonzero()[:, 0]))
    ours, without = (errors_on(field, water(100, seed=1)).force_rmse for field in (FIELD, few))
    assert ours is not None
    assert without is not None
    assert ours < 0.8 * without


@both_fields
def test_forces_are_minus_the_slope_of_the_energy(field: ForceField) -> None:
    R, generator = water(3, seed=1).R, torch.Generator().manual_seed(1)
    move = 1e-5 * torch.randn(3, 3, 3, dtype=torch.float64, generator=generator)
    change = field.predict(R + move).energies - field.predict(R - move).energies
    np.testing.assert_allclose(change, -2.0 * (field.predict(R).forces * move.numpy()).sum((1, 2)), rtol=1e-3)


@both_fields
def test_what_is_saved_says_the_same(field: ForceField, tmp_path: Path) -> None:
    field.save(tmp_path / "water.lobal")
    loaded, R = ForceField.load(tmp_path / "water.lobal"), water(5, seed=1).R
    for ours, expected in zip(loaded.predict(R), field.predict(R), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert (loaded.gate is None) == (field.gate is None)
    assert loaded.about == field.about
    assert len(unseen(loaded, ALL)) == 60 - 40


def test_the_best_expert_alone_is_that_of_the_mixture() -> None:
    number, R = MIXTURE.about["best_expert"], water(4, seed=1).R
    assert FIELD.about["bandwidth"] == SETTINGS.bandwidths[number]
    for ours, expected in zip(FIELD.predict(R), MIXTURE.expert(number).predict(R), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-10)


def test_everything_learned_from_is_left_out() -> None:
    assert len(unseen(FIELD, ALL)) == 20
    assert len(unseen(MIXTURE.expert(0), ALL)) == 20
    with pytest.raises(ValueError, match="has learned from all 40 configurations of water"):
        unseen(FIELD, LEARNED)


def test_files_from_before_are_read(tmp_path: Path) -> None:
    """They know of no fingerprints: what was learned from is at the positions in them."""
    FIELD.save(tmp_path / "water.lobal")
    tensors, fields = load_record(tmp_path / "water.lobal")
    del tensors["learned"]
    save_record(tmp_path / "before.lobal", tensors, fields)
    before, R = ForceField.load(tmp_path / "before.lobal"), water(5, seed=1).R
    np.testing.assert_array_equal(before.predict(R).forces, FIELD.predict(R).forces)
    assert len(unseen(before, ALL)) == 60 - 15


def test_fingerprints_tell_configurations_apart() -> None:
    R = water(50).R
    assert len(fingerprints(R).unique()) == 50
    assert torch.equal(fingerprints(R[:, None].transpose(1, 2)[:, :, 0]), fingerprints(R))  # however they lie in memory
    assert fingerprints(R[:0]).shape == (0,)
    assert not torch.isin(fingerprints(R + 1e-12), fingerprints(R)).any()


def test_repeated_configurations_are_no_obstacle() -> None:
    once = water(20)
    field = fitted(replace(SINGLE, sparse=30), once.at(torch.arange(40) % 20))
    assert (field.about["configurations"], field.about["inducing"]) == (40, 20)


@pytest.mark.parametrize("mixture", [False, True])
def test_training_makes_them_on_request(mixture: bool) -> None:
    field, errors = train(water(100), Training(n=60, validation=20, inducing=20, mixture=mixture))
    assert (field.about["configurations"], field.about["inducing"], len(field.positions)) == (60, 20, 20)
    assert field.about["labels"] == "FORCES"
    assert (field.gate is not None) == mixture
    assert errors.force_rmse is not None
    assert errors.force_rmse < 0.05


def test_forces_and_energies_alone_are_learned_from() -> None:
    field, errors = train(replace(water(60), energies=None), Training(n=40, validation=10, inducing=15))
    assert (field.about["labels"], field.labels) == ("FORCES", Labels.BOTH)
    assert errors.energy_rmse is None
    field, errors = train(replace(water(60), forces=None), Training(n=40, validation=10, inducing=15))
    assert field.about["labels"] == "ENERGIES"
    assert errors.energy_rmse is not None
    assert errors.energy_rmse < 0.1


@pytest.mark.parametrize("wrong", [0, -3])
def test_no_inducing_configurations_are_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 inducing configuration, got {wrong}"):
        FieldSettings(sparse=wrong)
    with pytest.raises(ValueError, match=f"inducing must be at least 1 configuration, got {wrong}"):
        Training(inducing=wrong)


def test_the_calculator_takes_them(tmp_path: Path) -> None:
    ase = pytest.importorskip("ase", reason="ASE is not installed")
    from lobal.molecules.field.calculator import ForceFieldCalculator

    MIXTURE.save(tmp_path / "water.lobal")
    atoms: Any = ase.Atoms([8, 1, 1], water(1, seed=3).R[0].numpy())
    atoms.calc = ForceFieldCalculator(tmp_path / "water.lobal")
    assert atoms.get_potential_energy() == MIXTURE.predict(atoms.positions[None]).energies[0]
    assert "local_bandwidth" in atoms.calc.results
