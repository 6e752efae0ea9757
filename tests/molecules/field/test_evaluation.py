from dataclasses import replace

import numpy as np
import pytest
import torch

from lobal.molecules.field.forcefield import errors_on, unseen
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import train
from tests.molecules.setting import water

SETTINGS = ForceFieldSettings(anisotropy=None, mixture=False)
FIELD = train(water(60), SETTINGS, n=20, validation=10).force_field


def test_errors_are_those_of_all_components() -> None:
    trajectory = water(7, seed=2)
    energies, forces = FIELD.predict(trajectory.R)
    shifted = replace(trajectory, energies=torch.from_numpy(energies) + 0.5, forces=torch.from_numpy(forces) - 0.25)
    assert tuple(errors_on(FIELD, shifted)) == pytest.approx((0.5, 0.5, 0.25, 0.25))
    assert errors_on(FIELD, replace(shifted, energies=None))[:2] == (None, None)
    assert errors_on(FIELD, replace(shifted, forces=None))[2:] == (None, None)


def test_configurations_learned_from_are_left_out() -> None:
    trajectory = water(60)
    assert len(unseen(FIELD, trajectory)) == 40
    with pytest.raises(ValueError, match="has learned from all 20 configurations of water"):
        unseen(FIELD, replace(trajectory, R=FIELD.positions, energies=None, forces=None))


def test_other_molecules_are_refused() -> None:
    with pytest.raises(ValueError, match=r"water has atoms \[16, 1, 1\]"):
        errors_on(FIELD, replace(water(5), species=torch.tensor([16, 1, 1])))


def test_weights_of_errors_are_numbers_of_times() -> None:
    new = water(3, seed=2)
    repeated = errors_on(FIELD, new.at(torch.tensor([0, 1, 1, 2, 2, 2])))
    assert errors_on(FIELD, new, np.array([1.0, 2.0, 3.0])) == pytest.approx(repeated)
