"""Campaigns that begin with one configuration: first frames, labelled, then pools that the force field simulates."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from lobal.active.campaign.folder import HEADER
from lobal.active.learner import ActiveLearner
from lobal.core.checks import real_number
from lobal.molecules.dynamics.start import Progress, Start, StartSettings, first_frames
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.geometry.rotors import rotor_cycles
from lobal.molecules.geometry.torsions import rotatable_torsions
from lobal.molecules.geometry.trajectory import Trajectory
from lobal.molecules.space import MoleculePool
from lobal.molecules.surrogate import ForceFieldSurrogate

START = "start.jsonl"  # file of the first trajectories in a campaign's folder
# sigma_l by Sigma_E, half octaves: fewer labels than single fits mostly have ask for larger bandwidths. Chosen by
# malonaldehyde and ethanol with 113 labels, where the largest default one had the gate to itself.
BANDWIDTHS = tuple(2.0 ** (0.5 * step) for step in range(-3, 5))
# Places at which walkers left what was known are few and far from all others, and by squared errors Sigma_E would be
# theirs. Chosen by the labels of glycine (seed 0), and no worse for those of malonaldehyde. The gate: by the labels of
# both, where its forces are better by a tenth and more than those of the ordinal one.
FIELD = ForceFieldSettings(bandwidths=BANDWIDTHS, anisotropy_loss="rmse", softmax_gate=SoftmaxGateOptions())


@final
@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What a campaign begins with.

    Args:
        start: how the first frames are simulated.
        dimension: intrinsic dimension; None for the number of bonds that can rotate, which are the large motions as
            far as they can be known before there are any.
        field: how force fields are learned.
        seed: of everything random in fits and draws.
    """

    start: StartSettings
    dimension: float | None = None
    field: ForceFieldSettings = FIELD
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimension is not None:
            real_number("dimension", self.dimension, above=0.0, hint="the number of large motions, such as rotors")

    def dimension_of(self, R: Float[Tensor, "N 3"], species: Int[Tensor, " N"]) -> float:
        """The intrinsic dimension of a molecule's configurations."""
        return float(max(1, len(rotatable_torsions(R, species)))) if self.dimension is None else self.dimension


class Opened(NamedTuple):
    """A campaign, and the first frames that it began with."""

    learner: ActiveLearner
    start: Start


def opened_campaign(
    folder: Path,
    reference: Trajectory,
    workers: Workers,
    beginning: Beginning,
    *,
    about: Mapping[str, Any],
    sampler: Workers | None = None,
    report: Progress | None = None,
) -> Opened:
    """The campaign in a folder, or a new one whose first labels are frames of short trajectories.

    Args:
        folder: where everything is kept.
        reference: the first configuration.
        workers: label configurations.
        beginning: what it begins with.
        about: what else the first frames depend on, such as the program; other ones are refused.
        sampler: have the forces that the first walkers follow, if not those of `workers`.
        report: called after every step of the first trajectories.

    Raises:
        ValueError: the folder is of another campaign, or damaged.
        RuntimeError: the oracle fails again and again.
    """
    start = first_frames(
        reference.R[0],
        reference.species,
        workers,
        beginning.start,
        path=folder / START,
        about={**about, **asdict(beginning.start)},
        sampler=sampler,
        report=report,
    )
    if (folder / HEADER).exists():
        learner = ActiveLearner.load(folder, device=beginning.field.device)
        _check(learner, beginning.dimension_of(reference.R[0], reference.species))
    else:
        learner = _created(folder, reference, start, beginning)
    try:
        if learner.ledger.n_labels == 0:  # new, or stopped between the two
            learner.tell(np.arange(len(start.first)), (start.first.energies, start.first.forces))
    except BaseException:
        learner.close()
        raise
    return Opened(learner, start)


def _created(folder: Path, reference: Trajectory, start: Start, beginning: Beginning) -> ActiveLearner:
    return ActiveLearner(
        MoleculePool(
            start.first,
            grows=True,
            symmetries=rotor_cycles(reference.R[0], reference.species),
            device=beginning.field.device,
        ),
        seed=beginning.seed,
        path=folder,
        model=ForceFieldSurrogate(beginning.field),
        validation=start.validation,
        intrinsic_dimension=beginning.dimension_of(reference.R[0], reference.species),
    )


def _check(learner: ActiveLearner, dimension: float) -> None:
    """Raise a ValueError if the campaign began with another dimension."""
    if (there := learner.settings.intrinsic_dimension) != dimension:
        learner.close()
        raise ValueError(f"the campaign began with intrinsic dimension {there}, got {dimension}; use the same")
