"""ASE calculators for `lobal forcefield grow --oracle`: one that stops working, and one that never works."""

from pathlib import Path
from typing import Any

import numpy as np
from ase.calculators.calculator import Calculator

STIFFNESS = 20.0  # eV / Angstrom^2


class Springs(Calculator):
    """Springs between all atoms, at rest where it is asked first; after so many answers there are none.

    The answers of all processes are counted in a file, one byte for each.
    """

    implemented_properties = ["energy", "forces"]  # noqa: RUF012 - as ASE has it

    def __init__(self, counted: Path, most: int) -> None:
        begin: Any = super().__init__  # its arguments are not annotated
        begin()
        self._counted, self._most, self._rest = counted, most, np.empty(0)

    def calculate(self, atoms: Any = None, *_: Any) -> None:
        if self._most == 0 or (self._counted.exists() and self._counted.stat().st_size >= self._most):
            raise RuntimeError("the licence has expired")
        with self._counted.open("ab") as file:
            file.write(b".")
        self.atoms = atoms.copy()  # by which ASE knows the results
        apart = atoms.positions[:, None] - atoms.positions
        r = np.linalg.norm(apart, axis=-1) + np.eye(len(atoms))
        self._rest = self._rest if self._rest.size else r
        stretch = r - self._rest
        forces = -2.0 * STIFFNESS * ((stretch / r)[..., None] * apart).sum(1)
        self.results = {"energy": STIFFNESS * float((stretch**2).sum()) / 2, "forces": forces}


def broken() -> Springs:
    return Springs(Path(), 0)
