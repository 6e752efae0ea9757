"""Feasible points of named variables, and how they are drawn.

Points are evenly spread (scrambled Sobol) over the variables; those that break a constraint are left out. The parts of
a sum that must be constant are the gaps between sorted numbers, which are uniform on a simplex; other linear equalities
are walked along in random directions (hit-and-run), which is uniform in the end.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import null_space
from scipy.optimize import linprog
from scipy.stats import qmc

from lobal.active.region import ROUNDING, Region, holds, name_of
from lobal.core.variables import Integer, Real

# A point for every row of shares between zero and one, by a seed; it may break constraints.
Draw: TypeAlias = Callable[[Region, ndarray, int], ndarray]

SMALLEST_SHARE = 1e-4  # of the points that must be feasible
MOST_TRIED = 2**20  # points; more take long
MOST_LISTED = 2**20  # combinations of a finite space that are looked at one by one
ENOUGH = 1e-2  # share of feasible points below which sums are not drawn by gaps any more
TINY = 1e-100  # a step of zero


def listed(region: Region) -> Float[ndarray, "N v"] | None:
    """All feasible points of a finite space; none where there are too many to look at one by one."""
    if region.n_combinations > MOST_LISTED:
        return None
    values = [np.arange(each.bounds[0], each.bounds[1] + 1.0) for each in region.variables]
    codes = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(values))
    feasible: ndarray = codes[region.fulfilled(codes)]
    if not len(feasible):
        raise ValueError(f"none of the {len(codes)} combinations is feasible; {_advice(region, codes)}")
    return feasible


def drawn(region: Region, n: int, seed: int) -> tuple[Float[ndarray, "k v"], float]:
    """At most n different feasible points, evenly spread, and the share of points that were feasible.

    Raises:
        ValueError: too small a share is feasible.
    """
    draws: list[Draw] = [_by_gaps] if _are_sums(region) else []
    draws += [] if region.equalities is None else [_by_walks]
    for draw in draws or [_evenly]:
        found, tried = _drawn_by(region, draw, n, seed)
        if len(found) >= (SMALLEST_SHARE if draw is not _by_gaps else ENOUGH) * tried:
            return found[:n], len(found) / tried
    sample = (draws or [_evenly])[-1](region, np.random.default_rng(seed).random((2**12, len(region.variables))), seed)
    raise ValueError(
        f"only {len(found)} of {tried} points are feasible, at least {SMALLEST_SHARE:g} of them are needed; "
        f"{_advice(region, sample)}"
    )


def moved(region: Region, codes: Float[ndarray, "n v"], by: Float[ndarray, "n v"]) -> Float[ndarray, "n v"]:
    """Points moved by shares of the ranges, along the equalities; they may break other constraints."""
    moved = [each.moved(column, step) for each, column, step in zip(region.variables, codes.T, by.T, strict=True)]
    found = np.column_stack(moved)
    if region.equalities is not None:
        columns, A, _ = region.equalities
        ranges = region.bounds[1, columns] - region.bounds[0, columns]
        steps = by[:, columns] - by[:, columns] @ np.linalg.pinv(A * ranges).dot(A * ranges).T
        found[:, columns] = codes[:, columns] + steps * ranges
        found = _repaired(region, found)
    return found


def _drawn_by(region: Region, draw: Draw, n: int, seed: int) -> tuple[Float[ndarray, "k v"], int]:
    """Feasible points among as many as are needed, at most `MOST_TRIED`, and how many were tried."""
    sobol = qmc.Sobol(len(region.variables), seed=np.random.default_rng(seed))
    found, tried, size = np.empty((0, len(region.variables))), 0, 2 ** math.ceil(math.log2(max(2, n)))
    while len(found) < n and tried + size <= max(MOST_TRIED, size):
        codes = draw(region, sobol.random(size), seed + tried)
        feasible = codes[region.inside(codes)]
        feasible = np.clip(feasible, *region.bounds)
        found, tried = np.vstack([found, feasible[region.fulfilled(feasible)]]), tried + size
        size = min(2 * size, 2**16)
    kept = np.sort(np.unique(found, axis=0, return_index=True)[1])
    return found[kept], tried


def _evenly(region: Region, shares: Float[ndarray, "n v"], seed: int) -> Float[ndarray, "n v"]:
    """A point for every row of shares."""
    del seed
    return np.column_stack([each.drawn(share) for each, share in zip(region.variables, shares.T, strict=True)])


def _are_sums(region: Region) -> bool:
    """Whether no variable is in two equalities."""
    return region.equalities is not None and bool(((region.equalities.A != 0.0).sum(axis=0) == 1).all())


def _by_gaps(region: Region, shares: Float[ndarray, "n v"], seed: int) -> Float[ndarray, "n v"]:
    """With c x = b, the parts |c| times the distance of x from one of its bounds are gaps of sorted shares."""
    assert region.equalities is not None
    codes, (columns, A, b) = _evenly(region, shares, seed), region.equalities
    for row, constant in zip(A, b, strict=True):
        c, among = row[row != 0.0], np.array(columns)[row != 0.0]
        start = np.where(c > 0, region.bounds[0, among], region.bounds[1, among])
        total = constant - c @ start
        cuts = np.sort(shares[:, among[:-1]], axis=1)
        gaps = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
        codes[:, among] = start + total * gaps / c
    return _repaired(region, codes)


def _by_walks(region: Region, shares: Float[ndarray, "n v"], seed: int) -> Float[ndarray, "n v"]:
    """Points that walk from the middle of the polytope, each far enough to forget where it began."""
    assert region.equalities is not None
    codes, (columns, A, b), rng = _evenly(region, shares, seed), region.equalities, np.random.default_rng(seed)
    lower, upper = region.bounds[:, columns]
    A, b = A * (upper - lower), b - A @ lower
    z, directions = np.tile(_middle(A, b), (len(codes), 1)), null_space(A)
    k = directions.shape[1]
    for _ in range(min(50 + 5 * k * k, 400) if k else 0):
        step = rng.standard_normal((len(z), k)) @ directions.T
        inverse = 1.0 / np.where(step == 0.0, TINY, step)
        ends = -z * inverse  # where a coordinate is zero; it is one by the inverse further on
        low = (ends + np.minimum(inverse, 0.0)).max(axis=1)
        high = (ends + np.maximum(inverse, 0.0)).min(axis=1)
        z += (low + rng.random(len(z)) * (high - low))[:, None] * step
    codes[:, columns] = lower + np.clip(z, 0.0, 1.0) * (upper - lower)
    return _repaired(region, codes)


def _repaired(region: Region, codes: Float[ndarray, "n v"]) -> Float[ndarray, "n v"]:
    """Points with whole numbers where they must be; real numbers make up for it."""
    assert region.equalities is not None
    codes, (columns, A, b) = codes.copy(), region.equalities
    whole = [column for column in columns if isinstance(region.variables[column], Integer)]
    reals = [place for place, column in enumerate(columns) if isinstance(region.variables[column], Real)]
    codes[:, whole] = np.rint(codes[:, whole])
    if reals:
        among = np.array(columns)[reals]
        ranges = region.bounds[1, among] - region.bounds[0, among]
        missing = b - codes[:, columns] @ A.T
        codes[:, among] += ranges * (missing @ np.linalg.pinv(A[:, reals] * ranges).T)
    return codes


def _advice(region: Region, codes: Float[ndarray, "n v"]) -> str:
    """Which constraint leaves least."""
    columns = region.columns(np.clip(codes, *region.bounds))
    shares = {name_of(each): float(holds(each, columns, 0.0).mean()) for each in region.constraints}
    listed = ", ".join(f"{name} by {share:.2%}" for name, share in shares.items())
    return f"of points between the bounds, the constraints are fulfilled: {listed}; narrow the bounds around them"


def _middle(A: Float[ndarray, "m e"], b: Float[ndarray, " m"]) -> Float[ndarray, " e"]:
    """The point of the unit cube on A z = b that is farthest from the faces."""
    m, e = A.shape
    faces = np.vstack([np.hstack([np.eye(e), np.ones((e, 1))]), np.hstack([-np.eye(e), np.ones((e, 1))])])
    found = linprog(
        np.r_[np.zeros(e), -1.0],
        A_ub=faces,
        b_ub=np.r_[np.ones(e), np.zeros(e)],
        A_eq=np.hstack([A, np.zeros((m, 1))]),
        b_eq=b,
        bounds=[(0.0, 1.0)] * e + [(0.0, 0.5)],
    )
    if found.status != 0 or found.x[-1] < ROUNDING:
        raise ValueError(
            "the equalities leave no room within the bounds of their variables; widen the bounds or change the sums"
        )
    return np.asarray(found.x[:-1])
