"""Which candidates to label next: the way to the superior density, and draws from a pool or a box (Sec. 4.2).

Pool or box is decided once, in `candidates_of`: from there on both are candidates with densities at them, all at equal
norm. A draw takes weights, that is a density over the pool density, and returns the indices of candidates.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from numpy import ndarray
from scipy.spatial import KDTree
from scipy.stats import qmc
from torch import Tensor

from lobal.active.spaces import Box, DensityFunction, Pool
from lobal.core.arrays import as_column, column_of, row_parts, rows_at
from lobal.core.density import capped, normalised
from lobal.core.density import pool_density as estimated_pool_density
from lobal.core.mapped import MappedArray

# Candidates looked at together: what is computed on the way for so many takes a few MB.
PART = 2**16
# Bits of the position along the space-filling curve: what a signed 64-bit integer holds.
CURVE_BITS = 63
# From so many points on, a tree finds their neighbours sooner than looking through all candidates.
WORTH_A_TREE = 64


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Points to choose from and the densities at them, those of the test inputs and of the points at equal norm."""

    X: Real[ndarray, "N d"]
    pool_density: Float[Tensor, " N"]  # p_X
    test_density: Float[Tensor, " N"]  # q
    cell: Float[ndarray, " d"] | None = None  # box: widths of the cell that a drawn point stands for
    bounds: Float[ndarray, "2 d"] | None = None  # box: its two corners

    def __post_init__(self) -> None:
        if (self.cell is None) != (self.bounds is None):
            raise ValueError(f"a box has a cell and bounds, a pool neither; got cell={self.cell}, bounds={self.bounds}")

    def __len__(self) -> int:
        return len(self.X)


def candidates_of(space: Pool | Box, *, seed: int) -> Candidates:
    """The rows of a pool, or evenly spread (scrambled Sobol) points of a box, with the densities at them."""
    return _of_pool(space, seed) if isinstance(space, Pool) else _of_box(space, seed)


def _of_pool(pool: Pool, seed: int) -> Candidates:
    p_X = (
        estimated_pool_density(pool.X, generator=torch.Generator().manual_seed(seed))
        if pool.density is None
        else _values(pool.density, pool.X, name="density", positive=True)
    )
    if isinstance(pool.test_density, str):
        q = p_X if pool.test_density == "pool" else torch.ones_like(p_X)
    else:
        q = _values(pool.test_density, pool.X, name="test_density", positive=False)
    return Candidates(X=pool.X, pool_density=p_X, test_density=_at_equal_norm(q, p_X))


def _of_box(box: Box, seed: int) -> Candidates:
    n, width = box.n_candidates, box.upper - box.lower
    sobol = qmc.Sobol(box.dimension, seed=np.random.default_rng(seed))
    X = box.lower + width * sobol.random_base2(math.ceil(math.log2(n)))[:n]
    p_X = torch.ones(n, dtype=torch.float64)
    q = p_X if isinstance(box.test_density, str) else _values(box.test_density, X, name="test_density", positive=False)
    return Candidates(
        X=X,
        pool_density=p_X,
        test_density=_at_equal_norm(q, p_X),
        cell=width * n ** (-1.0 / box.dimension),
        bounds=np.stack([box.lower, box.upper]),
    )


def _values(
    density: Float[ndarray, " N"] | DensityFunction, X: Real[ndarray, "N d"], *, name: str, positive: bool
) -> Float[Tensor, " N"]:
    if isinstance(density, ndarray):
        return torch.tensor(density)
    values = np.empty(len(X))
    for rows, points in row_parts(X):
        values[rows] = as_column(density(points), name=f"{name}(X)", length=len(points), positive=positive)
    return torch.from_numpy(values)


def _at_equal_norm(q: Float[Tensor, " N"], p_X: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    return p_X if q is p_X else normalised(q, p_X)


class NextDensity(NamedTuple):
    """How far the next batch gets on the way to the superior density."""

    gamma_1: float
    gamma_2: float
    density: Float[Tensor, " N"]  # p_{k+1}, of the old and new labels together
    proposal: Float[Tensor, " N"]  # p~_{k+1}, of the new labels


def next_density(
    density: Float[Tensor, " N"],
    superior: Float[Tensor, " N"],
    pool_density: Float[Tensor, " N"],
    *,
    n: int,
    b: int,
) -> NextDensity:
    """The closest to the superior density that b labels can bring n labels of the given density (Sec. 4.2).

    With the share r = n / (n + b) of labels already drawn, gamma_2 = max(0, (r - 1/gamma_1) / (1 - 1/gamma_1)) and
    p~ = (p_{k+1} - r p_k) / (1 - r), a density again; the paper's formulas are those of b = n. Densities count up to
    a constant factor and are returned at equal norm with the pool density.
    """
    if n < 0 or b < 1:
        raise ValueError(f"a batch must add b >= 1 labels to n >= 0, got b={b} and n={n}")
    p_k, p_sup = normalised(density, pool_density), normalised(superior, pool_density)
    r = n / (n + b)
    # 0 / 0 where neither density lives; rounding must not lower the largest ratio of two equal norms below one.
    gamma_1 = max(1.0, (p_k / p_sup).nan_to_num_(nan=0.0, posinf=math.inf).max().item())
    gamma_2 = 0.0 if r * gamma_1 <= 1.0 else (r - 1.0 / gamma_1) / (1.0 - 1.0 / gamma_1)
    p_next = torch.lerp(p_sup, p_k, gamma_2)
    proposal = p_next.sub(p_k, alpha=r).div_(1.0 - r).clamp_min_(0.0)
    return NextDensity(gamma_1, gamma_2, p_next, proposal)


def with_exploration(
    superior: Float[Tensor, " N"], test_density: Float[Tensor, " N"], share: float
) -> Float[Tensor, " N"]:
    """(1 - share) p_sup + share q, both at equal norm.

    No region where predictions are wanted then starves on the evidence of a handful of labels: it keeps at least that
    share of the labels it would get at random.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the share of exploration must lie in [0, 1], got {share}")
    return torch.lerp(superior, test_density, share)


@runtime_checkable
class Draw(Protocol):
    """A way of drawing from candidates."""

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
    if repeated and positive and b >= 1:
        return
    if not 1 <= b <= positive:
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


def place(candidates: Candidates, indices: Int[Tensor, " b"], *, generator: torch.Generator) -> Float[ndarray, "b d"]:
    """Inputs to label: the rows of a pool, or points of a box uniformly within the cells of those drawn.

    A point that would leave the box is reflected at its bounds.
    """
    points = rows_at(candidates.X, indices.numpy())
    if candidates.cell is None or candidates.bounds is None:
        return points
    jitter = torch.rand(points.shape, dtype=torch.float64, generator=generator).numpy() - 0.5
    points += jitter * candidates.cell
    lower, upper = candidates.bounds
    points = np.where(points < lower, 2.0 * lower - points, points)
    points = np.where(points > upper, 2.0 * upper - points, points)
    return np.asarray(np.clip(points, lower, upper))  # against rounding


def random_test_design(
    candidates: Candidates,
    b: int,
    *,
    available: Bool[Tensor, " N"] | None = None,
    generator: torch.Generator,
) -> Int[Tensor, " b"]:
    """Random test sampling: b of the (available) candidates drawn from the test density q."""
    weights = candidates.test_density / candidates.pool_density
    if available is not None:
        weights = weights * available
    return draw_random(weights, candidates.X, b, generator=generator)


def equidistant_design(box: Box, n: int) -> Float[ndarray, "n 1"]:
    """Equidistant inputs of an interval, each half of them halfway between those before (Sec. 5.1).

    lower + i (upper - lower) / n, ordered such that for even n the first n / 2 are the design of size n / 2: the
    distances are halved with each doubling.
    """
    if box.dimension != 1:
        raise ValueError(f"equidistant designs need a box of one dimension, got {box.dimension}")
    if n < 1:
        raise ValueError(f"a design needs at least 1 input, got n={n}")
    odd = n // (n & -n)
    shares = np.arange(odd) / odd
    while len(shares) < n:
        shares = np.concatenate([shares, shares + 0.5 / len(shares)])
    return np.asarray(box.lower + (box.upper - box.lower) * shares[:, None])


def located(candidates: Candidates, batch: Any) -> tuple[list[int], Float[ndarray, "n d"]]:  # noqa: ANN401 - array-likes
    """The candidates that the points of a batch are, or in a box lie next to, and their inputs.

    Points of a pool are given by row number, points in a box by their inputs.
    """
    n, d = candidates.X.shape
    if candidates.cell is None:
        rows = np.atleast_1d(np.asarray(batch))
        if not np.issubdtype(rows.dtype, np.integer) or rows.ndim != 1 or ((rows < 0) | (rows >= n)).any():
            raise ValueError(f"points of a pool are its row numbers 0 ... {n - 1}, got {batch!r}")
        return rows.tolist(), rows_at(candidates.X, rows)
    inputs = np.atleast_2d(np.asarray(batch, dtype=np.float64))
    if inputs.ndim != 2 or inputs.shape[1] != d or not np.isfinite(inputs).all():
        raise ValueError(f"points in a box are finite inputs of shape (n, {d}), got {batch!r}")
    return _nearest(candidates.X / candidates.cell, inputs / candidates.cell), inputs


def _nearest(X: Float[ndarray, "N d"], inputs: Float[ndarray, "n d"]) -> list[int]:
    """The row of X next to each input."""
    if len(inputs) < WORTH_A_TREE:
        return [int(((X - x) ** 2).sum(axis=1).argmin()) for x in inputs]
    rows: list[int] = KDTree(X).query(inputs)[1].tolist()
    return rows


def candidates_tensors(candidates: Candidates) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """The candidates as tensors to save; a memory-mapped pool stays in its file, whose place is returned."""
    tensors = {"pool_density": candidates.pool_density}
    if candidates.test_density is not candidates.pool_density:
        tensors["test_density"] = candidates.test_density
    if candidates.cell is not None and candidates.bounds is not None:
        tensors |= {"cell": torch.tensor(candidates.cell), "bounds": torch.tensor(candidates.bounds)}
    place = MappedArray.of(candidates.X)
    if place is not None:
        return tensors, place._asdict()
    dtype = np.float32 if candidates.X.dtype == np.float32 else np.float64
    return tensors | {"X": torch.from_numpy(np.require(candidates.X, dtype, ["C", "W"]))}, None


def candidates_from(
    tensors: dict[str, Tensor], memory_mapped: dict[str, Any] | None, pool: Pool | None = None
) -> Candidates:
    """The candidates that `candidates_tensors` took apart; `pool` has the inputs of one whose file was moved."""
    if memory_mapped is None:
        if pool is not None:
            raise ValueError("a pool is given for a campaign whose pool was a file, this one has its inputs with it")
        X = tensors["X"].numpy()
    else:
        X = MappedArray(**memory_mapped).open(None if pool is None else pool.X)
    return Candidates(
        X=X,
        pool_density=tensors["pool_density"],
        test_density=tensors.get("test_density", tensors["pool_density"]),
        cell=tensors["cell"].numpy() if "cell" in tensors else None,
        bounds=tensors["bounds"].numpy() if "bounds" in tensors else None,
    )
