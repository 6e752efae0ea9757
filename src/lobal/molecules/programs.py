"""Quantum chemistry programs: energies and forces of one configuration, in eV and eV / Angstrom.

Their packages are imported when a calculation is set up, not with this module.
"""

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.molecules.geometry.units import ENERGIES, LENGTHS

HARTREE, BOHR = ENERGIES["hartree"], LENGTHS["bohr"]
# Of tblite's thresholds; at its default, 1, forces of malonaldehyde are up to 1e-3 eV / Angstrom off, here 1e-5.
GFN_ACCURACY = 0.01
# Hartree, and Hartree / Bohr for the gradient of orbitals: forces within 1e-5 eV / Angstrom of the converged ones.
ENERGY_TOLERANCE, ORBITAL_TOLERANCE = 1e-10, 1e-6
FIRST_WITH_ECP = 37  # def2 has effective core potentials from rubidium on
LANTHANIDES = range(57, 72)  # GFN has three electrons for each, whatever the others do


class Label(NamedTuple):
    """What a program says of one configuration."""

    energy: float  # eV
    forces: Float[ndarray, "N 3"]  # eV / Angstrom


Calculation: TypeAlias = Callable[[Float[ndarray, "N 3"]], Label]


@final
@dataclass(frozen=True, kw_only=True)
class Molecule:
    """Whose energies are computed."""

    species: tuple[int, ...]  # atomic numbers
    charge: int = 0
    multiplicity: int = 1  # 2 S + 1

    @property
    def unpaired(self) -> int:
        """The number of unpaired electrons."""
        return self.multiplicity - 1

    def check_electrons(self) -> None:
        """Raise a ValueError if the molecule cannot have so many unpaired electrons."""
        electrons = sum(self.species) - self.charge
        is_counted = {*self.species}.isdisjoint(LANTHANIDES)
        if electrons < max(self.unpaired, 1) or (is_counted and (electrons - self.unpaired) % 2 == 1):
            raise ValueError(
                f"{electrons} electrons (atomic numbers {list(self.species)}, charge {self.charge}) cannot have "
                f"multiplicity {self.multiplicity}; correct the charge or the multiplicity"
            )


# How the calculation of a program is set up for a molecule.
Program: TypeAlias = Callable[[Molecule], Calculation]


def tight_binding(molecule: Molecule, *, method: str) -> Calculation:
    """Extended tight binding by tblite; no call knows of the ones before it."""
    try:
        from tblite.interface import Calculator
    except ImportError as error:
        raise ImportError(f"{method} needs tblite: pip install 'lobal[molecules]'") from error
    calculators: list[Any] = []  # one, once there are positions

    def label(R: Float[ndarray, "N 3"]) -> Label:
        if not calculators:
            species = np.array(molecule.species)
            calculators.append(Calculator(method, species, R / BOHR, float(molecule.charge), molecule.unpaired))
            calculators[0].set("verbosity", 0)
            calculators[0].set("accuracy", GFN_ACCURACY)
        calculators[0].update(positions=R / BOHR)
        result = calculators[0].singlepoint()
        return Label(HARTREE * float(result.get("energy")), -HARTREE / BOHR * result.get("gradient"))

    return label


def density_functional(molecule: Molecule, *, functional: str, basis: str) -> Calculation:
    """Kohn-Sham DFT by PySCF with density fitting, unrestricted for open shells.

    Gradients include the response of the grid, so that forces are the slopes of energies. Every call begins with the
    same guess; from the orbitals of the call before, labels would come an eighth sooner and depend on their order.
    """
    try:
        from pyscf import dft, gto
        from pyscf.data.elements import ELEMENTS
    except ImportError as error:
        raise ImportError(f"{functional} needs PySCF: pip install 'lobal[dft]'") from error
    method = dft.RKS if molecule.unpaired == 0 else dft.UKS
    options: dict[str, Any] = {
        "charge": molecule.charge,
        "spin": molecule.unpaired,
        "basis": basis,
        "ecp": {ELEMENTS[number]: basis for number in molecule.species if number >= FIRST_WITH_ECP},
    }

    def label(R: Float[ndarray, "N 3"]) -> Label:
        atoms = [(number, place.tolist()) for number, place in zip(molecule.species, R, strict=True)]
        field = method(gto.M(atom=atoms, unit="Angstrom", verbose=0, **options), xc=functional).density_fit()
        field = _converged(field)
        gradient = field.nuc_grad_method()
        gradient.grid_response = True
        return Label(HARTREE * float(field.e_tot), -HARTREE / BOHR * gradient.kernel())

    return label


def _converged(field: Any) -> Any:  # noqa: ANN401 - PySCF has no types
    """The self-consistent field, by Newton's method where the usual one does not converge.

    Raises:
        RuntimeError: that does not either.
    """
    for each in (field, field.newton()):
        _write_nothing(each)
        each.conv_tol, each.conv_tol_grad = ENERGY_TOLERANCE, ORBITAL_TOLERANCE
        each.kernel()
        if each.converged:
            return each
    raise RuntimeError(f"the self-consistent field did not converge in {field.max_cycle} cycles")


def _write_nothing(field: Any) -> None:  # noqa: ANN401 - PySCF has no types
    """Close the file that PySCF would keep every cycle in, and leave open."""
    field.chkfile = None
    file = getattr(field, "_chkfile", None)
    if file is not None:
        file.close()


PROGRAMS: Mapping[str, Program] = {
    "gfn1": partial(tight_binding, method="GFN1-xTB"),
    "gfn2": partial(tight_binding, method="GFN2-xTB"),
    "pbe": partial(density_functional, functional="PBE", basis="def2-svp"),
}


def ase_calculation(molecule: Molecule, *, factory: str) -> Calculation:
    """Energies and forces from the ASE calculator that the function `module:function` returns."""
    try:
        from ase import Atoms
        from ase.calculators.abc import GetPropertiesMixin
    except ImportError as error:
        raise ImportError(f"{factory} needs ASE: pip install 'lobal[molecules]'") from error
    calculator = _found(factory)()
    if not isinstance(calculator, GetPropertiesMixin):
        raise ValueError(
            f"{factory} must be a function without arguments that returns an ASE calculator, "
            f"it returned {type(calculator).__name__}"
        )

    def label(R: Float[ndarray, "N 3"]) -> Label:
        atoms: Any = Atoms(molecule.species, R)
        atoms.calc = calculator
        return Label(float(atoms.get_potential_energy()), np.array(atoms.get_forces(), dtype=np.float64))

    return label


def _found(factory: str) -> Callable[[], object]:
    """The function of that name, `module:function`; modules in the current folder are found too."""
    module, _, function = factory.partition(":")
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        found: object = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # a module that the user's own needs
        raise ImportError(
            f"there is no module {module!r} for {factory!r}: put {module.replace('.', '/')}.py into the current "
            "folder, or its folder into PYTHONPATH, for all processes that compute labels"
        ) from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise ImportError(f"{module} has no function {function!r}; {factory!r} must be 'module:function'")
    return found


def check_label(label: Label, n_atoms: int) -> None:
    """Raise a ValueError if a label has another shape than that of so many atoms, or a number that is not finite."""
    if label.forces.shape != (n_atoms, 3):
        raise ValueError(f"expected forces of shape ({n_atoms}, 3), got {label.forces.shape}")
    if not (math.isfinite(label.energy) and np.isfinite(label.forces).all()):
        raise ValueError(f"expected finite numbers, got energy {label.energy:g} and forces\n{label.forces}")
