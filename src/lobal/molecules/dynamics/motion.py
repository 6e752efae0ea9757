"""Molecular dynamics of many walkers, copies of one molecule, at once.

One step is BAOAB (Leimkuhler and Matthews, Applied Mathematics Research eXpress, 2013): half a kick, half a drift, the
exact solution of friction and noise, half a drift, half a kick. It takes one evaluation of the forces. Without friction
it is velocity Verlet, which conserves the energy up to O(dt^2) and can be reversed.

Units are eV, Angstrom, fs, Daltons and K.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.checks import real_number
from lobal.molecules.geometry.descriptor import Positions

# CODATA 2018.
BOLTZMANN = 8.617333262e-5  # eV / K
ACCELERATION = 9.648533212e-3  # of 1 Da by 1 eV / Angstrom, in Angstrom / fs^2
# By the largest moment of inertia: a molecule with a smaller one is linear, and does not turn about its axis.
LINEAR = 1e-10

Velocities: TypeAlias = Float[Tensor, "w N 3"]
Masses: TypeAlias = Float[Tensor, " N"]
ForceFunction: TypeAlias = Callable[[Positions], tuple[Float[Tensor, " w"], Float[Tensor, "w N 3"]]]


class Motion(NamedTuple):
    """Walkers at one time."""

    R: Positions  # Angstrom
    V: Velocities  # Angstrom / fs
    energies: Float[Tensor, " w"]  # potential, eV
    forces: Float[Tensor, "w N 3"]  # eV / Angstrom

    def with_rows(self, rows: Int[Tensor, " k"], others: "Motion") -> "Motion":
        """The same walkers, those of some rows replaced."""
        return Motion(*(part.index_copy(0, rows, new) for part, new in zip(self, others, strict=True)))


@final
@dataclass(frozen=True, kw_only=True)
class Bath:
    """The heat bath that walkers are in, and the time step.

    Args:
        temperature: in K.
        time_step: in fs. Half a femtosecond resolves the fastest vibrations, those of hydrogen, of about 10 fs.
        friction: in 1 / fs. At 0.01, the default, the bath replaces the kinetic energy in about 50 fs, and fast
            vibrations are hardly damped. With 0 there is no bath: the energy is constant.

    Raises:
        ValueError: a number is out of its bounds.
    """

    temperature: float
    time_step: float = 0.5
    friction: float = 0.01

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, least=0.0, most=1e5, hint="it is in K")
        real_number("time_step", self.time_step, above=0.0, most=1e3, hint="it is in fs, mostly 0.2 to 1")
        real_number("friction", self.friction, least=0.0, most=1e3, hint="it is in 1/fs; 0 for constant energy")


def begun(R: Positions, V: Velocities, forces: ForceFunction) -> Motion:
    """Walkers with given positions and velocities."""
    return Motion(R, V, *forces(R))


def step(
    motion: Motion, forces: ForceFunction, masses: Masses, bath: Bath, *, generator: torch.Generator | None = None
) -> Motion:
    """The walkers one time step later.

    Noise has no momentum: a centre of mass that is at rest remains there.

    Args:
        motion: The walkers now.
        forces: Energies (eV) and forces (eV / Angstrom) at positions.
        masses: In Daltons.
        bath: Temperature, time step and friction.
        generator: Of the noise; without friction there is none.

    Raises:
        ValueError: there is friction, but no generator.
    """
    half = 0.5 * bath.time_step
    per_force = half * ACCELERATION / masses[:, None]
    V = motion.V + per_force * motion.forces
    R = motion.R + half * V
    if bath.friction > 0.0:
        if generator is None:
            raise ValueError(f"a bath of friction {bath.friction:g} / fs has noise; pass a generator, or friction 0")
        kept = math.exp(-bath.friction * bath.time_step)
        noise = _maxwell(masses, bath.temperature, like=V, generator=generator)
        V = kept * V + math.sqrt(1.0 - kept**2) * noise
    R = R + half * V
    energies, pull = forces(R)
    return Motion(R, V + per_force * pull, energies, pull)


def thermal_velocities(
    masses: Masses, temperature: float, n: int, *, generator: torch.Generator, R: Float[Tensor, "n N 3"]
) -> Float[Tensor, "n N 3"]:
    """Velocities of n walkers at positions R from Maxwell's distribution, without momentum and angular momentum.

    They are scaled by one number so that `temperatures` are right in the mean over many walkers. That of a single one
    fluctuates, as in the canonical ensemble.
    """
    if R.shape[0] != n:
        raise ValueError(f"there must be {n} configurations, one for each walker, got {R.shape[0]}")
    V = _maxwell(masses, temperature, like=R, generator=generator)
    still, rotations = _without_rotation(R, V, masses)
    free = 3 * len(masses) - 3
    return still * (free / (free - rotations)).sqrt()[:, None, None]


def kinetic_energies(V: Velocities, masses: Masses) -> Float[Tensor, " w"]:
    """Kinetic energies in eV."""
    return (0.5 / ACCELERATION) * (V.square().sum(-1) @ masses)


def temperatures(V: Velocities, masses: Masses) -> Float[Tensor, " w"]:
    """Temperatures in K: each of the 3 N - 3 degrees of freedom has k_B T / 2, the centre of mass being at rest."""
    return kinetic_energies(V, masses) * (2.0 / (BOLTZMANN * (3 * len(masses) - 3)))


def _maxwell(masses: Masses, temperature: float, *, like: Velocities, generator: torch.Generator) -> Velocities:
    """Velocities of free atoms in a bath, less that of the centre of mass."""
    normal = torch.randn(like.shape, dtype=like.dtype, device=generator.device, generator=generator).to(like.device)
    V = normal * (BOLTZMANN * temperature * ACCELERATION / masses).sqrt()[:, None]
    share = masses / masses.sum()
    return V - (share[:, None] * V).sum(1, keepdim=True)


def _without_rotation(R: Positions, V: Velocities, masses: Masses) -> tuple[Velocities, Float[Tensor, " w"]]:
    """Velocities without angular momentum, and how many axes there are to turn about: 3, or 2 of a linear molecule."""
    share = masses / masses.sum()
    arm = R - (share[:, None] * R).sum(1, keepdim=True)
    momentum = (masses[:, None] * torch.linalg.cross(arm, V)).sum(1)
    outer = torch.einsum("a,wai,waj->wij", masses, arm, arm)
    identity = torch.eye(3, dtype=R.dtype, device=R.device)
    inertia = outer.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] * identity - outer
    moments, axes = torch.linalg.eigh(inertia)
    turns = moments > LINEAR * moments[:, -1:]
    inverse = torch.where(turns, moments.reciprocal(), 0.0)
    spin = torch.einsum("wij,wj,wkj,wk->wi", axes, inverse, axes, momentum)
    return V - torch.linalg.cross(spin[:, None].expand_as(arm), arm), turns.sum(1).to(R)
