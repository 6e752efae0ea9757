"""What the page shows of a force field campaign that simulated its own pools."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.learner import ActiveLearner
from lobal.core.schema import optional, real, table, whole
from lobal.molecules.dynamics.growth import Round, rounds_of
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.geometry.elements import symbol_of
from lobal.molecules.geometry.torsions import angles as torsion_angles
from lobal.molecules.geometry.torsions import rotatable_torsions, torsion_names
from lobal.molecules.geometry.torsions import slowest as slowest_first

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
MOST_POINTS = 10_000  # configurations of the pool in a figure; more hide each other
NUMBER = optional(real(0.0))
# A growth that is a round; others were told something else about themselves.
ROUND = table(
    {"number": whole(1), "labels": whole(), "force_rmse": NUMBER, "energy_rmse": NUMBER},
    **dict.fromkeys(("coverage", "seconds"), NUMBER),
    **dict.fromkeys(("resets", "pool"), optional(whole())),
)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GrownCampaign:
    """Labels and pool of a campaign that has a force field.

    Before the first round there is no pool. Complexities are in units of their median over the pool, or over the labels
    where there is no pool.
    """

    model: ForceField
    species: Int[Tensor, " N"]
    R: Positions  # with labels, in the order in which they were asked for
    energies: Float[ndarray, " n"]  # their labels, eV
    round_of: Int[ndarray, " n"]  # that asked for them, from one; zero for the first frames
    failed: Float[Tensor, "f N 3"]
    pool: Float[Tensor, "p N 3"]  # configurations of the present one that nobody has asked for
    complexity: Float[ndarray, " n"]  # of the labelled ones
    pool_complexity: Float[ndarray, " p"]
    rounds: tuple[Round, ...]  # the last one is that of the present force field; none where they are not known
    temperature: float | None  # of the last pool, in K

    @classmethod
    def of(cls, learner: ActiveLearner) -> "GrownCampaign":
        """The campaign, whose learner has a force field."""
        candidates: Any = learner.candidates
        known, pool = learner.labelled, _pool_rows(learner)
        complexity = _relative_complexity(learner, pool)
        rounds = campaign_rounds(learner)
        return cls(
            model=learner.model,
            species=torch.tensor(candidates.pool["species"]),
            R=torch.from_numpy(known.X),
            energies=known.y[:, 0],
            round_of=_round_of(len(known.y), rounds),
            failed=candidates.R[learner.ledger.candidates(learner.ledger.failed)],
            pool=candidates.R[pool],
            complexity=complexity[known.candidate],
            pool_complexity=complexity[pool],
            rounds=rounds,
            temperature=_temperature(learner),
        )

    @property
    def reference(self) -> Float[Tensor, "N 3"]:
        """The labelled configuration of least energy, whose bonds are those of the molecule."""
        return self.R[int(np.argmin(self.energies))]

    @property
    def formula(self) -> str:
        """The atoms by element, carbon and hydrogen first, as in C₃H₄O₂."""
        return formula(self.species)

    def torsions(self) -> tuple[Int[Tensor, "t 4"], list[str]]:
        """Bonds' torsions with their names, the slowest ones of the pool first."""
        found = rotatable_torsions(self.reference, self.species)
        if len(found):
            R = self.pool if len(self.pool) else self.R
            found = found[slowest_first(torsion_angles(R, found), found, self.species)]
        return found, torsion_names(found, self.species)


def campaign_rounds(learner: ActiveLearner) -> tuple[Round, ...]:
    """All rounds, the last one without a pool; none where not every growth was a round.

    The savings that a round expected are those of its first step.
    """
    try:
        for about in learner.growths:
            ROUND(about, "growth")
    except ValueError:
        return ()
    past = [each._replace(savings=expected_savings_at(learner, each.labels)) for each in rounds_of(learner)]
    n = learner.ledger.n_labels
    if past and past[-1].labels == n:  # its pool is there, and none of the labels
        return tuple(past)
    errors, savings = learner.model.about.get("errors") or {}, expected_savings_at(learner, n)
    return *past, Round(len(past) + 1, n, errors.get("force_rmse"), errors.get("energy_rmse"), savings=savings)


def expected_savings_at(learner: ActiveLearner, labels: int) -> float | None:
    """The share of labels that following the complexity is or was expected to save, from so many labels.

    None if it is not known. Of the past it is that of the first step with so many labels.
    """
    if labels == learner.ledger.n_labels:
        known = learner.expected_savings()
        return None if known is None else known.share
    attainable = {step.labels: step.attainable for step in reversed(learner.history.steps)}.get(labels)
    return None if attainable is None else max(0.0, 1.0 - attainable)


def formula(species: Int[Tensor, " N"]) -> str:
    """Hill's order: with carbon, carbon and hydrogen first; the rest by the alphabet."""
    symbols = [symbol_of(z) for z in species.tolist()]
    first = ("C", "H") if "C" in symbols else ()
    ordered = sorted({*symbols}, key=lambda symbol: (symbol not in first, symbol))
    return "".join(f"{symbol}{n if (n := symbols.count(symbol)) > 1 else ''}" for symbol in ordered).translate(
        SUBSCRIPTS
    )


def _pool_rows(learner: ActiveLearner) -> Int[ndarray, " p"]:
    """Candidates that nobody has asked for, some of them where there are many."""
    is_free: Bool[ndarray, " M"] = np.ones(len(learner.candidates), dtype=np.bool_)
    is_free[learner.ledger.candidates(range(learner.ledger.n_drawn))] = False
    rows = np.flatnonzero(is_free)
    return np.sort(np.random.default_rng(0).permutation(rows)[:MOST_POINTS])


def _relative_complexity(learner: ActiveLearner, pool: Int[ndarray, " p"]) -> Float[ndarray, " M"]:
    """Of all candidates, in units of the median over the pool."""
    complexity = learner.local_complexity()
    return np.asarray(complexity / np.median(complexity[pool] if len(pool) else complexity))


def _round_of(n: int, rounds: tuple[Round, ...]) -> Int[ndarray, " n"]:
    """The round of every label: a round asks for those that come after the labels which its force field knows."""
    sizes = np.array([each.labels for each in rounds], dtype=np.int64)
    return np.searchsorted(sizes, np.arange(n), side="right")


def _temperature(learner: ActiveLearner) -> float | None:
    """That of the last pool, if it is known."""
    found: Any = learner.growths[-1].get("temperature") if learner.growths else None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number and 0.0 < found < np.inf else None
