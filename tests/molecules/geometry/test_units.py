import pytest

from lobal.molecules.geometry.units import is_same_unit, units_named


@pytest.mark.parametrize(
    ("energy", "length", "expected"),
    [
        ("eV", "Ang", (1.0, 1.0)),
        ("kcal/mol", "Angstrom", (0.0433641, 1.0)),
        ("kcal mol-1", "A", (0.0433641, 1.0)),
        ("Hartree", "Bohr", (27.211386, 0.529177)),
        ("kJ/mol", "nm", (0.0103643, 10.0)),
    ],
)
def test_units_in_ev_and_angstrom(energy: str, length: str, expected: tuple[float, float]) -> None:
    units = units_named(energy, length, "as given")
    assert units[:2] == pytest.approx(expected, rel=1e-5)
    assert units.force == pytest.approx(expected[0] / expected[1], rel=1e-5)
    assert units.words == f"{energy} and {length}, as given"


def test_unknown_units_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unit of energy must be one of ev, .*, got 'furlong'"):
        units_named("furlong", "Ang", "as given")
    with pytest.raises(ValueError, match=r"unit of length must be one of ang, .*, got 'eV'"):
        units_named("eV", "eV", "as given")


def test_a_unit_has_several_names() -> None:
    assert is_same_unit("Angstrom", "Ang")
    assert is_same_unit("kcal mol^-1", "kcal/mol")
    assert not is_same_unit("eV", "meV")
