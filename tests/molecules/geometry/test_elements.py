import pytest
import torch

from lobal.molecules.geometry.elements import (
    COVALENT_RADII,
    MASSES,
    SYMBOLS,
    atom_names,
    covalent_radii_of,
    masses_of,
    symbol_of,
)

ase_data = pytest.importorskip("ase.data", reason="ASE is not installed")

ALL = torch.arange(1, len(SYMBOLS))


def test_masses_are_standard_atomic_weights_to_three_digits() -> None:
    expected = torch.from_numpy(ase_data.atomic_masses[1 : len(SYMBOLS)])
    torch.testing.assert_close(masses_of(ALL), expected, rtol=0.0, atol=6e-4)


def test_covalent_radii_are_those_of_cordero() -> None:
    expected = torch.from_numpy(ase_data.covalent_radii[1 : len(SYMBOLS)])
    torch.testing.assert_close(covalent_radii_of(ALL), expected, rtol=0.0, atol=1e-12)


def test_symbols_have_the_places_of_their_atomic_numbers() -> None:
    assert [symbol_of(z) for z in ALL.tolist()] == ase_data.chemical_symbols[1 : len(SYMBOLS)]
    assert len(MASSES) == len(COVALENT_RADII) == len(SYMBOLS) == 87


@pytest.mark.parametrize("unknown", [-1, 0, 87])
def test_other_atomic_numbers_are_refused(unknown: int) -> None:
    for of in (masses_of, covalent_radii_of):
        with pytest.raises(ValueError, match=f"atomic numbers must be 1 to 86 to have masses and radii, got {unknown}"):
            of(torch.tensor([6, unknown]))


def test_atoms_are_named_by_symbol_and_place() -> None:
    assert atom_names(torch.tensor([6, 1, 35])) == ["C0", "H1", "Br2"]


def test_elements_without_a_symbol_are_named_by_their_number() -> None:
    assert [symbol_of(z) for z in (0, 110)] == ["Z0", "Z110"]
    assert atom_names(torch.tensor([110, 1])) == ["Z110-0", "H1"]
