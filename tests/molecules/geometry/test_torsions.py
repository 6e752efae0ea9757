import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.torsions import (
    angles,
    circular_variance,
    rotatable_torsions,
    slowest,
    torsion_names,
)
from lobal.molecules.geometry.trajectory import read_trajectory
from tests.molecules.setting import random_molecules, rotation

pytest.importorskip("ase", reason="ASE is not installed")

from ase import Atoms
from ase.build import molecule

EXAMPLES = Path(__file__).parents[3] / "examples" / "molecules"
ONE = torch.tensor([[0, 1, 2, 3]])


def names_of(atoms: Any) -> list[str]:
    """The rotatable torsions of a molecule of ASE, by their atoms."""
    R, species = torch.from_numpy(atoms.positions), torch.from_numpy(atoms.numbers).long()
    return torsion_names(rotatable_torsions(R, species), species)


def twisted(degrees: float) -> Tensor:
    """Four atoms around the z axis; looking along it, the last is turned clockwise against the first."""
    radians = math.radians(degrees)
    last = [-math.sin(radians), math.cos(radians), 1.0]
    return torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], last]], dtype=torch.float64)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 90.0, 179.0, -1.0, -90.0, -179.0])
def test_angles_are_positive_clockwise_as_iupac_has_it(degrees: float) -> None:
    assert angles(twisted(degrees), ONE).item() == pytest.approx(degrees, abs=1e-10)


def test_half_a_turn_is_180_degrees_from_both_sides() -> None:
    R = twisted(180.0).repeat(3, 1, 1)
    R[:, 3, 0] = torch.tensor([-1e-20, 0.0, 1e-20])
    assert angles(R, ONE).tolist() == [[180.0], [180.0], [180.0]]


def test_angles_are_those_of_ase(generator: torch.Generator) -> None:
    R = random_molecules(generator, 10, N=6)
    torsions = torch.stack([torch.randperm(6, generator=generator)[:4] for _ in range(8)])
    found = angles(R, torsions)
    for row, degrees in zip(R, found, strict=True):
        atoms = Atoms("C6", row.numpy())
        expected = torch.tensor([atoms.get_dihedral(*torsion) for torsion in torsions.tolist()])
        torch.testing.assert_close(degrees % 360.0, expected % 360.0, rtol=0.0, atol=1e-9, check_dtype=False)


def test_angles_do_not_depend_on_place_and_change_their_sign_in_the_mirror(generator: torch.Generator) -> None:
    R, torsions = random_molecules(generator, 5, N=6), torch.tensor([[0, 1, 2, 3], [5, 3, 1, 0]])
    Q = rotation(generator)
    found = angles(R, torsions)
    torch.testing.assert_close(angles(R @ Q + 3.0, torsions), torch.linalg.det(Q).sign() * found)
    torch.testing.assert_close(angles(R, torsions.flip(1)), found)


@pytest.mark.parametrize("ring", ["C6H6", "cyclobutane", "bicyclobutane", "C4H4O", "C3H4_C2v"])
def test_bonds_of_rings_do_not_rotate(ring: str) -> None:
    assert names_of(molecule(ring)) == []


def test_the_bond_between_two_rings_rotates() -> None:
    assert len(names_of(molecule("biphenyl"))) == 1


@pytest.mark.parametrize("straight", ["C2H2", "CO2", "CH3CN", "2-butyne", "C3H4_C3v", "C3H4_D2d"])
def test_there_is_no_angle_around_bonds_in_a_line(straight: str) -> None:
    assert names_of(molecule(straight)) == []


@pytest.mark.parametrize(("bent", "number"), [(5.0, 0), (30.0, 1)])
def test_a_line_may_be_bent_by_a_few_degrees(bent: float, number: int) -> None:
    radians = math.radians(bent)
    start = [-1.3 * math.cos(radians), 1.3 * math.sin(radians), 0.0]
    R = torch.tensor([start, [0.0, 0.0, 0.0], [1.3, 0.0, 0.0], [1.9, 1.1, 0.0]])
    assert len(rotatable_torsions(R, torch.tensor([6, 6, 6, 6]))) == number


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CH3CH2OH", ["C0-C1-O2-H3", "H6-C0-C1-O2"]),  # the hydroxyl group before the methyl group
        ("trans-butane", ["C0-C1-C2-C3", "H4-C0-C1-C2", "C1-C2-C3-H5"]),
        ("HCOOCH3", ["O1-C0-O2-C4", "C0-O2-C4-H5"]),
        ("CH3CH2NH2", ["H3-C0-C1-N2", "C0-C1-N2-H8"]),  # both have hydrogens alone at one end
        ("H2O2", ["H2-O0-O1-H3"]),
        ("C2H6", ["H2-C0-C1-H5"]),
        ("C2H4", ["H2-C0-C1-H4"]),
        ("CH4", []),
    ],
)
def test_torsions_of_heavy_atoms_come_first_and_methyl_groups_last(name: str, expected: list[str]) -> None:
    assert names_of(molecule(name)) == expected


def test_malonaldehyde_has_its_two_rotors() -> None:
    file = read_trajectory(EXAMPLES / "malonaldehyde.xyz", labelled=False)
    torsions = rotatable_torsions(file.R[0], file.species)
    assert torsion_names(torsions, file.species) == ["O4-C0-C1-C2", "C0-C1-C2-O3"]


def test_the_variance_of_an_angle_is_that_on_a_circle(generator: torch.Generator) -> None:
    around = 360.0 * torch.arange(12, dtype=torch.float64)[:, None] / 12.0
    assert circular_variance(around).item() == pytest.approx(1.0)
    assert circular_variance(torch.full((5, 1), 77.0)).item() == pytest.approx(0.0, abs=1e-6)
    beyond = 180.0 + 11.5 * torch.randn(20_000, 1, dtype=torch.float64, generator=generator)
    expected = 1.0 - math.exp(-0.5 * math.radians(11.5) ** 2)  # of a normal distribution wrapped around the circle
    assert circular_variance((beyond + 180.0) % 360.0 - 180.0).item() == pytest.approx(expected, rel=0.03)


def test_wide_angles_of_heavy_atoms_come_first_and_rigid_ones_last(generator: torch.Generator) -> None:
    species = torch.tensor([6, 6, 6, 6, 1])
    torsions = torch.tensor([[4, 0, 1, 2], [0, 1, 2, 3], [3, 1, 2, 0], [1, 0, 2, 3]])
    widths = torch.tensor([60.0, 20.0, 40.0, 5.0])  # with a hydrogen, two of heavy atoms, rigid
    values = widths * torch.randn(500, 4, generator=generator)
    assert slowest(values, torsions, species).tolist() == [2, 1, 0, 3]


def test_molecules_without_torsions_have_no_angles() -> None:
    none = rotatable_torsions(torch.rand(2, 3), torch.tensor([1, 1]))
    values = angles(torch.rand(4, 2, 3), none)
    assert (none.shape, values.shape) == ((0, 4), (4, 0))
    assert slowest(values, none, torch.tensor([1, 1])).tolist() == []
