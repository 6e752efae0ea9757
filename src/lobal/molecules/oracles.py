"""Labels of configurations from quantum chemistry, as an oracle of the learner.

    with Workers(oracle_named("gfn2", [8, 1, 1]), processes, 4) as workers:
        workers.run(learner, 100)

Programs have one thread each, since several processes share a machine (`single_thread`).
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.core.checks import shown, whole_number
from lobal.molecules.geometry.trajectory import HEAVIEST
from lobal.molecules.programs import PROGRAMS, Calculation, Label, Molecule, Program, ase_calculation, check_label
from lobal.molecules.single_thread import SingleThread

logger = logging.getLogger(__name__)


@final
class CalculationFailedError(RuntimeError):
    """There is no label of a configuration."""


@final
@dataclass(frozen=True)
class MolecularOracle:
    """Energies and forces of configurations; make one with `oracle_named`.

    It can be sent to other processes: each sets up the program at its first call, and uses it again for the next ones.
    """

    name: str
    molecule: Molecule

    def __call__(self, R: Float[ndarray, "m N 3"]) -> tuple[Float[ndarray, " m"], Float[ndarray, "m N 3"]]:
        """Energies in eV and forces in eV / Angstrom of positions in Angstrom.

        A calculation fails if it raises, does not converge or returns NaN; the next one then begins with a program that
        is set up anew. Of several configurations those that fail have NaN, and the reason is logged.

        Raises:
            CalculationFailedError: there is one configuration, and its calculation failed.
            ImportError: the program's package, or the module of the factory, is not installed.
            ValueError: the positions are not those of the molecule's atoms.
        """
        positions = self._checked(R)
        labels = [self._label(each) for each in positions] if len(positions) == 1 else self._labels_or_nan(positions)
        forces = np.array([label.forces for label in labels]).reshape(positions.shape)
        return np.array([label.energy for label in labels]), forces

    def check(self, R: Float[ndarray, "N 3"]) -> Label:
        """The label of one configuration, computed to see that the program works; raises what calls raise."""
        (positions,) = self._checked(np.asarray(R)[None])
        try:
            return self._label(positions)
        except CalculationFailedError as error:
            raise CalculationFailedError(
                f"{error}; look at the positions, in Angstrom, of atoms {list(self.molecule.species)}, the charge, "
                f"{self.molecule.charge}, and the multiplicity, {self.molecule.multiplicity}"
            ) from error

    def _checked(self, R: Any) -> Float[ndarray, "m N 3"]:  # noqa: ANN401 - an array-like
        positions = np.asarray(R, dtype=np.float64)
        N = len(self.molecule.species)
        if positions.ndim != 3 or positions.shape[1:] != (N, 3):
            raise ValueError(f"positions must have shape (m, {N}, 3) for {N} atoms, got {positions.shape}")
        return positions

    def _labels_or_nan(self, R: Float[ndarray, "m N 3"]) -> list[Label]:
        labels = []
        for row, positions in enumerate(R):
            try:
                labels.append(self._label(positions))
            except CalculationFailedError as error:
                logger.warning("configuration %d of %d has no label: %s", row, len(R), error)
                labels.append(Label(np.nan, np.full_like(positions, np.nan)))
        return labels

    def _label(self, R: Float[ndarray, "N 3"]) -> Label:
        """A label by this thread's calculation, which is set up anew after a failure."""
        calculations = _OWN.calculations
        calculation = calculations.pop(self, None) or self._set_up()
        try:
            with _ONE.calculation():
                label = calculation(R)
            check_label(label, len(R))
        except Exception as error:  # of any program
            raise CalculationFailedError(f"{self.name!r} failed: {_reason(error)}") from error
        calculations[self] = calculation
        return label

    def _set_up(self) -> Calculation:
        calculation = _program(self.name)(self.molecule)
        _ONE.look_for_libraries()
        return calculation


def oracle_named(name: str, species: Sequence[int], *, charge: int = 0, multiplicity: int = 1) -> MolecularOracle:
    """An oracle that computes energies and forces of one molecule.

    Args:
        name: "gfn2" or "gfn1", GFN-xTB by tblite; "pbe", PBE/def2-SVP by PySCF; or "module:function", a function
            without arguments that returns an ASE calculator.
        species: atomic numbers, in the order of the positions.
        charge: of the molecule, in elementary charges; of an ASE calculator, its function says what it is.
        multiplicity: 1 for closed shells, 2 for one unpaired electron, and so on; likewise.

    Raises:
        ValueError: the name is not known, or the molecule cannot be.

    Example:
        >>> oracle = oracle_named("gfn2", [8, 1, 1])
        >>> energies, forces = oracle(R)  # doctest: +SKIP
    """
    if not isinstance(name, str) or (name not in PROGRAMS and not all(name.partition(":"))):
        raise ValueError(f"the oracle must be one of {', '.join(PROGRAMS)}, or 'module:function', got {shown(name)}")
    molecule = Molecule(
        species=_atomic_numbers(species),
        charge=whole_number("charge", charge, least=-sum(_atomic_numbers(species))),
        multiplicity=whole_number("multiplicity", multiplicity, least=1),
    )
    if name in PROGRAMS:
        molecule.check_electrons()
    elif (molecule.charge, molecule.multiplicity) != (0, 1):
        raise ValueError(
            f"charge {charge} and multiplicity {multiplicity} are for {', '.join(PROGRAMS)}; set them in {name}"
        )
    return MolecularOracle(name, molecule)


def _atomic_numbers(species: Any) -> tuple[int, ...]:  # noqa: ANN401 - an array-like
    numbers = np.asarray(species)
    is_valid = numbers.ndim == 1 and numbers.size > 0 and numbers.dtype.kind in "iu"
    if not (is_valid and numbers.min() >= 1 and numbers.max() <= HEAVIEST):
        raise ValueError(f"species must be atomic numbers from 1 to {HEAVIEST}, one per atom, got {shown(species)}")
    return tuple(numbers.tolist())


def _program(name: str) -> Program:
    return PROGRAMS[name] if name in PROGRAMS else partial(ase_calculation, factory=name)


@final
class _Own(threading.local):
    """What a thread has set up: programs are not made for several at a time."""

    def __init__(self) -> None:
        self.calculations: dict[MolecularOracle, Calculation] = {}


_OWN, _ONE = _Own(), SingleThread()


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
