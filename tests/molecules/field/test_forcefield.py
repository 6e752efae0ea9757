from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lobal.core.files import load_record, save_record
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.training import Training, train
from tests.molecules.setting import water

FIELDS = {labels: train(water(60), Training(n=20, validation=10, labels=labels)).force_field for labels in Labels}
FIELD = FIELDS[Labels.BOTH]


def test_predictions_are_arrays_of_energies_and_forces() -> None:
    R = water(4, seed=1).R
    energies, forces = FIELD.predict(R)
    assert (energies.shape, str(energies.dtype)) == ((4,), "float64")
    assert (forces.shape, str(forces.dtype)) == ((4, 3, 3), "float64")
    np.testing.assert_array_equal(FIELD.predict(R.numpy()).energies, energies)
    np.testing.assert_allclose(FIELD.predict(R.tolist()).forces, forces)


@pytest.mark.parametrize("labels", list(Labels))
def test_forces_are_minus_the_slope_of_the_energy(labels: Labels) -> None:
    R, step = water(1, seed=1).R, 1e-5
    _, forces = FIELDS[labels].predict(R)
    moved = torch.zeros(9, 3, 3, dtype=torch.float64).view(9, 9).fill_diagonal_(step).view(9, 3, 3)
    slope = (FIELDS[labels].predict(R + moved).energies - FIELDS[labels].predict(R - moved).energies) / (2.0 * step)
    np.testing.assert_allclose(forces.flatten(), -slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("labels", list(Labels))
def test_a_saved_force_field_says_the_same(labels: Labels, tmp_path: Path) -> None:
    FIELDS[labels].save(tmp_path / "water.lobal")
    loaded = ForceField.load(tmp_path / "water.lobal")
    for ours, expected in zip(loaded.predict(water(4).R), FIELDS[labels].predict(water(4).R), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert loaded.about == FIELDS[labels].about
    assert loaded.labels is labels


def test_files_are_small(tmp_path: Path) -> None:
    FIELD.save(tmp_path / "water.lobal")
    assert (tmp_path / "water.lobal").stat().st_size < 20 * (9 + 10) * 8 + 4096


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a force field, but long enough for a header")
    with pytest.raises(ValueError, match="is not a file that lobal saved"):
        ForceField.load(tmp_path / "text")
    save_record(tmp_path / "model", {"bandwidths": torch.ones(2)}, {"gate": {"kind": "ordinal"}})
    with pytest.raises(ValueError, match="is a file of lobal's, but no force field"):
        ForceField.load(tmp_path / "model")


@pytest.mark.parametrize("changed", [{"version": 2}, {"gate": "other"}])
def test_files_of_a_newer_lobal_are_refused(changed: dict[str, object], tmp_path: Path) -> None:
    FIELD.save(tmp_path / "water.lobal")
    tensors, fields = load_record(tmp_path / "water.lobal")
    save_record(tmp_path / "newer", tensors, fields | changed)
    with pytest.raises(ValueError, match=r"is a force field of version \d, .*; install a newer lobal"):
        ForceField.load(tmp_path / "newer")


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3, 2), (9,)])
def test_positions_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"positions must have shape \(n, 3, 3\), got"):
        FIELD.predict(np.ones(shape))


def test_several_experts_need_a_gate() -> None:
    with pytest.raises(ValueError, match="a force field without a gate has one expert, got 2"):
        replace(
            FIELD,
            bandwidths=FIELD.bandwidths.repeat(2),
            weights=FIELD.weights.repeat(2, 1),
            constants=FIELD.constants.repeat(2),
        )
