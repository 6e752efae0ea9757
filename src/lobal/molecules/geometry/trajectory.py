"""Configurations of a molecule with energies and forces, from files, in Angstrom, eV and eV / Angstrom.

An npz file has one of two sets of names: R, E, F and z, as the sgdml package writes them, or coords, energies, forces
and nuclear_charges, as rMD17 does. The units are those that the file names (`r_unit`, `e_unit`, as in sgdml's), or else
Angstrom and the unit of energy that the user names; rMD17 is in kcal/mol, as its description says. Everything else is
read by ASE, in its units, eV and Angstrom.
"""

import io
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.spatial import KDTree
from torch import Tensor

from lobal.core.archives import read_npz
from lobal.core.arrays import resolve_device
from lobal.core.checks import shown
from lobal.core.files import open_plain, write_atomically
from lobal.molecules.field.labels import LabelledMolecules
from lobal.molecules.geometry.descriptor import Positions, descriptors
from lobal.molecules.geometry.units import ENERGIES, LENGTHS, is_same_unit, unit_named

logger = logging.getLogger(__name__)

# One trajectory in so many is set aside where there are several.
TRAJECTORIES_PER_VALIDATION = 5
HEAVIEST = 118  # atomic number
SAME_PLACE = 1e-4  # Angstrom: files round positions to less, and no two frames of a trajectory are as close
# Names of the arrays in npz files, by those of the sgdml package.
SGDML = {name: name for name in ("R", "E", "F", "z")}
RMD17 = {"R": "coords", "E": "energies", "F": "forces", "z": "nuclear_charges"}
ABOUT = {name: name for name in ("traj", "e_unit", "r_unit", "f_unit")}


@final
@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """Configurations of one molecule, in the order in which they were recorded, with or without labels."""

    source: str  # for messages
    units: str  # of the file
    species: Int[Tensor, " N"]  # atomic numbers
    R: Positions  # Angstrom
    energies: Float[Tensor, " n"] | None = None  # eV
    forces: Float[Tensor, "n N 3"] | None = None  # eV / Angstrom
    number: Int[Tensor, " n"] | None = None  # of the trajectory a configuration is from, if there are several

    def __len__(self) -> int:
        return len(self.R)

    def at(self, rows: Int[Tensor, " m"] | slice) -> "Trajectory":
        """The configurations of some rows."""
        parts = {name: getattr(self, name) for name in ("R", "energies", "forces", "number")}
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
    path: str | os.PathLike[str], *, energy_unit: str | None = None, labelled: bool = True
) -> Trajectory:
    """The trajectory of an npz file, or of any file that ASE reads: extended xyz, its databases and trajectories.

    The unit of energies has to be given where an npz file does not name it. With `labelled=False`, energies and forces
    may be missing or not finite.

    Raises:
        ValueError: the file holds something else, several molecules, periodic cells, NaN or atoms that coincide, or
            its units are not known.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    logger.info("reading %s", path)
    arrays, unit = _read_npz(path) if path.suffix.lower() == ".npz" else _read_with_ase(path)
    try:
        return _trajectory(arrays, str(path), _energy_unit(arrays, energy_unit, unit), labelled=labelled)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; correct the file, or leave such configurations out") from error


def write_configurations(path: Path, trajectory: Trajectory, *, labelled: bool = False) -> Path:
    """Write positions, and labels on request, as extended xyz or, where ASE is not installed, as npz.

    The suffix is added to the path, which is returned. The file appears whole or not at all.
    """
    try:
        import ase  # noqa: F401 - only asked for
    except ImportError:
        file = path.with_suffix(".npz")
    else:
        file = path.with_suffix(".xyz")
    shown = trajectory if labelled else replace(trajectory, energies=None, forces=None)
    write_atomically(file, _content(shown, file.suffix))
    return file


def holds_positions_only(path: Path) -> bool:
    """Whether a file is one that `write_configurations` wrote, to which nothing was added."""
    try:
        found = replace(read_trajectory(path, labelled=False), energies=None, forces=None)
        return path.read_bytes() == _content(found, path.suffix)
    except ValueError:
        return False


def _content(trajectory: Trajectory, suffix: str) -> bytes:
    R, numbers = trajectory.R.numpy(), trajectory.species.numpy()
    labels = {
        name: part.numpy() for name, part in (("E", trajectory.energies), ("F", trajectory.forces)) if part is not None
    }
    if suffix == ".npz":
        content = io.BytesIO()
        units = {"r_unit": "Ang"} | ({"e_unit": "eV"} if labels else {})
        np.savez(content, R=R, z=numbers, **labels, **units)  # type: ignore[arg-type]  # arrays and names of units
        return content.getvalue()
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.io import write

    frames: list[Any] = [Atoms(numbers, each) for each in R]
    if labels:
        calculator: Any = SinglePointCalculator  # its arguments are not annotated
        for row, frame in enumerate(frames):
            known = {name: labels[key][row] for name, key in (("energy", "E"), ("forces", "F")) if key in labels}
            frame.calc = calculator(frame, **known)
    text = io.StringIO()
    write(text, frames, format="extxyz")
    return text.getvalue().encode()


def check_species(expected: Int[Tensor, " N"], got: Int[Tensor, " M"], source: str) -> None:
    """Raise a ValueError for atoms other than the expected ones, or in another order."""
    if expected.tolist() != got.tolist():
        raise ValueError(
            f"{source} has atoms {got.tolist()} (atomic numbers), the force field is one of {expected.tolist()}; "
            "the atoms have to be the same, in the same order"
        )


def matched(
    frames: Trajectory, pool: Trajectory, among: list[Int[ndarray, " _"]]
) -> tuple[Trajectory, Int[ndarray, " m"]]:
    """The frames that are configurations of the pool, and their rows there: of those `among`, in this order.

    Raises:
        ValueError: the frames have other atoms, lack energies or forces, are not in the pool at all, or are there more
            than once. Forces turn with the molecule, so that a frame which was turned is not in the pool.
    """
    check_species(pool.species, frames.species, frames.source)
    for name, part in (("energies", frames.energies), ("forces", frames.forces)):
        if part is None:
            raise ValueError(f"{frames.source} has no {name}; energies and forces of every configuration are needed")
    places, here = (part.R.flatten(1).numpy() for part in (pool, frames))
    rows = np.full(len(here), -1)
    for some in among:
        missing = np.flatnonzero(rows < 0)
        if len(some) > 0 and len(missing) > 0:
            off, nearest = KDTree(places[some]).query(here[missing], p=np.inf)
            rows[missing] = np.where(off <= SAME_PLACE, some[nearest], -1)
    known = rows >= 0
    if not known.any():
        raise ValueError(
            f"no configuration of {frames.source} is in {pool.source}: positions must be equal to {SAME_PLACE:g} "
            "Angstrom, neither turned nor relaxed"
        )
    if len(np.unique(rows[known])) < known.sum():
        raise ValueError(f"{frames.source} has the same configuration of the pool more than once; leave one of them")
    return frames.at(torch.from_numpy(np.flatnonzero(known))), rows[known]


def _read_npz(path: Path) -> tuple[dict[str, ndarray], str | None]:
    """The arrays of a file by sgdml's names, and the unit of energies where the file need not name it."""
    found, there = read_npz(path, [*SGDML.values(), *RMD17.values(), *ABOUT.values()])
    names = next((each for each in (SGDML, RMD17) if {each["R"], each["z"]} <= {*there}), {})
    if not names:
        raise ValueError(
            f"{path} must hold arrays {', '.join(SGDML.values())} or {', '.join(RMD17.values())}, "
            f"got {', '.join(there)[:200] or 'none'}; write it anew with these names"
        )
    arrays = {name: found[its] for name, its in (names | ABOUT).items() if its in found}
    return arrays, "kcal/mol" if names is RMD17 else None


def _energy_unit(arrays: dict[str, ndarray], given: str | None, usual: str | None) -> str:
    """The unit that the file names, or else the user, or else the usual one; never a guess."""
    named = str(arrays["e_unit"]) if "e_unit" in arrays else None
    if named is not None and given is not None and not is_same_unit(given, named):
        raise ValueError(f"the file has e_unit {named!r}, but {given!r} was given")
    unit = named or given or usual or (None if {"E", "F"} & arrays.keys() else "eV")
    if unit is None:
        raise ValueError(
            "the file does not name the unit of its energies (no e_unit); give the energy unit (--energy-unit). "
            "Files of MD17 and sGDML without it are mostly in kcal/mol"
        )
    return unit


def _read_with_ase(path: Path) -> tuple[dict[str, ndarray], str]:
    """The same of other files."""
    try:
        from ase.io import read
    except ImportError as error:
        raise ValueError(f"{path.suffix} files are read by ASE: pip install 'lobal[molecules]', or use npz") from error
    open_plain(path).close()
    try:
        frames: Any = read(path, index=":")
    except Exception as error:  # ASE has no error of its own for a file that it cannot make sense of
        reason = str(error)[:500] or type(error).__name__
        if isinstance(error, KeyError):  # its message is the key alone
            reason = f"{reason} is no element or entry that ASE knows"
        raise ValueError(f"{path} cannot be read by ASE: {reason}; restore it from a copy or correct it") from error
    _check_frames(frames, path)
    arrays = {"z": frames[0].numbers, "R": np.stack([frame.positions for frame in frames])}
    results = [{} if frame.calc is None else frame.calc.results for frame in frames]  # where ASE keeps labels
    for name, label in (("E", "energy"), ("F", "forces")):
        missing = [row for row, result in enumerate(results) if label not in result]
        if not missing:
            arrays[name] = _stacked([result[label] for result in results], label, path)
        elif len(missing) < len(frames):
            raise ValueError(f"configuration {missing[0]} of {path} has no {label}, others have; leave it out")
    return arrays, "eV"


def _stacked(values: list[Any], label: str, path: Path) -> ndarray:
    shapes = [np.shape(value) for value in values]
    if others := [row for row, shape in enumerate(shapes) if shape != shapes[0]]:
        raise ValueError(
            f"configuration {others[0]} of {path} has {label} of shape {shapes[others[0]]}, the first {shapes[0]}; "
            "correct it or leave it out"
        )
    return np.stack(values)


def _check_frames(frames: Sequence[Any], path: Path) -> None:
    if not frames:
        raise ValueError(f"{path} holds no configurations; give a file with some")
    for row, frame in enumerate(frames):
        if frame.numbers.tolist() != frames[0].numbers.tolist():
            raise ValueError(
                f"{path} holds several molecules: configuration {row} is {frame.get_chemical_formula(mode='reduce')}, "
                f"the first {frames[0].get_chemical_formula(mode='reduce')}; one file per molecule and order of atoms"
            )
        if frame.pbc.any():
            raise ValueError(
                f"configuration {row} of {path} is periodic; force fields are of single molecules, leave it out"
            )


def _trajectory(arrays: dict[str, ndarray], source: str, energy_unit: str, *, labelled: bool) -> Trajectory:
    """The trajectory in lobal's units, if shapes fit, all numbers are finite, and no atoms coincide."""
    length_unit = str(arrays.get("r_unit", "Ang"))
    energy, length = unit_named(energy_unit, ENERGIES, "energy"), unit_named(length_unit, LENGTHS, "length")
    per_energy, _, per_length = str(arrays.get("f_unit", f"{energy_unit}/{length_unit}")).rpartition("/")
    if not (is_same_unit(per_energy, energy_unit) and is_same_unit(per_length, length_unit)):
        raise ValueError(
            f"forces must be in the units of energy and length, {energy_unit}/{length_unit}, got {arrays['f_unit']!s}"
        )
    species = _species(arrays["z"])
    N, shape, number = len(species), arrays["R"].shape, arrays.get("traj", np.array(0))
    if number.dtype.kind not in "iuf" or not np.isfinite(number).all() or np.abs(number).max(initial=0) > 2**53:
        raise ValueError(f"traj must be whole numbers of trajectories, got {shown(number)}")
    if len(shape) != 3 or shape[1:] != (N, 3) or shape[0] == 0:
        raise ValueError(f"positions must have shape (n, {N}, 3) for {N} atoms, got {shape}")
    if labelled and not {"E", "F"} & arrays.keys():
        raise ValueError("there are neither energies nor forces")
    R = _tensor(arrays, "R") * length
    E = _tensor(arrays, "E") * energy if "E" in arrays else None
    E = E[:, 0] if E is not None and E.shape == (len(R), 1) else E  # as MD17 has them
    F = _tensor(arrays, "F") * (energy / length) if "F" in arrays else None
    checked = [part if labelled or part is None else part.nan_to_num() for part in (E, F)]
    LabelledMolecules.check(R, energies=checked[0], forces=checked[1])
    descriptors(R)  # for its checks
    return Trajectory(
        source=source,
        units=f"{energy_unit} and {length_unit}",
        species=species,
        R=R,
        energies=E,
        forces=F,
        number=torch.from_numpy(number.astype(np.int64)) if number.shape == (len(R),) else None,
    )


def _species(values: ndarray) -> Int[Tensor, " N"]:
    """Atomic numbers, given once or for every configuration."""
    rows = np.atleast_2d(values)
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(f"species must be one row of atomic numbers, got shape {values.shape}")
    different = np.flatnonzero((rows != rows[0]).any(1))
    if len(different) > 0:
        raise ValueError(f"several molecules: the atoms of configuration {different[0]} are not the first's")
    if rows.dtype.kind not in "iu" and not (rows.dtype.kind == "f" and (rows == rows.round()).all()):
        raise ValueError(f"species must be atomic numbers, got {rows[0].tolist()}")
    if rows.min() < 0 or rows.max() > HEAVIEST:
        raise ValueError(f"species must be atomic numbers up to {HEAVIEST}, got {rows[0].tolist()}")
    return torch.from_numpy(rows[0].astype(np.int64))


def _tensor(arrays: dict[str, ndarray], name: str) -> Float[Tensor, "..."]:
    if arrays[name].dtype.kind not in "fiu":
        raise ValueError(f"array {name!r} must hold numbers, got dtype {arrays[name].dtype}")
    return torch.from_numpy(arrays[name].astype(np.float64))
