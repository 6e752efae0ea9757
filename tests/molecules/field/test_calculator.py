from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field, train
from tests.molecules.setting import water

pytest.importorskip("ase", reason="ASE is not installed")

from ase import Atoms, units
from ase.md.verlet import VelocityVerlet

from lobal.molecules.field.calculator import ForceFieldCalculator

SINGLE = ForceFieldSettings(labels="forces", anisotropy=None, mixture=False)
FIELD = train(water(150), SINGLE, n=80, validation=20)[0]


def molecule(numbers: tuple[int, ...] = (8, 1, 1)) -> Any:
    atoms = Atoms(numbers, water(1, seed=3).R[0].numpy())
    atoms.calc = ForceFieldCalculator(FIELD)
    return atoms


def test_results_are_those_of_the_force_field() -> None:
    atoms = molecule()
    energies, forces = FIELD.predict(atoms.positions[None])
    energy = atoms.get_potential_energy()
    assert type(energy) is float
    assert energy == energies[0]
    assert atoms.get_forces().dtype == np.float64
    np.testing.assert_array_equal(atoms.get_forces(), forces[0])


def test_a_file_will_do(tmp_path: Path) -> None:
    FIELD.save(tmp_path / "water.lobal")
    atoms = molecule()
    expected = atoms.get_potential_energy()
    atoms.calc = ForceFieldCalculator(tmp_path / "water.lobal")
    assert atoms.get_potential_energy() == expected
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ForceFieldCalculator(tmp_path / "nothing.lobal")


def test_other_atoms_and_periodic_cells_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the molecule has atoms \[1, 8, 1\]"):
        molecule((1, 8, 1)).get_potential_energy()
    atoms = molecule()
    atoms.get_potential_energy()
    atoms.pbc = True
    with pytest.raises(ValueError, match="the molecule is periodic"):
        atoms.get_potential_energy()


def test_dynamics_conserve_the_energy() -> None:
    atoms = molecule()
    energies = []
    dynamics: Any = VelocityVerlet(atoms, timestep=0.2 * units.fs)
    dynamics.attach(lambda: energies.append(atoms.get_total_energy()))
    dynamics.run(200)
    # The potential energy that becomes motion and back is some 0.1 eV.
    assert np.ptp(energies) < 2e-3
    assert abs(np.mean(energies[-50:]) - np.mean(energies[:50])) < 2e-4


def test_a_mixture_says_how_complex_the_surface_is() -> None:
    atoms = molecule()
    atoms.get_potential_energy()
    assert set(atoms.calc.results) == {"energy", "forces"}
    settings = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10)
    mixture = fit_force_field(water(30), settings, generator=torch.Generator().manual_seed(0))
    atoms.calc = ForceFieldCalculator(mixture)
    energy, forces = atoms.get_potential_energy(), atoms.get_forces()
    R = atoms.positions[None]
    assert (type(energy), energy) == (float, mixture.predict(R).energies[0])
    np.testing.assert_array_equal(forces, mixture.predict(R).forces[0])
    assert atoms.calc.results["local_bandwidth"] == pytest.approx(mixture.local_bandwidth(R)[0])
    assert atoms.calc.results["local_complexity"] == pytest.approx(mixture.local_complexity(R)[0])
