import builtins
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.trajectory import (
    Trajectory,
    check_species,
    read_trajectory,
    set_apart,
    write_configurations,
)
from tests.molecules.setting import water

KCAL = 0.0433641153087705
WATER = water(12)
ARRAYS: dict[str, Any] = {
    "R": WATER.R.numpy(),
    "E": WATER.energies.numpy() if WATER.energies is not None else None,
    "F": WATER.forces.numpy() if WATER.forces is not None else None,
    "z": WATER.species.numpy(),
}
EV = {"e_unit": "eV", "r_unit": "Ang"}


def written(path: Path, **arrays: Any) -> Path:
    np.savez(path / "data.npz", **arrays)
    return path / "data.npz"


def assert_same(one: Trajectory, other: Trajectory) -> None:
    assert one.species.tolist() == other.species.tolist()
    for name in ("R", "energies", "forces"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-7, atol=1e-7)


def test_files_say_what_their_units_are(tmp_path: Path) -> None:
    trajectory = read_trajectory(str(written(tmp_path, **ARRAYS, **EV)))
    assert_same(trajectory, WATER)
    assert trajectory.units == "eV and Ang"
    assert trajectory.number is None


def test_energies_and_forces_in_kcal_come_in_ev(tmp_path: Path) -> None:
    scaled = ARRAYS | {"E": ARRAYS["E"] / KCAL, "F": ARRAYS["F"] / KCAL}
    assert_same(read_trajectory(written(tmp_path, **scaled, e_unit="kcal/mol", r_unit="Ang")), WATER)
    assert_same(read_trajectory(written(tmp_path, **scaled), energy_unit="kcal/mol"), WATER)


def test_positions_in_bohr_come_in_angstrom(tmp_path: Path) -> None:
    bohr = 0.529177210903
    scaled = ARRAYS | {"R": ARRAYS["R"] / bohr, "F": ARRAYS["F"] * bohr}
    assert_same(read_trajectory(written(tmp_path, **scaled, e_unit="eV", r_unit="bohr")), WATER)


def test_units_that_nobody_names_are_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not name the unit of its energies \(no e_unit\); give the energy unit"):
        read_trajectory(written(tmp_path, **ARRAYS))


def test_units_that_contradict_the_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has e_unit 'eV', but 'kcal/mol' was given"):
        read_trajectory(written(tmp_path, **ARRAYS, **EV), energy_unit="kcal/mol")
    with pytest.raises(ValueError, match=r"forces must be in the units of energy and length, eV/Ang, got eV/bohr"):
        read_trajectory(written(tmp_path, **ARRAYS, **EV, f_unit="eV/bohr"))


def test_rmd17_is_in_kcal_and_says_so(tmp_path: Path) -> None:
    names = {
        "coords": ARRAYS["R"],
        "energies": ARRAYS["E"] / KCAL,
        "forces": ARRAYS["F"] / KCAL,
        "nuclear_charges": ARRAYS["z"].astype(np.uint8),
    }
    trajectory = read_trajectory(written(tmp_path, **names))
    assert_same(trajectory, WATER)
    assert trajectory.units == "kcal/mol and Ang"


def test_energies_in_a_column_and_single_precision_are_read(tmp_path: Path) -> None:
    arrays = {name: values.astype(np.float32) for name, values in ARRAYS.items() if name in "RF"}
    trajectory = read_trajectory(written(tmp_path, **ARRAYS | arrays | {"E": ARRAYS["E"][:, None]}, **EV))
    assert trajectory.R.dtype == torch.float64
    assert trajectory.energies is not None
    assert trajectory.energies.shape == (12,)


def test_numbers_of_trajectories_are_kept(tmp_path: Path) -> None:
    trajectory = read_trajectory(written(tmp_path, **ARRAYS, **EV, traj=np.arange(12) // 4))
    some = trajectory.at(torch.tensor([5, 1]))
    assert some.number is not None
    assert some.number.tolist() == [1, 0]
    torch.testing.assert_close(some.R, WATER.R[[5, 1]])


WRONG = [
    ({"R": ARRAYS["R"][:, :2]}, r"positions must have shape \(n, 3, 3\) for 3 atoms, got \(12, 2, 3\)"),
    ({"R": ARRAYS["R"][0]}, r"got \(3, 3\)"),
    ({"R": ARRAYS["R"][:0]}, r"got \(0, 3, 3\)"),
    ({"E": ARRAYS["E"][:5]}, r"energies must have shape \(12,\), got \(5,\)"),
    (
        {"F": np.where(np.arange(12)[:, None, None] == 4, np.nan, ARRAYS["F"])},
        r"forces must be finite.*configuration 4",
    ),
    ({"R": np.where(np.arange(12)[:, None, None] == 7, np.inf, ARRAYS["R"])}, r"positions must be finite.*ration 7"),
    ({"R": np.zeros_like(ARRAYS["R"])}, r"atoms 0 and 1 of configuration 0 coincide"),
    ({"z": np.array([[8, 1, 1]] * 11 + [[8, 1, 6]])}, r"several molecules: the atoms of configuration 11"),
    ({"z": np.array(["O", "H", "H"])}, r"species must be atomic numbers, got \['O', 'H', 'H'\]"),
    ({"R": ARRAYS["R"].astype(str)}, r"array 'R' must hold numbers"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_what_is_wrong_with_a_file_is_named(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_trajectory(written(tmp_path, **ARRAYS | changed, **EV))


def test_files_without_the_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must hold arrays R, E, F, z or coords, .*, got X, y"):
        read_trajectory(written(tmp_path, X=np.ones(3), y=np.ones(3)))
    with pytest.raises(ValueError, match="neither energies nor forces"):
        read_trajectory(written(tmp_path, R=ARRAYS["R"], z=ARRAYS["z"], **EV))
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(ValueError, match="cannot be read as an npz file"):
        read_trajectory(tmp_path / "text.npz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_trajectory(tmp_path / "absent.npz")


def frames(trajectory: Trajectory) -> list[Any]:
    ase = pytest.importorskip("ase")
    calculator = pytest.importorskip("ase.calculators.singlepoint").SinglePointCalculator
    assert trajectory.energies is not None
    assert trajectory.forces is not None
    made = []
    for R, E, F in zip(trajectory.R, trajectory.energies, trajectory.forces, strict=True):
        atoms = ase.Atoms(trajectory.species.numpy(), R.numpy())
        atoms.calc = calculator(atoms, energy=E.item(), forces=F.numpy())
        made.append(atoms)
    return made


@pytest.mark.parametrize("suffix", [".xyz", ".extxyz", ".traj", ".db"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ase")
def test_what_ase_reads_is_read(suffix: str, tmp_path: Path) -> None:
    some = frames(WATER)
    path = tmp_path / f"water{suffix}"
    if suffix == ".db":
        with pytest.importorskip("ase.db").connect(path) as database:
            for atoms in some:
                database.write(atoms)
    else:
        pytest.importorskip("ase.io").write(path, some)
    trajectory = read_trajectory(path)
    assert_same(trajectory, WATER)
    assert trajectory.units == "eV and Ang"


def test_frames_of_several_molecules_are_refused(tmp_path: Path) -> None:
    some = frames(WATER)
    write = pytest.importorskip("ase.io").write
    some[5].numbers[0] = 16
    write(tmp_path / "mixed.xyz", some)
    with pytest.raises(ValueError, match=r"several molecules: configuration 5 is SH2, the first OH2"):
        read_trajectory(tmp_path / "mixed.xyz")
    periodic = frames(WATER)
    for atoms in periodic:
        atoms.set_cell([9.0, 9.0, 9.0])
        atoms.set_pbc(True)
    write(tmp_path / "periodic.xyz", periodic)
    with pytest.raises(ValueError, match=r"configuration 0 of .* is periodic"):
        read_trajectory(tmp_path / "periodic.xyz")


def test_frames_without_labels_are_named(tmp_path: Path) -> None:
    some = frames(WATER)
    some[3].calc = None
    pytest.importorskip("ase.io").write(tmp_path / "gap.xyz", some)
    with pytest.raises(ValueError, match=r"configuration 3 of .* has no energy, others have"):
        read_trajectory(tmp_path / "gap.xyz")
    (tmp_path / "text.xyz").write_text("nothing\n")
    with pytest.raises(ValueError, match="cannot be read by ASE"):
        read_trajectory(tmp_path / "text.xyz")
    (tmp_path / "element.xyz").write_text("1\n\nZz 0.0 0.0 0.0\n")
    with pytest.raises(ValueError, match="'Zz' is no element"):
        read_trajectory(tmp_path / "element.xyz")


def test_without_ase_other_files_say_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_ase(name: str, *arguments: Any) -> Any:
        if name.startswith("ase"):
            raise ImportError(name)
        return real(name, *arguments)

    (tmp_path / "water.xyz").write_text("3\n")
    monkeypatch.setattr(builtins, "__import__", without_ase)
    with pytest.raises(ValueError, match=r"read by ASE: pip install 'lobal\[molecules\]'"):
        read_trajectory(tmp_path / "water.xyz")


def test_other_atoms_are_refused() -> None:
    with pytest.raises(ValueError, match=r"water has atoms \[1, 8\] .*, the force field is one of \[8, 1\]"):
        check_species(torch.tensor([8, 1]), torch.tensor([1, 8]), "water")


# Configurations whose labels are still to come.


def test_configurations_without_labels_are_read_where_none_are_needed(tmp_path: Path) -> None:
    plain = read_trajectory(written(tmp_path, R=ARRAYS["R"], z=ARRAYS["z"]), labelled=False)
    assert (plain.energies, plain.forces) == (None, None)
    torch.testing.assert_close(plain.R, WATER.R)
    some = ARRAYS["E"].copy()
    some[3] = np.nan
    trajectory = read_trajectory(written(tmp_path, **ARRAYS | {"E": some}, **EV), labelled=False)
    assert trajectory.energies is not None
    assert torch.isnan(trajectory.energies).nonzero().tolist() == [[3]]
    with pytest.raises(ValueError, match=r"energies must have shape \(12,\), got \(5,\)"):
        read_trajectory(written(tmp_path, **ARRAYS | {"E": some[:5]}, **EV), labelled=False)
    with pytest.raises(ValueError, match="give the energy unit"):
        read_trajectory(written(tmp_path, **ARRAYS), labelled=False)


@pytest.mark.parametrize("has_ase", [True, False])
def test_configurations_are_written(has_ase: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_ase:
        pytest.importorskip("ase")
    else:
        monkeypatch.setitem(sys.modules, "ase", None)
    path = write_configurations(tmp_path / "next", WATER)
    assert path.name == ("next.xyz" if has_ase else "next.npz")
    read = read_trajectory(path, labelled=False)
    assert (read.species.tolist(), read.energies) == ([8, 1, 1], None)
    torch.testing.assert_close(read.R, WATER.R, rtol=0, atol=1e-8)


def test_whole_trajectories_are_set_apart_where_there_are_several() -> None:
    molecules, numbers = water(40), torch.arange(40) % 10
    several = replace(molecules, number=numbers)

    def apart(trajectory: Trajectory, most: int) -> Tensor:
        return set_apart(trajectory, most, generator=torch.Generator().manual_seed(0))

    assert apart(several, 5).sum() == 8
    assert len(numbers[apart(several, 5)].unique()) == 2
    assert apart(molecules, 5).sum() == 5
    assert apart(several, 0).sum() == 0
    assert apart(replace(molecules, number=numbers % 4), 5).sum() == 5  # too few to spare one of them
