"""Named variables and the constraints that points of them must fulfil."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.core.checks import shown
from lobal.core.expressions import Expression
from lobal.core.real_numbers import UserInput
from lobal.core.variables import Categorical, Variable

ConstraintFunction: TypeAlias = Callable[[Mapping[str, ndarray]], Any]
Constraint: TypeAlias = Expression | ConstraintFunction

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

    def inside(self, codes: Float[ndarray, "n v"]) -> Bool[ndarray, " n"]:
        """Which points lie within the bounds."""
        lower, upper = self.bounds
        slack = ROUNDING * (upper - lower)
        return np.asarray(((codes >= lower - slack) & (codes <= upper + slack)).all(axis=1))

    @cached_property
    def bounds(self) -> Float[ndarray, "2 v"]:
        """The smallest and the largest codes."""
        return np.array([each.bounds for each in self.variables]).T


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
