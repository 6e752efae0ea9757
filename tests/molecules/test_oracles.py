"""Oracles by name: what they refuse, and what becomes of calculations that fail. ASE's EMT and toys stand in."""

import inspect
import logging
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal.molecules.oracles import CalculationFailedError, MolecularOracle, _Own, oracle_named

WATER = [8, 1, 1]
R = np.array([[0.0, 0.0, 0.0], [0.76, 0.59, 0.0], [-0.76, 0.59, 0.0]])
untyped = inspect.unwrap(oracle_named)  # without the checks of types that tests add
EMT = "ase.calculators.emt:EMT"
# A spring from every atom to the origin; how a calculation goes is said by the first coordinate.
TOY = """
import numpy as np
from ase.calculators.calculator import Calculator, all_changes

made = []


class Springs(Calculator):
    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms, properties, system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        R = atoms.positions
        if R[0, 0] == 1.0:
            raise RuntimeError("diverged\\nafter 100 cycles")
        self.results = {"energy": (R**2).sum() / 2, "forces": -R}
        if R[0, 0] == 2.0:
            self.results["energy"] = np.nan
        if R[0, 0] == 3.0:
            self.results["forces"] = -R[:2]


def springs():
    made.append(Springs())
    return made[-1]


def nothing():
    return None


def needs_an_argument(molecule):
    return Springs()


number = 3
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module in the current folder, as long as a test runs."""
    pytest.importorskip("ase")
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lobal.molecules.oracles._OWN", _Own())  # no calculators of other tests
    monkeypatch.setitem(sys.modules, "toy", None)  # for it to be removed
    del sys.modules["toy"]
    return lambda: sys.modules["toy"]


def at(*firsts: float) -> np.ndarray:
    """Configurations with these first coordinates."""
    configurations = np.repeat(R[None], len(firsts), 0)
    configurations[:, 0, 0] = firsts
    return configurations


# Names.


@pytest.mark.parametrize("name", ["b3lyp", "", "toy:", ":springs", "toy", "GFN2", None, 3])
def test_a_name_that_is_not_known_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"the oracle must be one of gfn1, gfn2, pbe, or 'module:function', got "):
        untyped(name, WATER)


@pytest.mark.parametrize("species", [[], [8, 0], [8, 119], [[8, 1]], [8.0, 1.0], ["O", "H"]])
def test_species_that_are_no_atomic_numbers_are_refused(species: Any) -> None:
    with pytest.raises(ValueError, match=r"species must be atomic numbers from 1 to \d+, one per atom, got"):
        untyped("gfn2", species)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"charge": 1},
            r"9 electrons \(atomic numbers \[8, 1, 1\], charge 1\) cannot have multiplicity 1; correct the",
        ),
        ({"multiplicity": 2}, "10 electrons .* cannot have multiplicity 2; correct the charge or the multiplicity"),
        ({"charge": 9, "multiplicity": 4}, "1 electrons .* cannot have multiplicity 4"),
        ({"charge": 10}, "0 electrons .* cannot have multiplicity 1"),
        ({"charge": 11}, "-1 electrons .* cannot have multiplicity 1"),
        ({"multiplicity": 0}, "multiplicity must be a whole number, at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("name", ["gfn1", "gfn2", "pbe"])
def test_electrons_that_cannot_be_are_refused(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        oracle_named(name, WATER, **options)


@pytest.mark.parametrize("options", [{"charge": 1, "multiplicity": 2}, {"multiplicity": 3}, {"charge": -2}])
def test_electrons_that_can_be_are_taken(options: dict[str, int]) -> None:
    molecule = oracle_named("gfn2", WATER, **options).molecule
    assert (molecule.species, molecule.charge, molecule.multiplicity) == (
        (8, 1, 1),
        options.get("charge", 0),
        options.get("multiplicity", 1),
    )


def test_the_electrons_of_lanthanides_are_not_counted() -> None:
    assert oracle_named("gfn2", [58, 9, 9, 9]).molecule.multiplicity == 1


def test_charges_are_not_for_ase_calculators() -> None:
    with pytest.raises(
        ValueError, match="charge 1 and multiplicity 2 are for gfn1, gfn2, pbe; set them in toy:springs"
    ):
        oracle_named("toy:springs", WATER, charge=1, multiplicity=2)


def test_an_oracle_can_be_sent_to_other_processes_and_is_the_same_there() -> None:
    oracle = oracle_named("gfn2", WATER, charge=-1, multiplicity=2)
    again = pickle.loads(pickle.dumps(oracle))
    assert again == oracle
    assert hash(again) == hash(oracle)


# ASE calculators.


def test_labels_are_those_of_the_ase_calculator() -> None:
    ase, emt = pytest.importorskip("ase"), pytest.importorskip("ase.calculators.emt")
    energies, forces = oracle_named(EMT, WATER)(np.stack([R, 1.1 * R]))
    for row, positions in enumerate((R, 1.1 * R)):
        atoms = ase.Atoms(WATER, positions, calculator=emt.EMT())
        assert energies[row] == pytest.approx(atoms.get_potential_energy(), rel=1e-12)
        np.testing.assert_allclose(forces[row], atoms.get_forces(), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("toy:missing", ImportError, "toy has no function 'missing'; 'toy:missing' must be 'module:function'"),
        ("toy:number", ImportError, "toy has no function 'number'"),
        ("toys.water:springs", ImportError, "no module 'toys.water' for .*: put toys/water.py into the current folder"),
        ("toy:nothing", ValueError, "must be a function without arguments that returns an ASE calculator.* NoneType"),
        ("toy:needs_an_argument", TypeError, "argument"),
    ],
)
def test_a_function_that_makes_no_calculator_is_said_to_be_the_reason(
    name: str, error: type[Exception], message: str, toy: Any
) -> None:
    with pytest.raises(error, match=message):
        oracle_named(name, WATER)(at(0.0))


def test_a_module_that_lacks_another_one_is_not_said_to_be_missing(toy: Any, tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text("import nowhere_to_be_found")
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_to_be_found'"):
        oracle_named("toy:springs", WATER)(at(0.0))


def test_the_current_folder_is_searched_for_the_module_only(toy: Any) -> None:
    before = list(sys.path)
    oracle_named("toy:springs", WATER)(at(0.0))
    assert sys.path == before


# Calls.


@pytest.mark.parametrize("shape", [(3, 3), (1, 2, 3), (1, 3, 2), (0,)])
def test_positions_of_another_molecule_are_refused(shape: tuple[int, ...], toy: Any) -> None:
    with pytest.raises(ValueError, match=r"positions must have shape \(m, 3, 3\) for 3 atoms, got \("):
        inspect.unwrap(MolecularOracle.__call__)(oracle_named("toy:springs", WATER), np.zeros(shape))


def test_no_configuration_has_no_labels(toy: Any) -> None:
    energies, forces = oracle_named("toy:springs", WATER)(np.zeros((0, 3, 3)))
    assert (energies.shape, forces.shape) == ((0,), (0, 3, 3))


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (1.0, "'toy:springs' failed: RuntimeError: diverged after 100 cycles"),
        (2.0, "'toy:springs' failed: ValueError: expected finite numbers, got energy nan"),
        (3.0, r"'toy:springs' failed: ValueError: expected forces of shape \(3, 3\), got \(2, 3\)"),
    ],
)
def test_a_calculation_that_fails_is_an_error_in_one_line(first: float, message: str, toy: Any) -> None:
    oracle = oracle_named("toy:springs", WATER)
    with pytest.raises(CalculationFailedError, match=message) as caught:
        oracle(at(first))
    assert "\n" not in str(caught.value)
    advice = r"; look at the positions, in Angstrom, of atoms \[8, 1, 1\], the charge, 0, and the multiplicity, 1"
    with pytest.raises(CalculationFailedError, match=message + ".*" + advice):
        oracle.check(at(first)[0])


def test_of_several_configurations_those_that_fail_have_no_label(toy: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        energies, forces = oracle_named("toy:springs", WATER)(at(0.0, 1.0, 0.5, 3.0))
    assert np.isnan(energies).tolist() == np.isnan(forces).all((1, 2)).tolist() == [False, True, False, True]
    np.testing.assert_array_equal(forces[[0, 2]], -at(0.0, 0.5))
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "configuration 1 of 4 has no label",
        "configuration 3 of 4 has no label",
    ]


def test_check_returns_the_label(toy: Any) -> None:
    label = oracle_named("toy:springs", WATER).check(R)
    assert label.energy == pytest.approx((R**2).sum() / 2)
    np.testing.assert_array_equal(label.forces, -R)


def test_a_calculator_is_made_once_and_anew_after_a_failure(toy: Any) -> None:
    oracle = oracle_named("toy:springs", WATER)
    n_made = []
    for first in (0.0, 0.5, 1.0, 0.0, 0.5):  # at 1 it fails
        oracle(at(first, first))
        n_made.append(len(toy().made))
    assert n_made == [1, 1, 2, 3, 3]


def test_molecules_do_not_share_a_calculator(toy: Any) -> None:
    one, other = oracle_named("toy:springs", WATER), oracle_named("toy:springs", [16, 1, 1])
    for oracle in (one, other, one, other):
        oracle(at(0.0))
    assert len(toy().made) == 2


def test_threads_do_not_share_a_calculator(toy: Any) -> None:
    oracle = oracle_named("toy:springs", WATER)
    together = [threading.Thread(target=lambda: [oracle(at(0.0)) for _ in range(5)]) for _ in range(3)]
    for each in together:
        each.start()
    for each in together:
        each.join()
    assert len(toy().made) == 3


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("gfn2", "tblite.interface", r"GFN2-xTB needs tblite: pip install 'lobal\[molecules\]'"),
        ("pbe", "pyscf", r"PBE needs PySCF: pip install 'lobal\[dft\]'"),
        (EMT, "ase", r"EMT needs ASE: pip install 'lobal\[molecules\]'"),
    ],
)
def test_a_package_that_is_missing_is_named(
    name: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        oracle_named(name, [16, 1, 1])(R[None])
