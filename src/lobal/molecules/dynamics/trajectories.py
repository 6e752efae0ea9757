"""Trajectories of a force field that end where they leave what it knows, each for itself.

Every few steps all walkers are looked at. One of them has come to its end where numbers are no longer finite, a bond is
broken or another formed, it is far hotter than the bath, or p_k falls below epsilon (`region`); the others go on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.checks import whole_number
from lobal.molecules.dynamics.motion import Bath, ForceFunction, Masses, Motion, begun, step, temperatures
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.dynamics.walkers import FASTEST, HOTTEST, moves_soundly
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.descriptor import atom_pairs
from lobal.molecules.geometry.elements import atom_names

LOOK = 10  # steps: a vibration of hydrogen takes 20 of half a femtosecond


class Ending(NamedTuple):
    """Why a walker has come to its end."""

    walker: int
    step: int  # at which it was seen
    reason: str


class Frame(NamedTuple):
    """Walkers at one time."""

    step: int
    walkers: list[int]
    motion: Motion  # of these
    endings: list[Ending]  # of walkers whose last frame this is, if they are still finite; else they have none here


Report: TypeAlias = Callable[[int, Motion], None]  # takes the step and the walkers that still move


@final
@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a walker must not exceed.

    Args:
        species: Atomic numbers.
        bonds: That must not break, and no others form.
        hottest: In K.
        region: Where the force field is known; None where that cannot be said.
    """

    species: Int[Tensor, " N"]
    bonds: Bonds
    hottest: float
    region: KnownRegion | None

    @classmethod
    def around(
        cls, R: Float[Tensor, "N 3"], species: Int[Tensor, " N"], bath: Bath, region: KnownRegion | None
    ) -> "Limits":
        """Those of a molecule that begins at a configuration, in a bath."""
        return cls(species=species, bonds=Bonds.of(R, species), hottest=HOTTEST * bath.temperature, region=region)

    def exceeded(self, motion: Motion, masses: Masses) -> dict[int, str]:
        """By the numbers of walkers that exceed a limit: which, in words."""
        sound, hot = moves_soundly(motion), temperatures(motion.V, masses) > self.hottest
        R = torch.where(sound[:, None, None], motion.R, 0.0)
        whole = self.bonds.are_whole(R)
        density = None if self.region is None else self._density(motion.R, sound)
        good = sound & whole & ~hot
        if density is not None and self.region is not None:
            good &= density >= self.region.threshold
        reasons = {}
        for row in (~good).nonzero()[:, 0].tolist():
            if not sound[row]:
                reasons[row] = f"numbers are no longer finite, or an atom is faster than {FASTEST:g} Angstrom / fs"
            elif not whole[row]:
                reasons[row] = self._changed_bond(motion.R[row])
            elif hot[row]:
                temperature = float(temperatures(motion.V[row : row + 1], masses))
                reasons[row] = f"it is at {temperature:.0f} K, {HOTTEST:g} times as hot as the bath or more"
            else:
                assert density is not None
                reasons[row] = self._left(motion.R[row], float(density[row]))
        return reasons

    def _density(self, R: Float[Tensor, "w N 3"], sound: Tensor) -> Float[Tensor, " w"]:
        """p_k of walkers; zero of those whose numbers are not finite."""
        assert self.region is not None
        density = torch.zeros_like(R[:, 0, 0])
        rows = sound.nonzero()[:, 0]
        return density if len(rows) == 0 else density.index_copy(0, rows, self.region.density(R[rows]).to(density))

    def _changed_bond(self, R: Float[Tensor, "N 3"]) -> str:
        first, second = atom_pairs(len(R), R.device)
        distances, names = (R[first] - R[second]).norm(dim=1), atom_names(self.species)
        too_far = distances >= self.bonds.farthest.to(R)
        pair = int((too_far | (distances <= self.bonds.nearest.to(R))).int().argmax())
        one, other, length = names[int(first[pair])], names[int(second[pair])], float(distances[pair])
        if too_far[pair]:
            return f"the bond of {one} and {other} broke: they are {length:.2f} Angstrom apart"
        return f"{one} and {other} came as close as {length:.2f} Angstrom, nearer than the molecule has them"

    def _left(self, R: Float[Tensor, "N 3"], density: float) -> str:
        assert self.region is not None
        epsilon, distance = self.region.threshold, float(self.region.distances(R[None]))
        return (
            f"it is outside of what the force field knows: the nearest label is {distance:.3f} / Angstrom away, of "
            f"labels nine in ten are within {self.region.spacing:.3f} / Angstrom of another; their density is "
            f"{density:.1e} here, and {epsilon:.1e} is least"
        )


def trajectories(
    R: Float[Tensor, "w N 3"],
    V: Float[Tensor, "w N 3"],
    forces: ForceFunction,
    masses: Masses,
    bath: Bath,
    limits: Limits,
    *,
    steps: int,
    every: int,
    generator: torch.Generator,
    report: Report | None = None,
) -> Iterator[Frame]:
    """Frames of walkers, from the first on; the last of each, too.

    Args:
        R: Where they start.
        V: Their velocities.
        forces: Energies and forces of the model.
        masses: In Daltons.
        bath: Temperature, time step and friction.
        limits: Walkers that exceed one of these end there.
        steps: Time steps of each.
        every: Steps from one frame to the next.
        generator: Of the noise.
        report: Called at every look, mostly every `LOOK` steps.

    Raises:
        ValueError: a walker exceeds a limit where it starts.
    """
    whole_number("steps", steps, least=1)
    whole_number("every", every, least=1)
    motion = begun(R, V, forces)
    if reasons := limits.exceeded(motion._replace(V=torch.zeros_like(V)), masses):
        row, reason = next(iter(reasons.items()))
        raise ValueError(f"walker {row} cannot start there: {reason}; start from a configuration nearer to the labels")
    walkers, seen, written = list(range(len(R))), (0, motion), 0
    yield Frame(0, walkers, motion, [])
    for number in range(1, steps + 1):
        motion = step(motion, forces, masses, bath, generator=generator)
        is_frame = number % every == 0 or number == steps
        if not is_frame and number % LOOK > 0:
            continue
        if reasons := limits.exceeded(motion, masses):
            yield from _last_frames(number, walkers, motion, reasons, seen, is_new=seen[0] > written)
            rows = [row for row in range(len(walkers)) if row not in reasons]
            walkers, motion = [walkers[row] for row in rows], _of(motion, rows)
        if report is not None:
            report(number, motion)
        if not walkers:
            return
        if is_frame:
            yield Frame(number, walkers, motion, [])
            written = number
        seen = number, motion


def _last_frames(
    number: int, walkers: list[int], motion: Motion, reasons: dict[int, str], seen: tuple[int, Motion], *, is_new: bool
) -> Iterator[Frame]:
    """The last frames of some walkers; of those that are not finite any more, where they were seen last, if new."""
    sound = moves_soundly(motion).tolist()
    for is_sound, (at, state) in ((True, (number, motion)), (False, seen)):
        rows = [row for row in reasons if sound[row] == is_sound]
        if rows:
            kept = rows if is_sound or is_new else []
            endings = [Ending(walkers[row], number, reasons[row]) for row in rows]
            yield Frame(at, [walkers[row] for row in kept], _of(state, kept), endings)


def _of(motion: Motion, rows: Sequence[int]) -> Motion:
    """Some of the walkers."""
    chosen = torch.tensor(rows, dtype=torch.long, device=motion.R.device)
    return Motion(*(part[chosen] for part in motion))
