"""Groups of like atoms that turn, in the molecules of the examples and others."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.permutations import closure, identity
from lobal.molecules.geometry.rotors import rotor_cycles
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory

EXAMPLES = Path(__file__).parents[3] / "examples" / "molecules"


def example(name: str) -> Trajectory:
    return read_trajectory(EXAMPLES / f"{name}.xyz", labelled=False)


def moved(permutations: Tensor) -> list[int]:
    return [int((row != torch.arange(len(row))).sum()) for row in permutations]


@pytest.mark.parametrize(
    ("name", "turns"), [("malonaldehyde", []), ("ethanol", [3]), ("glycine", [2]), ("aspirin", [3])]
)
def test_every_methyl_group_and_every_amine_is_one(name: str, turns: list[int]) -> None:
    molecule = example(name)
    cycles = rotor_cycles(molecule.R[0], molecule.species)
    assert moved(cycles) == turns
    assert (molecule.species[cycles] == molecule.species).all()


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        ("CH3NO2", [3, 2]),
        ("CH3CONH2", [3, 2]),
        ("C2H4", []),  # a double bond
        ("H2CO", []),
        ("H3CNH2", [3, 2]),
        ("H2O", []),
        ("NH3", []),  # three hydrogens, and no further bond
    ],
)
def test_two_atoms_turn_unless_a_double_bond_holds_them(name: str, turns: list[int]) -> None:
    molecule = pytest.importorskip("ase.build").molecule(name)
    cycles = rotor_cycles(torch.from_numpy(molecule.positions), torch.from_numpy(molecule.numbers))
    assert sorted(moved(cycles), reverse=True) == turns


def test_a_turn_done_three_times_is_none() -> None:
    molecule = example("ethanol")
    (cycle,) = rotor_cycles(molecule.R[0], molecule.species)
    torch.testing.assert_close(cycle[cycle][cycle], torch.arange(len(cycle)))
    assert len(closure(torch.cat([identity(len(cycle)), cycle[None]]))) == 3


def test_methane_and_crowded_molecules_have_none() -> None:
    """The four of methane are alike, and neopentane has four groups, 81 turns in all."""
    corners = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=torch.float64) / 3**0.5
    methane = torch.cat([torch.zeros(1, 3, dtype=torch.float64), 1.09 * corners])
    assert len(rotor_cycles(methane, torch.tensor([6, 1, 1, 1, 1]))) == 0
    ends = [1.54 * corner - 1.09 * other for corner in corners for other in corners if (other != corner).any()]
    neopentane = torch.cat([methane[:1], 1.54 * corners, torch.stack(ends)])
    assert len(rotor_cycles(neopentane, torch.tensor([6] * 5 + [1] * 12))) == 0


def test_known_symmetries_are_completed_by_those_that_configurations_show() -> None:
    """Ethanol near one configuration and its mirror image shows one exchange; with the turns of CH3 these are six."""
    molecule, generator = example("ethanol"), torch.Generator().manual_seed(0)
    noise = 0.02 * torch.randn(40, *molecule.R.shape[1:], dtype=torch.float64, generator=generator)
    R, known = molecule.R + noise, rotor_cycles(molecule.R[0], molecule.species)
    shown = permutation_group(R, molecule.species)
    assert len(permutation_group(R, molecule.species, known=known)) == 3 * len(shown)
