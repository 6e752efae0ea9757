"""The feasible points of named variables: which points fulfil the constraints, and how such points are drawn.

Points are evenly spread (scrambled Sobol) over the variables; those that break a constraint are left out. The parts of
a sum that must be constant are the gaps between sorted numbers, which are uniform on a simplex; other linear equalities
are walked along in random directions (hit-and-run), which is uniform in the end.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.linalg import null_space
from scipy.optimize import linprog
from scipy.stats import qmc

from lobal.core.checks import shown
from lobal.core.expressions import Expression
from lobal.core.real_numbers import UserInput
from lobal.core.variables import Categorical, Integer, Real, Variable

logger = logging.getLogger(__name__)

ConstraintFunction: TypeAlias = Callable[[Mapping[str, ndarray]], Any]
Constraint: TypeAlias = Expression | ConstraintFunction

SMALLEST_SHARE = 1e-4  # of the points that must be feasible
MOST_TRIED = 2**20  # points; more take long
MOST_LISTED = 2**20  # combinations of a finite space that are looked at one by one
ENOUGH = 1e-2  # share of feasible points below which sums are not drawn by gaps any more
TINY = 1e-100  # a step of zero
ROUNDING = 1e-9  # of a range: bounds that are missed by less are kept


class Equalities(NamedTuple):
    """A x = b over some columns."""

    columns: list[int]
    A: Float[ndarray, "m e"]
    b: Float[ndarray, " m"]


@final
@dataclass(frozen=True, eq=False)
class Region:
    """Variables and the constraints that points must fulfil; points are rows of codes."""

    variables: tuple[Variable, ...]
    constraints: tuple[Constraint, ...]

    @property
    def names(self) -> list[str]:
        """The variables' names."""
        return [variable.name for variable in self.variables]

    @property
    def n_combinations(self) -> float:
        """How many values there are together; infinite where one variable is real."""
        return math.prod(math.inf if each.n_values is None else float(each.n_values) for each in self.variables)

    @property
    def dimension(self) -> int:
        """Numbers that can be changed independently of each other; at least one."""
        n_numbers = sum(not isinstance(variable, Categorical) for variable in self.variables)
        rank = 0 if self.equalities is None else int(np.linalg.matrix_rank(self.equalities.A))
        return max(1, n_numbers - rank)

    def columns(self, codes: Float[ndarray, "n v"]) -> dict[str, ndarray]:
        """The values of points by the variables' names."""
        return {each.name: each.values(column) for each, column in zip(self.variables, codes.T, strict=True)}

    def codes(self, columns: Mapping[str, ndarray]) -> Float[ndarray, "n v"]:
        """One number for every value.

        Raises:
            ValueError: a value is none of its variable.
        """
        return np.column_stack([each.codes(columns[each.name]) for each in self.variables])

    def inputs(self, codes: Float[ndarray, "n v"]) -> Float[ndarray, "n d"]:
        """The inputs of a model."""
        return np.hstack([each.inputs(column) for each, column in zip(self.variables, codes.T, strict=True)])

    # Feasibility.

    def fulfilled(self, codes: Float[ndarray, "n v"], *, slack: float = 0.0) -> Bool[ndarray, " n"]:
        """Which points fulfil all constraints; expressions up to rounding (`slack`)."""
        columns, found = self.columns(codes), np.ones(len(codes), dtype=bool)
        for constraint in self.constraints if len(codes) else ():
            found &= holds(constraint, columns, slack)
        return found

    def check(self, codes: Float[ndarray, "n v"], *, slack: float) -> None:
        """Refuse points that break a constraint, with their values."""
        columns = self.columns(codes)
        for constraint in self.constraints if len(codes) else ():
            broken = np.flatnonzero(~holds(constraint, columns, slack))
            if len(broken):
                values = {name: column[broken[0]] for name, column in columns.items()}
                shown_values = ", ".join(f"{name} = {value}" for name, value in values.items())
                raise ValueError(
                    f"points must fulfil the constraint {name_of(constraint)}, got {shown_values}; leave such points "
                    "out, or begin with other constraints"
                )

    @cached_property
    def equalities(self) -> Equalities | None:
        """The linear equalities that points must fulfil."""
        forms = [form for each in self.constraints if isinstance(each, Expression) for form in each.equalities()]
        numeric = [each.name for each in self.variables if not isinstance(each, Categorical)]
        forms = [form for form in forms if form is not None and {*form.coefficients} <= {*numeric}]
        names = [name for name in self.names if any(form.coefficients.get(name) for form in forms if form)]
        if not names:
            return None
        rows = [[form.coefficients.get(name, 0.0) for name in names] for form in forms if form]
        constants = [-form.constant for form in forms if form]
        return Equalities([self.names.index(name) for name in names], np.array(rows), np.array(constants))

    # Points.

    def listed(self) -> Float[ndarray, "N v"] | None:
        """All feasible points of a finite space; none where there are too many to look at one by one."""
        if self.n_combinations > MOST_LISTED:
            return None
        values = [np.arange(each.bounds[0], each.bounds[1] + 1.0) for each in self.variables]
        codes = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(values))
        feasible: ndarray = codes[self.fulfilled(codes)]
        if not len(feasible):
            raise ValueError(f"none of the {len(codes)} combinations is feasible; {self._advice(codes)}")
        return feasible

    def drawn(self, n: int, seed: int) -> tuple[Float[ndarray, "k v"], float]:
        """At most n different feasible points, evenly spread, and the share of points that were feasible.

        Raises:
            ValueError: too small a share is feasible.
        """
        draws = [self._by_gaps] if self._are_sums else []
        draws += [] if self.equalities is None else [self._by_walks]
        for draw in draws or [self._evenly]:
            found, tried = self._drawn_by(draw, n, seed)
            if len(found) >= (SMALLEST_SHARE if draw is not self._by_gaps else ENOUGH) * tried:
                return found[:n], len(found) / tried
        sample = (draws or [self._evenly])[-1](np.random.default_rng(seed).random((2**12, len(self.variables))), seed)
        raise ValueError(
            f"only {len(found)} of {tried} points are feasible, at least {SMALLEST_SHARE:g} of them are needed; "
            f"{self._advice(sample)}"
        )

    def moved(self, codes: Float[ndarray, "n v"], by: Float[ndarray, "n v"]) -> Float[ndarray, "n v"]:
        """Points moved by shares of the ranges, along the equalities; they may break other constraints."""
        moved = [each.moved(column, step) for each, column, step in zip(self.variables, codes.T, by.T, strict=True)]
        found = np.column_stack(moved)
        if self.equalities is not None:
            columns, A, _ = self.equalities
            ranges = self._bounds[1, columns] - self._bounds[0, columns]
            steps = by[:, columns] - by[:, columns] @ np.linalg.pinv(A * ranges).dot(A * ranges).T
            found[:, columns] = codes[:, columns] + steps * ranges
            found = self._repaired(found)
        return found

    def inside(self, codes: Float[ndarray, "n v"]) -> Bool[ndarray, " n"]:
        """Which points lie within the bounds."""
        lower, upper = self._bounds
        slack = ROUNDING * (upper - lower)
        return np.asarray(((codes >= lower - slack) & (codes <= upper + slack)).all(axis=1))

    def _drawn_by(
        self, draw: Callable[[Float[ndarray, "n v"], int], ndarray], n: int, seed: int
    ) -> tuple[Float[ndarray, "k v"], int]:
        """Feasible points among as many as are needed, at most `MOST_TRIED`, and how many were tried."""
        sobol = qmc.Sobol(len(self.variables), seed=np.random.default_rng(seed))
        found, tried, size = np.empty((0, len(self.variables))), 0, 2 ** math.ceil(math.log2(max(2, n)))
        while len(found) < n and tried + size <= max(MOST_TRIED, size):
            codes = draw(sobol.random(size), seed + tried)
            feasible = codes[self.inside(codes)]
            feasible = np.clip(feasible, *self._bounds)
            found, tried = np.vstack([found, feasible[self.fulfilled(feasible)]]), tried + size
            size = min(2 * size, 2**16)
        kept = np.sort(np.unique(found, axis=0, return_index=True)[1])
        return found[kept], tried

    def _evenly(self, shares: Float[ndarray, "n v"], seed: int) -> Float[ndarray, "n v"]:
        """A point for every row of shares."""
        del seed
        return np.column_stack([each.drawn(share) for each, share in zip(self.variables, shares.T, strict=True)])

    @property
    def _are_sums(self) -> bool:
        """Whether no variable is in two equalities."""
        return self.equalities is not None and bool(((self.equalities.A != 0.0).sum(axis=0) == 1).all())

    def _by_gaps(self, shares: Float[ndarray, "n v"], seed: int) -> Float[ndarray, "n v"]:
        """With c x = b, the parts |c| times the distance of x from one of its bounds are gaps of sorted shares."""
        assert self.equalities is not None
        codes, (columns, A, b) = self._evenly(shares, seed), self.equalities
        for row, constant in zip(A, b, strict=True):
            c, among = row[row != 0.0], np.array(columns)[row != 0.0]
            start = np.where(c > 0, self._bounds[0, among], self._bounds[1, among])
            total = constant - c @ start
            cuts = np.sort(shares[:, among[:-1]], axis=1)
            gaps = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
            codes[:, among] = start + total * gaps / c
        return self._repaired(codes)

    def _by_walks(self, shares: Float[ndarray, "n v"], seed: int) -> Float[ndarray, "n v"]:
        """Points that walk from the middle of the polytope, each far enough to forget where it began."""
        assert self.equalities is not None
        codes, (columns, A, b), rng = self._evenly(shares, seed), self.equalities, np.random.default_rng(seed)
        lower, upper = self._bounds[:, columns]
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
        return self._repaired(codes)

    def _repaired(self, codes: Float[ndarray, "n v"]) -> Float[ndarray, "n v"]:
        """Points with whole numbers where they must be; real numbers make up for it."""
        assert self.equalities is not None
        codes, (columns, A, b) = codes.copy(), self.equalities
        whole = [column for column in columns if isinstance(self.variables[column], Integer)]
        reals = [place for place, column in enumerate(columns) if isinstance(self.variables[column], Real)]
        codes[:, whole] = np.rint(codes[:, whole])
        if reals:
            among = np.array(columns)[reals]
            ranges = self._bounds[1, among] - self._bounds[0, among]
            missing = b - codes[:, columns] @ A.T
            codes[:, among] += ranges * (missing @ np.linalg.pinv(A[:, reals] * ranges).T)
        return codes

    @cached_property
    def _bounds(self) -> Float[ndarray, "2 v"]:
        return np.array([each.bounds for each in self.variables]).T

    def _advice(self, codes: Float[ndarray, "n v"]) -> str:
        """Which constraint leaves least."""
        columns = self.columns(np.clip(codes, *self._bounds))
        shares = {name_of(each): float(holds(each, columns, 0.0).mean()) for each in self.constraints}
        listed = ", ".join(f"{name} by {share:.2%}" for name, share in shares.items())
        return f"of points between the bounds, the constraints are fulfilled: {listed}; narrow the bounds around them"


def holds(constraint: Constraint, columns: Mapping[str, ndarray], slack: float) -> Bool[ndarray, " n"]:
    """At which rows a constraint holds.

    Raises:
        ValueError: a function returns something other than a truth value for every row.
    """
    if isinstance(constraint, Expression):
        return constraint.holds(columns, slack=slack)
    n = len(next(iter(columns.values())))
    found = np.asarray(constraint(dict(columns)))
    if found.shape not in ((n,), (n, 1)) or found.dtype.kind not in "bO":
        raise ValueError(
            f"the constraint {name_of(constraint)} must return True or False for each of {n} rows, got {shown(found)}; "
            "write it with NumPy, such as lambda columns: columns['x1'] <= columns['x2']"
        )
    return np.asarray(found.reshape(n), dtype=bool)


def name_of(constraint: Constraint) -> str:
    """A constraint for a message."""
    if isinstance(constraint, Expression):
        return repr(constraint.text)
    return f"function {getattr(constraint, '__name__', type(constraint).__name__)}"


def checked_region(variables: UserInput, constraints: UserInput) -> Region:
    """Variables and constraints that fit together.

    Raises:
        TypeError, ValueError: they do not; says which.
    """
    if not isinstance(variables, list | tuple) or not all(isinstance(each, Variable) for each in variables):
        raise TypeError(
            f"variables must be a list of lobal.Real, lobal.Integer and lobal.Categorical, got {shown(variables)}"
        )
    names = [each.name for each in variables]
    if not names or len({*names}) < len(names):
        raise ValueError(f"variables must be one or more with different names, got {names}")
    if not isinstance(constraints, list | tuple):
        raise TypeError(f"constraints must be a list, got {shown(constraints)}; write [{constraints!r}]")
    for constraint in constraints:
        if not isinstance(constraint, str | Expression) and not callable(constraint):
            raise TypeError(f"a constraint must be a text or a function, got {shown(constraint)}")
    parsed = tuple(Expression(each) if isinstance(each, str) else each for each in constraints)
    region = Region(tuple(variables), parsed)
    for constraint in parsed:
        _check_constraint(constraint, region)
    return region


def _check_constraint(constraint: Constraint, region: Region) -> None:
    if not isinstance(constraint, Expression):
        return
    unknown = [name for name in constraint.names if name not in region.names]
    if unknown:
        raise ValueError(f"the constraint {constraint.text!r} names {unknown}, but the variables are {region.names}")
    are_real = {each.name for each in region.variables if each.n_values is None}
    are_levels = {each.name for each in region.variables if isinstance(each, Categorical)}
    for form in constraint.equalities():
        if form is None and are_real & {*constraint.names}:
            raise ValueError(
                f"the equality {constraint.text!r} must be linear, such as 'a + b + c == 100': points that fulfil it "
                "cannot be drawn otherwise; leave one variable out and compute it from the others"
            )
        if form is not None and are_real & {*form.coefficients} and are_levels & {*form.coefficients}:
            raise ValueError(f"the equality {constraint.text!r} must be of numbers only, got levels of a category")
    try:
        constraint.holds(region.columns(np.array([[each.bounds[0] for each in region.variables]])))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the constraint {constraint.text!r} cannot be computed: {error}") from error


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
