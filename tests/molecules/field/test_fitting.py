from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lobal.molecules.field.evaluation import errors_on
from lobal.molecules.field.fitting import FieldSettings, fit_force_field
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.mixture import GateSettings
from tests.molecules.setting import water

SETTINGS = FieldSettings(anisotropic=False, bandwidths=(0.125, 0.25, 0.5, 1.0), gate=GateSettings(inducing=20))


def fitted(settings: FieldSettings = SETTINGS, n: int = 30) -> ForceField:
    return fit_force_field(water(n), settings, generator=torch.Generator().manual_seed(0))


FIELD = fitted()


def test_a_mixture_predicts_what_it_has_not_seen() -> None:
    new = water(100, seed=1)
    assert new.energies is not None
    errors = errors_on(FIELD, new)
    assert errors.energy_rmse is not None
    assert errors.energy_rmse < 0.02 * new.energies.std().item()
    assert FIELD.about["symmetries"] == 2
    assert sum(FIELD.about["shares"]) == pytest.approx(1.0)


def test_forces_of_a_mixture_conserve_its_energy() -> None:
    R, step = water(2, seed=1).R, 1e-5
    move = step * torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    change = FIELD.predict(R + move).energies - FIELD.predict(R - move).energies
    work = (FIELD.predict(R).forces * move.numpy()).sum((1, 2))
    np.testing.assert_allclose(change, -2.0 * work, rtol=1e-4, atol=1e-9)


def test_local_bandwidths_lie_on_the_ladder_and_know_the_symmetry() -> None:
    R = water(20, seed=2).R
    bandwidth = FIELD.local_bandwidth(R)
    assert ((bandwidth >= 0.125 - 1e-12) & (bandwidth <= 1.0 + 1e-12)).all()
    np.testing.assert_allclose(FIELD.local_bandwidth(R[:, [0, 2, 1]]), bandwidth)
    np.testing.assert_allclose(FIELD.local_complexity(R), bandwidth**-2.0)
    np.testing.assert_allclose(FIELD.local_complexity(R, dimension=3.0), bandwidth**-3.0)
    assert FIELD.local_bandwidth(R[:0]).shape == (0,)


def test_a_saved_mixture_says_the_same(tmp_path: Path) -> None:
    R = water(5, seed=3).R
    FIELD.save(tmp_path / "water.lobal")
    loaded = ForceField.load(tmp_path / "water.lobal")
    for ours, expected in zip(loaded.predict(R), FIELD.predict(R), strict=True):
        np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(loaded.local_bandwidth(R), FIELD.local_bandwidth(R))
    assert loaded.about == FIELD.about


def test_seeds_reproduce() -> None:
    R = water(5, seed=3).R
    np.testing.assert_array_equal(fitted().predict(R).forces, FIELD.predict(R).forces)


def test_bandwidths_of_pairs_are_trained_or_taken_over() -> None:
    trained = fitted(replace(SETTINGS, anisotropic=True))
    shared = trained.kernel.shared
    assert shared[0] == shared[1]  # both OH
    assert abs(torch.log(shared[0] / shared[2]).item()) > 0.01
    again = fit_force_field(water(30), SETTINGS, shared=shared, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.kernel.shared, shared)


def test_one_expert_has_no_local_bandwidth() -> None:
    with pytest.raises(ValueError, match="has one bandwidth everywhere; train a mixture"):
        FIELD.expert(2).local_bandwidth(water(1).R)


def test_the_best_expert_alone_is_that_of_the_mixture() -> None:
    single, R = fitted(replace(SETTINGS, mixture=False)), water(4, seed=1).R
    number = FIELD.about["best_expert"]
    assert single.bandwidths.tolist() == [SETTINGS.bandwidths[number]]
    for ours, expected in zip(single.predict(R), FIELD.expert(number).predict(R), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kernel": "cubic"}, "kernel of a force field must be one of"),
        ({"labels": "dipoles"}, "labels must be one of ENERGIES, FORCES, BOTH, got 'dipoles'"),
        ({"bandwidths": (1.0,)}, "bandwidths must be two or more"),
        ({"bandwidths": (2.0, 1.0)}, "positive and increasing"),
        ({"bandwidths": (0.5, float("nan"))}, "positive and increasing"),
        ({"noise": 0.0}, "noise must be positive and finite, got 0.0"),
        ({"inducing": 0}, "inducing and folds must be at least 1, got 0 and 2"),
    ],
)
def test_wrong_settings_are_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **changed)  # type: ignore[arg-type]


def test_forces_alone_are_enough_for_a_mixture() -> None:
    """Without energies experts have no zero in common of their own."""
    settings = replace(SETTINGS, labels="FORCES")
    forces_alone = replace(water(40), energies=None)
    field = fit_force_field(forces_alone, settings, generator=torch.Generator().manual_seed(0))
    errors = errors_on(field, water(100, seed=1))
    assert errors.force_mae is not None
    assert errors.force_mae < 0.05
    R, step = water(1, seed=1).R, 1e-5
    move = step * torch.randn(1, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    change = field.predict(R + move).energies - field.predict(R - move).energies
    np.testing.assert_allclose(change, -2.0 * (field.predict(R).forces * move.numpy()).sum((1, 2)), rtol=1e-4)


def test_repeated_configurations_are_no_obstacle() -> None:
    molecules = water(30)
    swapped = molecules.R[:2][:, [0, 2, 1]]
    assert molecules.forces is not None
    assert molecules.energies is not None
    more = replace(
        molecules,
        R=torch.cat([molecules.R, molecules.R[:1], swapped]),
        energies=torch.cat([molecules.energies, molecules.energies[:1], molecules.energies[:2]]),
        forces=torch.cat([molecules.forces, molecules.forces[:1], molecules.forces[:2][:, [0, 2, 1]]]),
    )
    settings = replace(SETTINGS, gate=GateSettings(inducing=100))
    field = fit_force_field(more, settings, generator=torch.Generator().manual_seed(0))
    assert field.gate is not None
    assert len(field.gate.features.points) == 30


@pytest.mark.parametrize("changed", [{"kernel": "matern52"}, {"labels": "ENERGIES"}, {"noise": 1e-3}])
def test_settings_are_heard(changed: dict[str, object]) -> None:
    R = water(5, seed=3).R
    other = fitted(replace(SETTINGS, **changed))  # type: ignore[arg-type]
    assert np.abs(other.predict(R).forces - FIELD.predict(R).forces).max() > 1e-6


def test_an_expert_alone_says_nothing_about_a_gate() -> None:
    assert "shares" in FIELD.about
    assert "shares" not in FIELD.expert(0).about


@pytest.mark.parametrize("wrong", [{"inducing": 0}, {"widths": ()}, {"scales": ()}, {"widths": (0.0,)}])
def test_wrong_settings_of_gates_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a gate has an inducing configuration, a width and a scale at least"):
        GateSettings(**wrong)  # type: ignore[arg-type]
