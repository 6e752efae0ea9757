"""Configurations of a molecule with energies and forces, from files, in Angstrom, eV and eV / Angstrom.

An npz file has one of two sets of names: R, E, F and z, as the sgdml package writes them, or coords, energies, forces
and nuclear_charges, as rMD17 does. The units are those that the file names (`r_unit`, `e_unit`, as in sgdml's) or else
those that the user names; rMD17 is in kcal/mol, as its description says. Everything else is read by ASE, in its
units, eV and Angstrom.
"""

import io
import logging
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import resolve_device
from lobal.core.files import write_atomically
from lobal.molecules.field.labels import LabelledMolecules
from lobal.molecules.geometry.descriptor import Positions, describe
from lobal.molecules.geometry.units import Units, is_same_unit, units_named

logger = logging.getLogger(__name__)

# Configurations checked at a time: a file may hold hundreds of thousands.
CHECKED_TOGETHER = 4096
# One trajectory in so many is set aside where there are several.
TRAJECTORIES_PER_VALIDATION = 5


@final
@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """Configurations of one molecule, in the order in which they were recorded, with or without labels."""

    source: str  # for messages
    units: str  # of the file, and how they are known
    species: Int[Tensor, " N"]  # atomic numbers
    R: Positions  # Angstrom
    energies: Float[Tensor, " n"] | None = None  # eV
    forces: Float[Tensor, "n N 3"] | None = None  # eV / Angstrom
    number: Int[Tensor, " n"] | None = None  # of the trajectory a configuration is from, if there are several
    row: Int[Tensor, " n"] | None = None  # its place in the pool that it was chosen from, where it was

    def __len__(self) -> int:
        return len(self.R)

    def at(self, rows: Int[Tensor, " m"] | slice) -> "Trajectory":
        """The configurations of some rows."""
        names = ("R", "energies", "forces", "number", "row")
        parts = {name: getattr(self, name) for name in names}
        chosen: dict[str, Any] = {name: None if part is None else part[rows] for name, part in parts.items()}
        return replace(self, **chosen)

    def labelled(self, device: str | torch.device | None = None) -> LabelledMolecules:
        """Descriptors and labels, on a device."""
        where = resolve_device(device)
        energies, forces = (None if part is None else part.to(where) for part in (self.energies, self.forces))
        return LabelledMolecules.at(self.R.to(where), energies=energies, forces=forces)


def set_apart(trajectory: Trajectory, most: int, *, generator: torch.Generator) -> Bool[Tensor, " n"]:
    """Which configurations are set aside for validation or tests: `most` of them at random.

    Where there are several trajectories, it is all of one in `TRAJECTORIES_PER_VALIDATION`: configurations that follow
    each other are alike.
    """
    number = trajectory.number
    names = torch.zeros(0) if number is None else number.unique()
    if number is None or len(names) < TRAJECTORIES_PER_VALIDATION or most == 0:
        kept = torch.randperm(len(trajectory), generator=generator)[:most]
        return torch.zeros(len(trajectory), dtype=torch.bool).index_fill(0, kept, True)
    shuffled = names[torch.randperm(len(names), generator=generator)]
    return torch.isin(number, shuffled[: len(names) // TRAJECTORIES_PER_VALIDATION])


def read_trajectory(
    path: str | os.PathLike[str],
    *,
    energy_unit: str | None = None,
    length_unit: str | None = None,
    labelled: bool = True,
) -> Trajectory:
    """The trajectory of an npz file, or of any file that ASE reads: extended xyz, its databases and trajectories.

    Units have to be given where the file does not name them; lengths are Angstrom by default. With `labelled=False`,
    energies and forces may be missing or not finite.

    Raises:
        ValueError: the file holds something else, several molecules, periodic cells, NaN or atoms that coincide, or
            its units are not known.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    read = _read_npz if path.suffix.lower() == ".npz" else _read_with_ase
    return _trajectory(read(path, energy_unit, length_unit), str(path), labelled=labelled)


def write_configurations(path: Path, trajectory: Trajectory) -> Path:
    """Write positions, and rows where there are any, as extended xyz or, where ASE is not installed, as npz.

    The suffix is added to the path, which is returned. The file appears whole or not at all.
    """
    try:
        from ase import Atoms
        from ase.io import write
    except ImportError:
        return _write_npz(path.with_suffix(".npz"), trajectory)
    rows = [{}] * len(trajectory) if trajectory.row is None else [{ROW: row} for row in trajectory.row.tolist()]
    numbers = trajectory.species.numpy()
    frames = [Atoms(numbers, R, info=info) for R, info in zip(trajectory.R.numpy(), rows, strict=True)]
    text = io.StringIO()
    write(text, frames, format="extxyz")
    file = path.with_suffix(".xyz")
    write_atomically(file, text.getvalue().encode())
    return file


def _write_npz(file: Path, trajectory: Trajectory) -> Path:
    content = io.BytesIO()
    arrays: dict[str, Any] = {"R": trajectory.R.numpy(), "z": trajectory.species.numpy(), "r_unit": "Ang"}
    np.savez(content, **arrays | ({} if trajectory.row is None else {ROW: trajectory.row.numpy()}))
    write_atomically(file, content.getvalue())
    return file


def check_species(expected: Int[Tensor, " N"], got: Int[Tensor, " M"], source: str) -> None:
    """Raise a ValueError for atoms other than the expected ones, or in another order."""
    if expected.tolist() != got.tolist():
        raise ValueError(
            f"{source} has atoms {got.tolist()} (atomic numbers), the force field is one of {expected.tolist()}; "
            "the atoms have to be the same, in the same order"
        )


class _Content(NamedTuple):
    """The content of a file, in its own units and not yet checked."""

    units: Units
    species: Int[Tensor, " N"]
    R: ndarray
    energies: ndarray | None
    forces: ndarray | None
    number: ndarray | None = None
    row: ndarray | None = None


class _Names(NamedTuple):
    """Names of the arrays in a file."""

    R: str
    E: str
    F: str
    z: str


SGDML = _Names("R", "E", "F", "z")
RMD17 = _Names("coords", "energies", "forces", "nuclear_charges")
NUMBER_NAMES = ("traj", "trajectory")
ROW = "row"  # of an npz file's array, or of an entry in the comment of an extended xyz frame


def _read_npz(path: Path, energy_unit: str | None, length_unit: str | None) -> _Content:
    arrays = _arrays(path)
    names = next((names for names in (SGDML, RMD17) if {names.R, names.z} <= arrays.keys()), None)
    if names is None:
        raise ValueError(
            f"{path} must hold arrays {', '.join(SGDML)} or {', '.join(RMD17)}, got {', '.join(arrays) or 'none'}"
        )
    return _Content(
        units=_units(path, arrays, names, energy_unit, length_unit),
        species=_species(arrays[names.z], path),
        R=_numbers(arrays, names.R, path),
        energies=_numbers(arrays, names.E, path) if names.E in arrays else None,
        forces=_numbers(arrays, names.F, path) if names.F in arrays else None,
        number=_first_of(arrays, NUMBER_NAMES),
        row=arrays.get(ROW),
    )


def _arrays(path: Path) -> dict[str, ndarray]:
    """The arrays of an npz file without those that are pickled."""
    arrays = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for name in file.files:
                try:
                    arrays[name] = file[name]
                except ValueError:
                    logger.info("array %r of %s is pickled, and not read", name, path)
    except (ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} cannot be read as an npz file of plain arrays, though it is named like one"
        ) from error
    return arrays


def _units(
    path: Path, arrays: dict[str, ndarray], names: _Names, energy_unit: str | None, length_unit: str | None
) -> Units:
    """The units that the file names, or else the user, or else rMD17's description; never a guess."""
    for field, given in (("e_unit", energy_unit), ("r_unit", length_unit)):
        if given is not None and field in arrays and not is_same_unit(given, str(arrays[field])):
            raise ValueError(f"{path} has {field} {str(arrays[field])!r}, but {given!r} was given")
    length = str(arrays.get("r_unit", length_unit or "Ang"))
    if "e_unit" in arrays:
        _check_force_unit(path, arrays, length)
        return units_named(str(arrays["e_unit"]), length, "according to the file")
    if energy_unit is not None:
        return units_named(energy_unit, length, "as given")
    if not {names.E, names.F} & arrays.keys():
        return units_named("eV", length, "without energies")
    if names is RMD17:
        return units_named("kcal/mol", length, "as files of rMD17 are")
    raise ValueError(
        f"{path} does not name the unit of its energies (no e_unit); give the energy unit (--energy-unit). "
        "Files of MD17 and sGDML without it are mostly in kcal/mol"
    )


def _check_force_unit(path: Path, arrays: dict[str, ndarray], length: str) -> None:
    """Raise a ValueError for forces in other units than those of energies and lengths."""
    energy, _, by = str(arrays.get("f_unit", f"{arrays['e_unit']}/{length}")).rpartition("/")
    if not (is_same_unit(energy, str(arrays["e_unit"])) and is_same_unit(by, length)):
        raise ValueError(
            f"{path} must have forces in its units of energy and length, {arrays['e_unit']}/{length}, "
            f"got {str(arrays['f_unit'])!r}"
        )


def _read_with_ase(path: Path, energy_unit: str | None, length_unit: str | None) -> _Content:
    try:
        from ase.io import read
    except ImportError as error:
        raise ValueError(f"{path.suffix} files are read by ASE: pip install 'lobal[molecules]', or use npz") from error
    try:
        frames: Any = read(path, index=":")
    except Exception as error:  # ASE has no error of its own for a file that it cannot make sense of
        raise ValueError(f"{path} cannot be read by ASE: {error or type(error).__name__}") from error
    source = "as read by ASE" if energy_unit is None and length_unit is None else "as given"
    units = units_named(energy_unit or "eV", length_unit or "Ang", source)
    _check_frames(frames, path)
    return _Content(
        units=units,
        species=_species(frames[0].numbers, path),
        R=np.stack([frame.positions for frame in frames]),
        energies=_results(frames, "energy", path),
        forces=_results(frames, "forces", path),
        row=_rows(frames),
    )


def _check_frames(frames: Sequence[Any], path: Path) -> None:
    if not frames:
        raise ValueError(f"{path} holds no configurations")
    for row, frame in enumerate(frames):
        if frame.numbers.tolist() != frames[0].numbers.tolist():
            raise ValueError(
                f"{path} holds several molecules: configuration {row} is {frame.get_chemical_formula(mode='reduce')}, "
                f"the first {frames[0].get_chemical_formula(mode='reduce')}; one file per molecule and order of atoms"
            )
        if frame.pbc.any():
            raise ValueError(f"configuration {row} of {path} is periodic; these force fields are of single molecules")


def _results(frames: Sequence[Any], name: str, path: Path) -> ndarray | None:
    """Results of all frames, which ASE keeps with the frame's calculator."""
    results = [{} if frame.calc is None else frame.calc.results for frame in frames]
    missing = [row for row, result in enumerate(results) if name not in result]
    if len(missing) == len(frames):
        return None
    if missing:
        raise ValueError(f"configuration {missing[0]} of {path} has no {name}, others have; leave it out")
    return np.stack([result[name] for result in results])


def _rows(frames: Sequence[Any]) -> ndarray | None:
    rows = [frame.info.get(ROW) for frame in frames]
    return np.array(rows) if all(isinstance(row, int | np.integer) for row in rows) else None


def _species(values: ndarray, path: Path) -> Int[Tensor, " N"]:
    """Atomic numbers, given once or for every configuration."""
    rows = np.atleast_2d(values)
    different = np.flatnonzero((rows != rows[0]).any(1))
    if len(different) > 0:
        raise ValueError(
            f"{path} holds several molecules: the atoms of configuration {different[0]} are not the first's"
        )
    if rows.dtype.kind not in "iu" and not (rows.dtype.kind == "f" and (rows == rows.round()).all()):
        raise ValueError(f"{path} must have atomic numbers as species, got {rows[0].tolist()}")
    return torch.from_numpy(rows[0].astype(np.int64))


def _numbers(arrays: dict[str, ndarray], name: str, path: Path) -> ndarray:
    if arrays[name].dtype.kind not in "fiu":
        raise ValueError(f"array {name!r} of {path} must hold numbers, got dtype {arrays[name].dtype}")
    return arrays[name]


def _first_of(arrays: dict[str, ndarray], names: Sequence[str]) -> ndarray | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _trajectory(content: _Content, source: str, *, labelled: bool) -> Trajectory:
    """The trajectory in lobal's units, if shapes fit, all numbers are finite, and no atoms coincide."""
    N, shape, units = len(content.species), content.R.shape, content.units
    if len(shape) != 3 or shape[1:] != (N, 3) or shape[0] == 0:
        raise ValueError(f"{source} must have positions of shape (n, {N}, 3) for its {N} atoms, got {shape}")
    if labelled and content.energies is None and content.forces is None:
        raise ValueError(f"{source} has neither energies nor forces")
    energies = content.energies
    if energies is not None and energies.shape == (shape[0], 1):  # as MD17 has them
        energies = energies[:, 0]
    R = _tensor(content.R, units.length)
    E = None if energies is None else _tensor(energies, units.energy)
    F = None if content.forces is None else _tensor(content.forces, units.force)
    try:
        checked = [part if labelled or part is None else part.nan_to_num() for part in (E, F)]
        LabelledMolecules.check(R, energies=checked[0], forces=checked[1])
        _check_positions(R)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    return Trajectory(
        source=source,
        units=units.words,
        species=content.species,
        R=R,
        energies=E,
        forces=F,
        number=_whole_numbers(content.number, shape[0]),
        row=_whole_numbers(content.row, shape[0]),
    )


def _check_positions(R: Positions) -> None:
    """Check positions in parts; messages count configurations from the first of a part."""
    for start in range(0, len(R), CHECKED_TOGETHER):
        try:
            describe(R[start : start + CHECKED_TOGETHER])
        except ValueError as error:
            raise ValueError(f"{error} (counted from configuration {start})" if start else str(error)) from error


def _tensor(values: ndarray, unit: float) -> Float[Tensor, "..."]:
    return torch.from_numpy(values.astype(np.float64) * unit)


def _whole_numbers(values: ndarray | None, n: int) -> Int[Tensor, " n"] | None:
    return torch.from_numpy(values.astype(np.int64)) if values is not None and values.shape == (n,) else None
