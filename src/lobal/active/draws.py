"""Designs: how points are drawn from a density over the candidates.

A design takes a `DrawTask` and returns candidate numbers. The learner looks it up by its name in `DRAWS`; designs of
other rooms are imported when they are first used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TypeAlias, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.ledger import Observations
from lobal.active.candidates import Candidates, Points
from lobal.active.surrogate import FittedSurrogate
from lobal.core.arrays import column_of
from lobal.core.density import capped

# Candidates looked at together: what is computed on the way for so many takes a few MB.
PART = 2**16
LAST = 1e-12  # weight of points that come when no others are left, relative to the largest
# Bits of the position along the space-filling curve: what a signed 64-bit integer holds.
CURVE_BITS = 63


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class DrawTask:
    """Everything that a design may choose the next points by."""

    candidates: Candidates
    weights: Float[Tensor, " N"]  # density of the new points over p_X; zero at points of a pool drawn already
    superior: Float[Tensor, " N"]  # that all points together should follow, at equal norm with p_X
    check: int  # points that follow the test density whatever the model says; they come first
    drawn: Points  # all points so far, whether labelled, pending or failed
    labelled: Observations
    fitted: FittedSurrogate | None  # none while there are too few labels
    trust: float  # how far local complexity is followed: 0 not at all, 1 as the model found it
    dimension: float  # delta
    b: int  # how many points are wanted
    generator: torch.Generator

    def check_possible(self) -> None:
        """Raise a ValueError if there are too few candidates."""
        _check_draw(self.weights, self.b, repeated=self.candidates.is_box)

    def at_random(
        self, density: Float[Tensor, " N"], b: int, *, without: Int[Tensor, " k"] | None = None
    ) -> Int[Tensor, " b"]:
        """Independent draws from a density, of candidates that may be drawn."""
        if b < 1:
            return torch.empty(0, dtype=torch.long)
        available = self.candidates.test_density > 0.0
        if not self.candidates.is_box:
            available[torch.as_tensor(self.drawn[0], dtype=torch.long)] = False
            available[[] if without is None else without] = False
        weights = density / self.candidates.pool_density
        weights = torch.where(available, weights.clamp_min(LAST * weights.max()), 0.0)
        return draw_random(weights, self.candidates.X, b, generator=self.generator, repeated=self.candidates.is_box)


Design: TypeAlias = Callable[[DrawTask], Int[Tensor, " b"]]  # the candidates to label next; of a pool all different


@runtime_checkable
class Draw(Protocol):
    """A way of drawing from candidates by their weights alone."""

    def __call__(
        self,
        weights: Float[Tensor, " N"],
        X: Real[ndarray, "N d"],
        b: int,
        *,
        generator: torch.Generator,
        repeated: bool = False,
    ) -> Int[Tensor, " b"]:
        """The indices of b candidates in proportion to their weights, none of weight zero.

        Those of a pool are all different. Those of a box stand for a cell with room for many points and may be
        `repeated`: where more are wanted than there are cells, different ones would not follow the weights.

        Raises:
            ValueError: a weight is negative, NaN or infinite, or too few are positive.
        """


def draw_random(
    weights: Float[Tensor, " N"],
    X: Real[ndarray, "N d"],  # noqa: ARG001 - as every Draw
    b: int,
    *,
    generator: torch.Generator,
    repeated: bool = False,
) -> Int[Tensor, " b"]:
    """Independent draws; without replacement by the b largest of log weight + Gumbel noise."""
    _check_draw(weights, b, repeated=repeated)
    if repeated:
        positive = torch.nonzero(weights > 0)[:, 0]
        return positive[_hits(weights[positive], torch.rand(b, dtype=weights.dtype, generator=generator))]
    best, where = weights.new_empty(0), torch.empty(0, dtype=torch.long)
    for start in range(0, len(weights), PART):
        part = weights[start : start + PART]
        noisy = part.log() - torch.empty_like(part).exponential_(generator=generator).log_()
        best, kept = torch.cat([best, noisy]).topk(min(b, len(best) + len(part)))
        where = torch.cat([where, torch.arange(start, start + len(part))])[kept]
    return where


def draw_low_dispersion(
    weights: Float[Tensor, " N"],
    X: Real[ndarray, "N d"],
    b: int,
    *,
    generator: torch.Generator,
    repeated: bool = False,
) -> Int[Tensor, " b"]:
    """Systematic draws along a space-filling curve: the density of random draws, but evenly spread.

    Every candidate has a piece of the curve as long as its weight, at most one step unless it may be repeated; the
    candidates at b equal steps from a random start are drawn. The order of the indices is random.
    """
    _check_draw(weights, b, repeated=repeated)
    positive = torch.nonzero(weights > 0)[:, 0]
    curve = positive[space_filling_order(X, positive)]
    lengths = weights if repeated else capped(weights, float(b))
    start = torch.rand(1, dtype=weights.dtype, generator=generator)
    hits = _hits(lengths[curve], (start + torch.arange(b, dtype=weights.dtype)) / b)
    if not repeated:
        # Rounding may put two steps on one candidate or the last behind the end: move those to their neighbours.
        count = torch.arange(b)
        hits = torch.minimum((hits - count).cummax(0).values + count, len(curve) - b + count)
    return curve[hits][torch.randperm(b, generator=generator)]


def _hits(lengths: Float[Tensor, " k"], places: Float[Tensor, " b"]) -> Int[Tensor, " b"]:
    """Which of the pieces, laid end to end, lie at the given shares of the way; none of length zero but by rounding."""
    ends = lengths.cumsum(0)
    return torch.searchsorted(ends, places * ends[-1], right=True).clamp_max(len(ends) - 1)


def _check_draw(weights: Float[Tensor, " N"], b: int, *, repeated: bool) -> None:
    wrong = torch.nonzero(~(torch.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"weights must be finite and at least zero, got {weights[row].item()} at candidate {row}")
    positive = int((weights > 0).sum())
    if not 1 <= b <= (b if repeated and positive else positive):
        raise ValueError(
            f"between 1 and {positive} candidates can be drawn (the number with positive weight, of {len(weights)}), "
            f"got b={b}"
        )


def space_filling_order(X: Real[ndarray, "N d"], rows: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
    """The order of the given rows along a curve that fills their space: neighbours on it are close in X.

    Sorted in one dimension. In more, the Morton (Z-order) curve of the columns' ranks: the bits of all ranks,
    interleaved. Columns beyond the `CURVE_BITS`-th are left out. X is read one column at a time.
    """
    index = rows.numpy()
    columns = min(X.shape[1], CURVE_BITS)
    bits = CURVE_BITS // columns
    code = np.zeros(len(index), dtype=np.int64)
    for column in range(columns):
        level = _rank_levels(column_of(X, column)[index], bits)
        for start in range(0, len(index), PART):
            part = slice(start, start + PART)
            for bit in range(bits):
                code[part] |= ((level[part] >> bit) & 1) << (bit * columns + columns - 1 - column)
    return torch.from_numpy(np.argsort(code, kind="stable"))


def _rank_levels(column: Real[ndarray, " k"], bits: int) -> Int[ndarray, " k"]:
    """The ranks from 0 to 2^bits - 1, equal for equal values."""
    k, ordered = len(column), np.sort(column)
    # At 32 bits every one of the ranks has a level of its own already.
    levels = 2 ** min(bits, 32)
    if levels >= k:
        return np.asarray(np.searchsorted(ordered, column, side="left") * levels // k)
    # Level j are the values above the one of rank ceil(j k / levels), counted from one: found sooner than the ranks.
    below = -(-np.arange(1, levels) * k // levels)
    return np.searchsorted(ordered[below - 1], column, side="left")


def random(task: DrawTask) -> Int[Tensor, " b"]:
    """Independent draws, as in the paper."""
    return draw_random(
        task.weights, task.candidates.X, task.b, generator=task.generator, repeated=task.candidates.is_box
    )


def low_dispersion(task: DrawTask) -> Int[Tensor, " b"]:
    """Systematic draws along a space-filling curve."""
    return draw_low_dispersion(
        task.weights, task.candidates.X, task.b, generator=task.generator, repeated=task.candidates.is_box
    )


SPREAD, INTEGRATED_VARIANCE = "spread", "integrated_variance"
ADAPTIVE = "adaptive"  # the one of these two that suits the model, step by step
EVEN = (ADAPTIVE, SPREAD, INTEGRATED_VARIANCE)  # designs without gaps and clusters
FOLLOWING = (*EVEN, "random", "low_dispersion")  # designs that follow the superior density
# Where designs are, by name: a module and a function in it.
DRAWS = {
    "random": "lobal.active.draws:random",
    "low_dispersion": "lobal.active.draws:low_dispersion",
    SPREAD: "lobal.active.spread:spread",
    INTEGRATED_VARIANCE: "lobal.active.integrated_variance:integrated_variance",
    "gsx": "lobal.baselines.activeml:gsx",
    "igs": "lobal.baselines.activeml:igs",
    "qbc": "lobal.baselines.activeml:qbc",
    "kl": "lobal.baselines.activeml:kl",
    "lcmd": "lobal.baselines.lcmd:lcmd",
    "qnipv": "lobal.baselines.qnipv:qnipv",
    "gp_variance": "lobal.baselines.uncertainty:gp_variance",
    "mogpu": "lobal.baselines.uncertainty:mogpu",
}


def names() -> list[str]:
    """The names that a learner can be given."""
    return sorted([ADAPTIVE, *DRAWS])


def design(name: str) -> Design:
    """The design of that name."""
    module, function = DRAWS[name].split(":")
    found: Design = getattr(import_module(module), function)
    return found
