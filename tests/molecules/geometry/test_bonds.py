from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.bonds import Bonds
from tests.molecules.setting import rotation

pytest.importorskip("ase", reason="ASE is not installed")

from ase.build import molecule
from ase.collections import g2
from ase.neighborlist import natural_cutoffs, neighbor_list

MOLECULES = [each for each in map(molecule, g2.names) if len(each) > 1]


def of_ase(atoms: Any) -> tuple[Tensor, Tensor]:
    """Positions and atomic numbers."""
    return torch.from_numpy(atoms.positions), torch.from_numpy(atoms.numbers).long()


def ethanol() -> tuple[Tensor, Bonds]:
    """Positions of C0, C1, O2, H3 (on the oxygen) and five further hydrogens, and their bonds."""
    R, species = of_ase(molecule("CH3CH2OH"))
    return R, Bonds.of(R, species)


def moved(R: Tensor, atom: int, other: int, factor: float) -> Tensor:
    """One configuration, in which an atom is farther from another by a factor."""
    R = R.clone()
    R[atom] = R[other] + factor * (R[atom] - R[other])
    return R[None]


def test_bonds_are_those_of_ase() -> None:
    for atoms in MOLECULES:
        i, j = neighbor_list("ij", atoms, natural_cutoffs(atoms, mult=1.3))
        expected = {(first, second) for first, second in zip(i.tolist(), j.tolist(), strict=True) if first < second}
        assert {(first, second) for first, second in Bonds.of(*of_ase(atoms)).pairs.tolist()} == expected


@pytest.mark.parametrize(
    ("name", "number"), [("H2", 1), ("F2", 1), ("C6H6", 12), ("cyclobutene", 10), ("CH3CN", 5), ("SiCl4", 4)]
)
def test_the_number_of_bonds_is_the_textbooks(name: str, number: int) -> None:
    assert len(Bonds.of(*of_ase(molecule(name))).pairs) == number


def test_molecules_are_whole_where_they_begin_and_under_thermal_vibrations(generator: torch.Generator) -> None:
    for atoms in MOLECULES:
        R, species = of_ase(atoms)
        noise = 0.02 * torch.randn(20, *R.shape, dtype=torch.float64, generator=generator)
        noise[0] = 0.0
        assert Bonds.of(R, species).are_whole(R + noise).all()


@pytest.mark.parametrize(("factor", "whole"), [(1.4, True), (1.6, False), (5.0, False)])
def test_bonds_are_broken_at_one_and_a_half_times_their_length(factor: float, whole: bool) -> None:
    R, bonds = ethanol()
    assert bonds.are_whole(moved(R, 3, 2, factor)).item() is whole


@pytest.mark.parametrize(("factor", "whole"), [(0.85, True), (0.75, False), (0.1, False)])
def test_bonded_atoms_overlap_at_four_fifths_of_their_distance(factor: float, whole: bool) -> None:
    R, bonds = ethanol()
    assert bonds.are_whole(moved(R, 3, 2, factor)).item() is whole


@pytest.mark.parametrize(("distance", "whole"), [(3.4, True), (2.2, True), (1.6, False)])
def test_bonds_that_form_are_noticed_though_none_breaks(distance: float, whole: bool) -> None:
    R, species = of_ase(molecule("C2H4"))

    def pair(apart: float) -> Tensor:
        return torch.cat([R, R + torch.tensor([apart, 0.0, 0.0])])  # face to face

    bonds = Bonds.of(pair(4.0), species.repeat(2))
    assert len(bonds.pairs) == 10
    assert bonds.are_whole(pair(distance)[None]).item() is whole


def test_hydrogen_bonds_are_no_bonds() -> None:
    R, species = of_ase(molecule("H2O"))
    donor = R - R[1]  # a hydrogen in the origin, its oxygen on the other side of the acceptor
    acceptor = R - R[0] - 1.7 * donor[0] / donor[0].norm()
    dimer = torch.cat([donor, acceptor])
    assert len(Bonds.of(dimer, species.repeat(2)).pairs) == 4
    apart = torch.cat([donor, acceptor + 5.0])
    assert Bonds.of(apart, species.repeat(2)).are_whole(dimer[None]).all()


def test_molecules_remain_whole_when_turned_shifted_or_mirrored(generator: torch.Generator) -> None:
    R, bonds = ethanol()
    images = torch.stack([R @ rotation(generator) + 10.0 for _ in range(5)] + [-R])
    assert bonds.are_whole(images).all()


def test_configurations_are_judged_one_by_one_and_nan_is_not_whole() -> None:
    R, bonds = ethanol()
    three = torch.cat([R[None], moved(R, 3, 2, 2.0), R[None] * torch.nan])
    assert bonds.are_whole(three).tolist() == [True, False, False]
