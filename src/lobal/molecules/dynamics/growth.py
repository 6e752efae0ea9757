"""A campaign whose pool its own force field simulates (Appendix "A realistic MD simulation AL scenario").

Round k = 1, 2, ...: the force field of all labels so far simulates a pool of configurations, walkers being sent back
where they leave what the labels know; the pool takes the place of the one before; the learner draws configurations
from it, and they are labelled. The test density is q_k = p_k^(1 - 1 / (k + 1)) with the density p_k of the pool that is
drawn from: exploration first, and the distribution of the trajectories in the end. The paper takes the density of the
pool before, which the new one is about to replace.

A part of each batch are configurations at which walkers left what the labels know. They are rare in the pool, so that
hardly any would be drawn, and a force field that has never seen them may hold its way there for a way downhill.

Everything that happened is in the campaign's journal: a growth that was interrupted goes on where it stopped.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.active.candidates import seed_of
from lobal.active.learner import ActiveLearner
from lobal.core.checks import real_number, whole_number
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.dynamics.walkers import Simulated, SimulationOptions, simulate_pool
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.prepared import PreparedForceField
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.clustering import far_apart
from lobal.molecules.geometry.descriptor import Positions, descriptors
from lobal.molecules.geometry.rotors import rotor_cycles
from lobal.molecules.geometry.trajectory import Trajectory
from lobal.molecules.space import FEWEST, MolecularCandidates, MoleculePool

logger = logging.getLogger(__name__)

SIMULATION = 3  # what a seed is for; fits, draws and the start have other numbers
LEFT = 0.1  # the largest share of a round's labels for configurations at which walkers left the known region


@final
@dataclass(frozen=True, kw_only=True)
class GrowthSettings:
    """How a campaign grows.

    Args:
        budget: labels to learn from, those of the start included.
        ratio: by which every round raises the number of labels.
        simulation: how pools are simulated.
        seed: of everything random in the simulations.
        first: labels of the start.
    """

    budget: int
    first: int
    ratio: float = 1.5
    simulation: SimulationOptions = field(default_factory=SimulationOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("budget", self.budget, least=self.first + 1)
        real_number("ratio", self.ratio, least=1.05, most=10.0, hint="1.5 by default")
        most, n = max(after - before for before, after in pairwise(self.sizes)), self.simulation.configurations
        if n < max(most, FEWEST):
            raise ValueError(
                f"pools must have at least {FEWEST} configurations, and {most} for the labels of the largest round, "
                f"got {n}; simulate larger pools, or lower the ratio"
            )

    @property
    def sizes(self) -> list[int]:
        """Numbers of labels at the start and after every round; the last rounds are never tiny."""
        sizes = [self.first]
        while sizes[-1] < self.budget:
            following = max(sizes[-1] + 1, round(sizes[-1] * self.ratio))
            is_last = following * self.ratio**0.5 > self.budget
            sizes.append(self.budget if is_last else following)
        return sizes


class Round(NamedTuple):
    """What became of a round: of the force field that simulated its pool, and of the pool."""

    number: int  # k, from one; the force field of the last one simulated nothing
    labels: int  # that the force field was fitted to
    force_rmse: float | None  # at the validation frames, eV / Angstrom
    energy_rmse: float | None  # eV
    resets: int | None = None  # of walkers
    coverage: float | None = None  # share of the pool that is as near to a label as labels are to each other
    pool: int | None = None  # configurations
    savings: float | None = None  # share of labels that following the complexity is expected to save
    seconds: float = 0.0  # of fit, simulation and density


Report: TypeAlias = Callable[[Round], None]
Progress: TypeAlias = Callable[[str], None]  # takes what is being done


@final
class Growth:
    """Rounds of simulating, choosing and labelling until the budget is spent.

    Args:
        learner: a campaign over a `MoleculePool` that grows, the first frames labelled.
        workers: label configurations.
        reference: a configuration near equilibrium, whose bonds must not break.
        settings: how it grows.
        show: takes what is being done, again and again.
        report: called after every round.
        target: force RMSE at the validation frames, in eV / Angstrom, at which it ends early.
    """

    def __init__(
        self,
        learner: ActiveLearner,
        workers: Workers,
        reference: Float[Tensor, "N 3"],
        settings: GrowthSettings,
        *,
        show: Progress = lambda _: None,
        report: Report = lambda _: None,
        target: float | None = None,
    ) -> None:
        self._learner, self._workers, self._settings = learner, workers, settings
        self._show, self._report, self._target = show, report, target
        self._species = species_of(learner)
        self._bonds = Bonds.of(reference, self._species)
        self._symmetries = rotor_cycles(reference, self._species)

    def run(self) -> None:
        """Go on until the budget is spent or the target is reached."""
        sizes = self._settings.sizes
        for past in rounds_of(self._learner):
            self._report(past)
        while True:
            number = len(self._learner.growths)
            ledger, size = self._learner.ledger, sizes[min(number, len(sizes) - 1)]
            if number > 0 and (ledger.n_labels < size or ledger.pending):  # another budget may have asked for more
                self._show("labels")
                self._expect_left()
                self._workers.run(self._learner, max(size, ledger.size))
            begun = time.monotonic()
            self._show("fitting the force field")
            model: ForceField = self._learner.model
            if number + 1 >= len(sizes) or self._is_good(model):
                self._report(_fitted_round(number + 1, self._learner, time.monotonic() - begun))
                return
            self._grow(number + 1, model, begun)

    def _expect_left(self) -> None:
        """Have configurations labelled at which walkers left the known region, the last ones of the pool."""
        learner, about = self._learner, self._learner.growths[-1]
        left, total = about.get("left", 0), len(learner.candidates)
        if left > 0 and learner.ledger.n_drawn == about["drawn"]:  # nobody has asked for any point of this pool
            learner.expect(np.arange(total - left, total))

    def _is_good(self, model: ForceField) -> bool:
        error = (model.about.get("errors") or {}).get("force_rmse")
        return self._target is not None and error is not None and error <= self._target

    def _grow(self, number: int, model: ForceField, begun: float) -> None:
        """Simulate a pool, and let it take the place of the one before."""
        region = KnownRegion.of(torch.from_numpy(self._learner.labelled.X), _candidates(self._learner).permutations)
        pool = self._simulated(number, model, region)
        left = self._chosen_of(pool.left, number)
        about = _fitted_round(number, self._learner, 0.0)._replace(
            resets=pool.resets, coverage=region.coverage(pool.R), pool=len(pool.R)
        )
        self._show("density of the pool")
        R = torch.cat([pool.R, left]).double().cpu()
        space = MoleculePool(
            Trajectory(source=f"pool {number}", units="eV and Ang", species=self._species, R=R),
            test_density=1.0 - 1.0 / (number + 1),
            grows=True,
            symmetries=self._symmetries,
            device=_candidates(self._learner).device,
        )
        about = about._replace(seconds=round(time.monotonic() - begun, 1))
        further = {"left": len(left), "drawn": self._learner.ledger.n_drawn}
        temperature = self._settings.simulation.temperature
        self._learner.grow(space, about={**about._asdict(), **further, "temperature": temperature})
        savings = self._learner.expected_savings()
        self._report(about._replace(savings=None if savings is None else savings.share))

    def _chosen_of(self, left: Positions, number: int) -> Float[Tensor, "k N 3"]:
        """Some configurations that are far from each other."""
        sizes = self._settings.sizes
        most = math.ceil(LEFT * (sizes[number] - sizes[number - 1]))
        if len(left) <= most:
            return left
        permutations = _candidates(self._learner).permutations.to(left.device)
        return left[far_apart(descriptors(left, left.device), most, permutations)]

    def _simulated(self, number: int, model: ForceField, region: KnownRegion) -> Simulated:
        def progress(done: int, total: int, resets: int) -> None:
            self._show(f"simulating the pool: {done} of {total} configurations, {resets} resets")

        return simulate_pool(
            PreparedForceField.of(model),
            torch.from_numpy(self._learner.labelled.X).to(model.weights),
            self._species,
            region,
            self._bonds,
            self._settings.simulation,
            generator=torch.Generator().manual_seed(seed_of(self._settings.seed, number, SIMULATION)),
            report=progress,
        )


def species_of(learner: ActiveLearner) -> Int[Tensor, " N"]:
    """Atomic numbers of the molecule of a campaign."""
    return torch.tensor(_candidates(learner).pool["species"])


def rounds_of(learner: ActiveLearner) -> list[Round]:
    """The rounds that are in a campaign's journal."""
    return [_round(about) for about in learner.growths]


def _round(about: Mapping[str, Any]) -> Round:
    return Round(**{name: value for name, value in about.items() if name in Round._fields})


def _fitted_round(number: int, learner: ActiveLearner, seconds: float) -> Round:
    """What is known of the force field of all labels so far."""
    errors = learner.model.about.get("errors") or {}
    known = (errors.get("force_rmse"), errors.get("energy_rmse"))
    return Round(number, learner.ledger.n_labels, *known, seconds=round(seconds, 1))


def _candidates(learner: ActiveLearner) -> MolecularCandidates:
    candidates = learner.candidates
    if not isinstance(candidates, MolecularCandidates) or not candidates.grows:
        raise ValueError("expected a campaign over a MoleculePool that grows, got another; pass grows=True to the pool")
    return candidates
