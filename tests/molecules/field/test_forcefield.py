from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lobal.core.files import load_record, save_record
from lobal.molecules.field.forcefield import ForceField, errors_on, fingerprints, unseen
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.trajectory import Trajectory
from tests.molecules.setting import water

SINGLE = ForceFieldSettings(anisotropy=None, mixture=False, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10)
ALL = water(60)


def fitted(settings: ForceFieldSettings, trajectory: Trajectory = ALL) -> ForceField:
    return fit_force_field(trajectory.at(slice(40)), settings, generator=torch.Generator().manual_seed(0))


SINGLES = [fitted(replace(SINGLE, labels=labels.name.lower())) for labels in Labels]
FIELD, MIXTURE = SINGLES[-1], fitted(replace(SINGLE, mixture=True))
SPARSE = fitted(replace(SINGLE, mixture=True, inducing=15))
# Without energies, experts have no zero of energy in common of their own.
FORCES = fitted(replace(SINGLE, mixture=True, labels="forces"), replace(ALL, energies=None))
every_field = pytest.mark.parametrize("field", [*SINGLES, MIXTURE, SPARSE, FORCES])


@every_field
def test_predictions_are_arrays_of_energies_and_forces(field: ForceField) -> None:
    R = water(4, seed=1).R
    energies, forces = field.predict(R)
    assert (energies.shape, str(energies.dtype)) == ((4,), "float64")
    assert (forces.shape, str(forces.dtype)) == ((4, 3, 3), "float64")
    np.testing.assert_array_equal(field.predict(R.numpy()).energies, energies)
    np.testing.assert_allclose(field.predict(R.tolist()).forces, forces)


@every_field
def test_forces_are_minus_the_slope_of_the_energy(field: ForceField) -> None:
    R, step = water(1, seed=1).R, 1e-5
    moved = torch.zeros(9, 3, 3, dtype=torch.float64).view(9, 9).fill_diagonal_(step).view(9, 3, 3)
    slope = (field.predict(R + moved).energies - field.predict(R - moved).energies) / (2.0 * step)
    np.testing.assert_allclose(field.predict(R).forces.flatten(), -slope, rtol=1e-4, atol=1e-3)


@every_field
def test_a_saved_force_field_predicts_the_same(field: ForceField, tmp_path: Path) -> None:
    field.save(tmp_path / "water.lobal")
    loaded, R = ForceField.load(tmp_path / "water.lobal"), water(4, seed=1).R
    for ours, expected in zip(loaded.predict(R), field.predict(R), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert (loaded.about, loaded.labels) == (field.about, field.labels)
    assert len(unseen(loaded, ALL)) == 20
    if field.gate is not None:
        np.testing.assert_array_equal(loaded.local_bandwidth(R), field.local_bandwidth(R))


def test_files_are_small(tmp_path: Path) -> None:
    FIELD.save(tmp_path / "water.lobal")
    assert (tmp_path / "water.lobal").stat().st_size < 40 * (9 + 10) * 8 + 4096


def test_local_bandwidths_lie_on_the_ladder_and_know_the_symmetry() -> None:
    R = water(20, seed=2).R
    bandwidth = MIXTURE.local_bandwidth(R)
    assert ((bandwidth >= 0.25 - 1e-12) & (bandwidth <= 1.0 + 1e-12)).all()
    np.testing.assert_allclose(MIXTURE.local_bandwidth(R[:, [0, 2, 1]]), bandwidth)
    np.testing.assert_allclose(MIXTURE.local_complexity(R, dimension=3.0), bandwidth**-3.0)
    assert MIXTURE.local_bandwidth(R[:0]).shape == (0,)


def test_one_expert_has_no_local_bandwidth() -> None:
    assert "shares" in MIXTURE.about
    assert "shares" not in MIXTURE.expert(0).about
    with pytest.raises(ValueError, match="has one bandwidth everywhere; train a mixture"):
        MIXTURE.expert(2).local_bandwidth(water(1).R)


def test_files_without_fingerprints_are_read(tmp_path: Path) -> None:
    """They hold the positions of everything that was learned from."""
    SPARSE.save(tmp_path / "water.lobal")
    tensors, fields = load_record(tmp_path / "water.lobal")
    del tensors["learned"]
    save_record(tmp_path / "before.lobal", tensors, fields)
    assert len(unseen(ForceField.load(tmp_path / "before.lobal"), ALL)) == 60 - 15


def test_fingerprints_tell_configurations_apart() -> None:
    R = water(50).R
    assert len(fingerprints(R).unique()) == 50
    assert torch.equal(fingerprints(R[:, None].transpose(1, 2)[:, :, 0]), fingerprints(R))  # whatever the layout
    assert fingerprints(R[:0]).shape == (0,)
    assert not torch.isin(fingerprints(R + 1e-12), fingerprints(R)).any()


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a force field, but long enough for a header")
    with pytest.raises(ValueError, match="is not a file that lobal saved"):
        ForceField.load(tmp_path / "text")
    save_record(tmp_path / "model", {"bandwidths": torch.ones(2)}, {"gate": {"kind": "ordinal"}})
    with pytest.raises(ValueError, match="is a file of lobal, but not a force field"):
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
    with pytest.raises(ValueError, match="a force field without a gate has one expert, got 3"):
        replace(MIXTURE, gate=None)


def test_errors_are_those_of_all_components() -> None:
    trajectory = water(7, seed=2)
    energies, forces = FIELD.predict(trajectory.R)
    shifted = replace(trajectory, energies=torch.from_numpy(energies) + 0.5, forces=torch.from_numpy(forces) - 0.25)
    assert tuple(errors_on(FIELD, shifted)) == pytest.approx((0.5, 0.5, 0.25, 0.25))
    assert errors_on(FIELD, replace(shifted, energies=None))[:2] == (None, None)
    assert errors_on(FIELD, replace(shifted, forces=None))[2:] == (None, None)


def test_configurations_learned_from_are_left_out() -> None:
    with pytest.raises(ValueError, match="has learned from all 40 configurations of water"):
        unseen(FIELD, ALL.at(slice(40)))


def test_other_molecules_are_refused() -> None:
    with pytest.raises(ValueError, match=r"water has atoms \[16, 1, 1\]"):
        errors_on(FIELD, replace(water(5), species=torch.tensor([16, 1, 1])))


def test_weights_of_errors_are_numbers_of_times() -> None:
    new = water(3, seed=2)
    repeated = errors_on(FIELD, new.at(torch.tensor([0, 1, 1, 2, 2, 2])))
    assert errors_on(FIELD, new, np.array([1.0, 2.0, 3.0])) == pytest.approx(repeated, rel=1e-4)
