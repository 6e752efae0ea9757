"""A force field as an ASE calculator, for molecular dynamics, relaxations and other uses of ASE.

    atoms.calc = ForceFieldCalculator("molecule.lobal")

ASE is an extra of this package; importing this module needs it.
"""

import os
from typing import Any, final

import torch

try:
    from ase import Atoms
    from ase.calculators.calculator import Calculator, all_changes
except ImportError as error:
    raise ImportError("the calculator needs ASE: pip install 'lobal[molecules]'") from error

from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.trajectory import check_species


@final
class ForceFieldCalculator(Calculator):
    """Energies (eV) and forces (eV / Angstrom) of a force field.

    For a mixture, `results` also hold the "local_bandwidth" (LOB) and the "local_complexity" (LFC).
    """

    implemented_properties = ["energy", "forces"]  # noqa: RUF012 - as ASE declares it

    def __init__(
        self,
        force_field: ForceField | str | os.PathLike[str],  # or the file that it was saved in
        **settings: Any,  # noqa: ANN401 - ASE's own
    ) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self.force_field = force_field if isinstance(force_field, ForceField) else ForceField.load(force_field)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | None = None,
        system_changes: list[str] = all_changes,
    ) -> None:
        """Energy and forces at once, since one costs as much as the other; called by ASE when positions have changed.

        Raises:
            ValueError: the atoms are others than those of the force field, in another order, or periodic.
        """
        super().calculate(atoms, properties or ["energy"], system_changes)  # type: ignore[no-untyped-call]
        molecule: Any = self.atoms
        if {"numbers", "pbc"} & {*system_changes}:
            self._check(molecule)
        (energies, forces), bandwidth = self.force_field.predict_local(molecule.positions[None])
        self.results = {"energy": float(energies[0]), "forces": forces[0]}
        if bandwidth is not None:
            complexity = self.force_field.complexity_at(bandwidth)
            self.results |= {"local_bandwidth": float(bandwidth[0]), "local_complexity": float(complexity[0])}

    def _check(self, molecule: Atoms) -> None:
        check_species(self.force_field.species, torch.as_tensor(molecule.numbers), "the molecule")
        if molecule.pbc.any():
            raise ValueError("the molecule is periodic, the force field is one of a single molecule; set pbc to False")
