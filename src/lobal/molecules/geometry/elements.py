"""Symbols, masses and radii of the elements up to radon, by atomic number; the first entry stands for no atom.

Standard atomic weights (IUPAC; the mass number of the longest-lived isotope where there is none) and covalent radii
(Cordero et al., Dalton Transactions, 2008).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_ROWS = (
    "X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr",
    "Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu",
    "Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn",
)
SYMBOLS = tuple(" ".join(_ROWS).split())
# Daltons.
MASSES = (
    *(0.0, 1.008, 4.003, 6.94, 9.012, 10.81, 12.011, 14.007, 15.999, 18.998, 20.18),
    *(22.99, 24.305, 26.982, 28.085, 30.974, 32.06, 35.45, 39.948, 39.098, 40.078),
    *(44.956, 47.867, 50.942, 51.996, 54.938, 55.845, 58.933, 58.693, 63.546, 65.38),
    *(69.723, 72.63, 74.922, 78.971, 79.904, 83.798, 85.468, 87.62, 88.906, 91.224),
    *(92.906, 95.95, 97.907, 101.07, 102.906, 106.42, 107.868, 112.414, 114.818, 118.71),
    *(121.76, 127.6, 126.904, 131.293, 132.905, 137.327, 138.905, 140.116, 140.908, 144.242),
    *(144.913, 150.36, 151.964, 157.25, 158.925, 162.5, 164.93, 167.259, 168.934, 173.054),
    *(174.967, 178.49, 180.948, 183.84, 186.207, 190.23, 192.217, 195.084, 196.967, 200.592),
    *(204.38, 207.2, 208.98, 208.982, 209.987, 222.018),
)
# Angstrom.
COVALENT_RADII = (
    *(0.0, 0.31, 0.28, 1.28, 0.96, 0.84, 0.76, 0.71, 0.66, 0.57, 0.58),
    *(1.66, 1.41, 1.21, 1.11, 1.07, 1.05, 1.02, 1.06, 2.03, 1.76),
    *(1.7, 1.6, 1.53, 1.39, 1.39, 1.32, 1.26, 1.24, 1.32, 1.22),
    *(1.22, 1.2, 1.19, 1.2, 1.2, 1.16, 2.2, 1.95, 1.9, 1.75),
    *(1.64, 1.54, 1.47, 1.46, 1.42, 1.39, 1.45, 1.44, 1.42, 1.39),
    *(1.39, 1.38, 1.39, 1.4, 2.44, 2.15, 2.07, 2.04, 2.03, 2.01),
    *(1.99, 1.98, 1.98, 1.96, 1.94, 1.92, 1.92, 1.89, 1.9, 1.87),
    *(1.87, 1.75, 1.7, 1.62, 1.51, 1.44, 1.41, 1.36, 1.36, 1.32),
    *(1.45, 1.46, 1.48, 1.4, 1.5, 1.5),
)


def masses_of(species: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    """The masses of atoms in Daltons.

    Raises:
        ValueError: an atomic number is not one of 1 to 86.
    """
    return _looked_up(MASSES, species)


def covalent_radii_of(species: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    """The covalent radii of atoms in Angstrom; raises what `masses_of` raises."""
    return _looked_up(COVALENT_RADII, species)


def _looked_up(table: tuple[float, ...], species: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    unknown = species[(species < 1) | (species >= len(table))].tolist()
    if unknown:
        raise ValueError(f"atomic numbers must be 1 to {len(table) - 1} to have masses and radii, got {unknown[0]}")
    return torch.tensor(table, dtype=torch.float64)[species.cpu()].to(species.device)


def symbol_of(z: int) -> str:
    """The symbol of an element; Z110, say, of one that has none here."""
    return SYMBOLS[z] if 0 < z < len(SYMBOLS) else f"Z{z}"


def atom_names(species: Int[Tensor, " N"]) -> list[str]:
    """The atoms' symbols with their places in the molecule, from 0: C0, C1, O2."""
    symbols = [symbol_of(z) for z in species.tolist()]
    return [f"{symbol}{'-' * symbol[-1].isdigit()}{place}" for place, symbol in enumerate(symbols)]
