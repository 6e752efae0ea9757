import pytest

from lobal.molecules.geometry.units import ENERGIES, LENGTHS, is_same_unit, unit_named


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("eV", ENERGIES, 1.0),
        ("kcal mol-1", ENERGIES, 0.0433641),
        ("Hartree", ENERGIES, 27.211386),
        ("kJ/mol", ENERGIES, 0.0103643),
        ("Angstrom", LENGTHS, 1.0),
        ("Bohr", LENGTHS, 0.529177),
        ("nm", LENGTHS, 10.0),
    ],
)
def test_units_in_ev_and_angstrom(name: str, known: dict[str, float], expected: float) -> None:
    assert unit_named(name, known, "energy") == pytest.approx(expected, rel=1e-5)


def test_unknown_units_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unit of energy must be one of ev, .*, got 'furlong'"):
        unit_named("furlong", ENERGIES, "energy")


def test_a_unit_has_several_names() -> None:
    assert is_same_unit("Angstrom", "Ang")
    assert is_same_unit("kcal mol^-1", "kcal/mol")
    assert not is_same_unit("eV", "meV")
