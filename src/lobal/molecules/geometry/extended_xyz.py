"""Frames of trajectories as extended xyz, which ASE and others read, without ASE: one after the other, as they come."""

from collections.abc import Mapping

from jaxtyping import Float, Int
from torch import Tensor

from lobal.molecules.geometry.elements import symbol_of


def frame_text(
    species: Int[Tensor, " N"],
    R: Float[Tensor, "N 3"],
    energy: float,
    forces: Float[Tensor, "N 3"],
    about: Mapping[str, float | int],
) -> str:
    """One frame: positions in Angstrom, energy in eV, forces in eV / Angstrom, and numbers about it by name."""
    numbers = " ".join(f"{name}={value!r}" for name, value in about.items())
    lines = [
        str(len(species)),
        f'Properties=species:S:1:pos:R:3:forces:R:3 energy={energy:.10f} {numbers} pbc="F F F"',
    ]
    for z, place, pull in zip(species.tolist(), R.tolist(), forces.tolist(), strict=True):
        values = " ".join(f"{value:16.10f}" for value in (*place, *pull))
        lines.append(f"{symbol_of(z):2} {values}")
    return "\n".join(lines) + "\n"
