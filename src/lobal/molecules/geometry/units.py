"""Units of energy and length that files come in; lobal's own are eV and Angstrom."""

import re
from typing import NamedTuple

# In eV and Angstrom, CODATA 2018; by the names that files use, in lower case.
ENERGIES = {
    "ev": 1.0,
    "mev": 1e-3,
    "kcal/mol": 0.0433641153087705,
    "kj/mol": 0.010364269656262174,
    "hartree": 27.211386245988,
}
LENGTHS = {"ang": 1.0, "bohr": 0.529177210903, "nm": 10.0}
ALIASES = {
    "angstrom": "ang",
    "angstroms": "ang",
    "a": "ang",
    "å": "ang",
    "ha": "hartree",
    "eh": "hartree",
    "a0": "bohr",
}


class Units(NamedTuple):
    """Units of a file's energies and lengths, in eV and Angstrom."""

    energy: float
    length: float
    words: str  # their names, and how they are known

    @property
    def force(self) -> float:
        """The unit of forces: energy by length."""
        return self.energy / self.length


def units_named(energy: str, length: str, source: str) -> Units:
    """The units of those names.

    Raises:
        ValueError: a name is not known.
    """
    return Units(
        _factor(energy, ENERGIES, "energy"), _factor(length, LENGTHS, "length"), f"{energy} and {length}, {source}"
    )


def is_same_unit(one: str, other: str) -> bool:
    """Whether two names are those of the same unit."""
    return _plain(one) == _plain(other)


def _factor(name: str, known: dict[str, float], what: str) -> float:
    if _plain(name) not in known:
        raise ValueError(f"the unit of {what} must be one of {', '.join(known)}, got {name!r}")
    return known[_plain(name)]


def _plain(name: str) -> str:
    words = re.sub(r"\s|\^-1|-1", "", name.lower()).replace("kcalmol", "kcal/mol").replace("kjmol", "kj/mol")
    return ALIASES.get(words, words)
