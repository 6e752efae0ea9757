"""Quantum chemistry programs: forces are the slopes of energies, labels those of others with the same method."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal.molecules.dynamics.workers import Workers, processes
from lobal.molecules.oracles import oracle_named
from lobal.molecules.programs import (
    HARTREE,
    PROGRAMS,
    Calculation,
    Label,
    Molecule,
    ase_calculation,
    check_label,
)
from tests.molecules.setting import DATA, rmd17_malonaldehyde

WATER = Molecule(species=(8, 1, 1))
BENT = np.array([[0.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.7, 0.65, 0.1]])  # Angstrom
HYDROGEN, STRETCHED = Molecule(species=(1, 1)), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.85]])
HYDROXYL, OH = Molecule(species=(8, 1), multiplicity=2), np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.98]])


def program(name: str, molecule: Molecule) -> Calculation:
    pytest.importorskip("pyscf" if name == "pbe" else "tblite.interface")
    return PROGRAMS[name](molecule)


def slope(calculation: Calculation, R: np.ndarray, along: np.ndarray, h: float = 1e-3) -> float:
    """Minus the derivative of the energy along a direction, by a difference of fourth order."""
    energies = [calculation(R + multiple * h * along).energy for multiple in (-2, -1, 1, 2)]
    return -float(np.array([1.0, -8.0, 8.0, -1.0]) @ energies) / (12 * h)


def gfn2_malonaldehyde(n: int) -> dict[str, np.ndarray]:
    """Configurations with labels that GFN2-xTB had before; skips the test where they are absent."""
    file = DATA / "malonaldehyde_gfn2_500K.npz"
    if not file.exists():
        pytest.skip(f"{file.name} is not in the folder that LOBAL_DATA names ({DATA})")
    with np.load(file) as arrays:
        rows = np.linspace(0, len(arrays["E"]) - 1, n).astype(int)
        return {name: arrays[name][rows] for name in "REF"} | {"z": arrays["z"]}


# Forces.


@pytest.mark.parametrize(
    ("name", "molecule", "R", "directions"),
    [
        ("gfn1", WATER, BENT, 9),
        ("gfn2", WATER, BENT, 9),
        ("gfn2", Molecule(species=(8, 1), charge=-1), OH, 6),
        ("gfn2", HYDROXYL, OH, 6),
        ("pbe", HYDROGEN, STRETCHED, 1),
        ("pbe", HYDROXYL, OH, 1),
    ],
    ids=["GFN1", "GFN2", "GFN2 ion", "GFN2 radical", "PBE", "PBE radical"],
)
def test_forces_are_minus_the_gradient_of_energies(
    name: str, molecule: Molecule, R: np.ndarray, directions: int, rng: np.random.Generator
) -> None:
    calculation = program(name, molecule)
    forces = calculation(R).forces
    assert np.abs(forces).max() > 0.5
    for along in rng.standard_normal((directions, *R.shape)):
        assert slope(calculation, R, along) == pytest.approx((forces * along).sum(), abs=2e-4)


@pytest.mark.parametrize(("name", "torque"), [("gfn1", 1e-6), ("gfn2", 1e-6), ("pbe", 1e-3)])
def test_no_force_and_no_torque_acts_on_the_whole_molecule(name: str, torque: float) -> None:
    """The grid of PBE moves with the atoms, and does not turn with them: without its response, forces add to 4e-4."""
    forces = program(name, WATER)(BENT).forces
    np.testing.assert_allclose(forces.sum(0), 0.0, atol=1e-6)
    np.testing.assert_allclose(np.cross(BENT, forces).sum(0), 0.0, atol=torque)


# GFN-xTB.


@pytest.mark.parametrize(("name", "method"), [("gfn1", "GFN1-xTB"), ("gfn2", "GFN2-xTB")])
def test_labels_are_those_of_the_ase_calculator_of_tblite(name: str, method: str) -> None:
    """Which has an older value of the Bohr radius and the hartree."""
    ase, tblite = pytest.importorskip("ase"), pytest.importorskip("tblite.ase")
    atoms = ase.Atoms(WATER.species, BENT, calculator=tblite.TBLite(method=method, accuracy=0.01, verbosity=0))
    label = program(name, WATER)(BENT)
    assert label.energy == pytest.approx(atoms.get_potential_energy(), abs=1e-5)
    np.testing.assert_allclose(label.forces, atoms.get_forces(), atol=1e-5)


def test_labels_of_malonaldehyde_are_reproduced() -> None:
    data = gfn2_malonaldehyde(8)
    pytest.importorskip("tblite.interface")
    energies, forces = oracle_named("gfn2", data["z"].tolist())(data["R"].astype(np.float64))
    np.testing.assert_allclose(energies, data["E"], atol=1e-4)
    np.testing.assert_allclose(forces, data["F"], atol=1e-4)


def test_a_label_does_not_depend_on_the_calls_before_it() -> None:
    calculation = program("gfn2", WATER)
    calculation(1.2 * BENT)
    after, alone = calculation(BENT), program("gfn2", WATER)(BENT)
    assert after.energy == alone.energy
    np.testing.assert_array_equal(after.forces, alone.forces)


def test_charge_and_multiplicity_reach_the_program() -> None:
    """Electrons are bound, by some 10 eV; the triplet of water lies above its singlet."""
    options: tuple[dict[str, int], ...] = ({}, {"charge": 1, "multiplicity": 2}, {"multiplicity": 3})
    neutral, ion, triplet = (program("gfn2", Molecule(species=(8, 1, 1), **each))(BENT).energy for each in options)
    assert 5.0 < ion - neutral < 25.0
    assert 2.0 < triplet - neutral < 25.0


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    program("gfn2", WATER)(BENT)
    assert capfd.readouterr() == ("", "")


# PBE.


@pytest.mark.slow
def test_pbe_labels_of_malonaldehyde_are_those_of_rmd17() -> None:
    """By ORCA, with another grid: forces differ by 0.8 meV / Angstrom in the root mean square, at most by 3."""
    data = rmd17_malonaldehyde()
    pytest.importorskip("pyscf")
    rows = np.linspace(0, len(data["E"]) - 1, 8).astype(int)
    with Workers(oracle_named("pbe", data["z"].tolist()), processes, 2) as workers:
        labels = workers.label(torch.from_numpy(data["R"][rows])).numpy()
    errors = labels[:, 1:].reshape(8, 9, 3) - data["F"][rows]
    assert np.sqrt((errors**2).mean()) < 1.2e-3
    assert np.abs(errors).max() < 5e-3
    assert (labels[:, 0] - data["E"][rows]).std() < 3e-4


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is both the current one and the one for temporary files."""
    lib = pytest.importorskip("pyscf.lib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lib.param, "TMPDIR", str(tmp_path))
    return tmp_path


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize(("molecule", "R"), [(HYDROGEN, STRETCHED), (HYDROXYL, OH)], ids=["closed", "open"])
def test_calculations_leave_no_files_behind(molecule: Molecule, R: np.ndarray, temporary: Path) -> None:
    calculation = program("pbe", molecule)
    calculation(R)
    n_open = open_files()
    for _ in range(3):
        calculation(R)
    assert open_files() == n_open
    assert list(temporary.iterdir()) == []


def test_a_field_that_does_not_converge_is_an_error(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyscf import scf

    monkeypatch.setattr(scf.hf.SCF, "max_cycle", 1)
    with pytest.raises(RuntimeError, match="the self-consistent field did not converge in 1 cycles"):
        program("pbe", WATER)(BENT)
    assert list(temporary.iterdir()) == []


def test_newtons_method_converges_where_the_usual_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = program("pbe", WATER)(BENT)
    from pyscf import scf

    monkeypatch.setattr(scf.hf.SCF, "max_cycle", 4)
    label = program("pbe", WATER)(BENT)
    assert label.energy == pytest.approx(expected.energy, abs=1e-6)
    np.testing.assert_allclose(label.forces, expected.forces, atol=1e-4)


def test_radicals_have_orbitals_for_each_spin() -> None:
    """Two hydrogen atoms far apart are two separate atoms as a triplet, not as a closed shell."""
    far = 6.0 * STRETCHED / STRETCHED[1, 2]
    triplet = program("pbe", Molecule(species=(1, 1), multiplicity=3))(far).energy
    atom = program("pbe", Molecule(species=(1,), multiplicity=2))(np.zeros((1, 3))).energy
    assert triplet == pytest.approx(2 * atom, abs=2e-3)
    assert program("pbe", HYDROGEN)(far).energy > triplet + 1.0


def test_heavy_atoms_have_a_core_potential_in_place_of_inner_electrons() -> None:
    """Hydrogen iodide has some -300 hartree then, with all electrons -7000."""
    label = program("pbe", Molecule(species=(53, 1)))(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.75]]))
    assert -320.0 < label.energy / HARTREE < -280.0
    assert abs(label.forces[1, 2]) > 1e-2


# Any program.


@pytest.mark.parametrize(
    ("forces", "energy", "message"),
    [
        (np.zeros((2, 3)), 0.0, r"expected forces of shape \(3, 3\), got \(2, 3\)"),
        (np.zeros((3, 3)), np.inf, "expected finite numbers, got energy inf"),
        (np.full((3, 3), np.nan), 0.0, r"expected finite numbers, got energy 0 and forces\n\[\[nan"),
    ],
)
def test_labels_that_cannot_be_are_refused(forces: np.ndarray, energy: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_label(Label(energy, forces), 3)


def test_an_ase_calculator_is_used_again_for_the_next_configuration() -> None:
    ase, emt = pytest.importorskip("ase"), pytest.importorskip("ase.calculators.emt")
    calculation = ase_calculation(WATER, factory="ase.calculators.emt:EMT")
    for R in (BENT, 1.1 * BENT, BENT):
        expected: Any = ase.Atoms(WATER.species, R, calculator=emt.EMT())
        label = calculation(R)
        assert label.energy == pytest.approx(expected.get_potential_energy(), rel=1e-12)
        np.testing.assert_allclose(label.forces, expected.get_forces(), atol=1e-12)
