"""Units of energy and length that files come in; lobal's own are eV and Angstrom."""

import re
from collections.abc import Mapping

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


def unit_named(name: str, known: Mapping[str, float], what: str) -> float:
    """The unit of that name in lobal's.

    Raises:
        ValueError: the name is not known.
    """
    if _plain(name) not in known:
        raise ValueError(f"the unit of {what} must be one of {', '.join(known)}, got {name!r}")
    return known[_plain(name)]


def is_same_unit(one: str, other: str) -> bool:
    """Whether two names are those of the same unit."""
    return _plain(one) == _plain(other)


def _plain(name: str) -> str:
    words = re.sub(r"\s|\^-1|-1", "", name.lower()).replace("kcalmol", "kcal/mol").replace("kjmol", "kj/mol")
    return ALIASES.get(words, words)
