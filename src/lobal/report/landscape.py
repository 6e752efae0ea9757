"""A campaign at its candidates: the values that its figures show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.learner import ActiveLearner

MOST_POINTS = 10_000  # of a scatter plot; more hide each other


@final
@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Values at (some of) the candidates of a campaign, and the inputs that were labelled and suggested."""

    points: Float[ndarray, "n d"]
    names: tuple[str, ...]  # of the d columns
    complexity: Float[ndarray, " n"]  # LFC, up to a factor
    superior_density: Float[ndarray, " n"]  # up to a factor
    training_density: Float[ndarray, " n"]  # p_k of labelled and suggested points, up to a factor
    labelled: Float[ndarray, "labelled d"]  # in the order they were asked for
    suggested: Float[ndarray, "suggested d"]  # labels still to come

    def __post_init__(self) -> None:
        if len(self.names) != self.points.shape[1]:
            raise ValueError(f"{self.points.shape[1]} input columns need as many names, got {list(self.names)}")


def landscape(learner: ActiveLearner, names: Sequence[str] | None = None) -> Landscape:
    """The learner at 10,000 of its candidates at most, drawn at random with a fixed seed."""
    if learner.fitted is None:
        raise ValueError(f"a landscape needs a fitted model; {len(learner.labelled.y)} labels are too few")
    total, d = learner.candidates.X.shape
    rows = np.sort(np.random.default_rng(0).permutation(total)[:MOST_POINTS])
    points = np.asarray(learner.candidates.X[rows], dtype=np.float64)
    return Landscape(
        points=points,
        # matplotlib would read dollar signs as the ends of formulas.
        names=_numbered(d) if names is None else tuple(name.replace("$", r"\$") for name in names),
        complexity=learner.local_complexity()[rows],
        superior_density=learner.superior_density()[rows],
        training_density=learner.training_density()[rows],
        labelled=_coordinates(learner, learner.labelled.X, learner.labelled.candidate),
        suggested=suggested_inputs(learner),
    )


def suggested_inputs(learner: ActiveLearner) -> Float[ndarray, "n d"]:
    """Inputs of the pending points."""
    numbers, inputs = learner.candidates.locate(learner.pending)
    return _coordinates(learner, inputs, np.asarray(numbers, dtype=np.int64))


def _coordinates(learner: ActiveLearner, inputs: ndarray, numbers: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
    """Points as figures show them: their inputs in a box, coordinates of their candidates in a pool."""
    return np.asarray(inputs if learner.is_box else learner.candidates.X[numbers], dtype=np.float64)


def _numbered(d: int) -> tuple[str, ...]:
    return ("$x$",) if d == 1 else tuple(f"$x_{{{j + 1}}}$" for j in range(d))
