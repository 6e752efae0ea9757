"""A space of named variables: real and whole numbers, categories, constraints, and tables in and out."""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.feasible_points import drawn, listed
from lobal.active.frames import Columns, Table, UserInput, as_table, columns_of
from lobal.active.outputs import checked_outputs, labels_of
from lobal.active.region import Constraint, Region, checked_region
from lobal.active.search_candidates import SearchCandidates, mixed_density
from lobal.active.space_fields import (
    SPACE,
    VERSION,
    column_groups,
    constraint_fields,
    expressions_only,
    region_from,
    units_of,
)
from lobal.active.spaces import Space
from lobal.active.surrogate import Surrogate, Validation
from lobal.core.arrays import as_column
from lobal.core.checks import shown, whole_number
from lobal.core.density import normalised
from lobal.core.files import read_plain, write_atomically
from lobal.core.real_numbers import as_numbers
from lobal.core.schema import read_from
from lobal.core.variables import SLACK, Categorical, Integer, Real, Variable
from lobal.mixture.estimator import MixtureRegressor

logger = logging.getLogger(__name__)

MOST_LEVELS = 100  # of a text column that is taken for a category
CostOfCodes: TypeAlias = Callable[[Float[ndarray, "N v"]], Float[Tensor, " N"] | None]
TEST_DENSITIES = ("pool", "uniform")


@final
class SearchSpace(Space):
    """All points of named variables that fulfil the constraints, or the rows of a table that do.

    Points are tables: `ask` returns a data frame with a column for every variable, in raw values, with the units in
    `frame.attrs["units"]` (a dictionary of columns where pandas is not installed); `tell`, `expect`, `give_up` and
    `predict` take a data frame, a dictionary of columns or a list of dictionaries. Oracles get such a table as well.

    A space without `Real` variables is finite: no point is asked for twice, unless there are more than `n_candidates`.

    Args:
        variables: `lobal.Real`, `lobal.Integer` and `lobal.Categorical`.
        constraints: expressions over the names, such as "x1 + x2 <= 100" or "solvent != 'water' or T <= 100", linear
            equalities such as "a + b + c == 100", or functions that take a dictionary of columns and return True or
            False for every row.
        pool: a table whose rows can be labelled, and no other points; its index names them. Rows that break a
            constraint are left out.
        index: labels of the pool's rows, by default the index of a data frame, or row numbers.
        test_density: where predictions are wanted: "uniform", the default without a pool, or "pool", the default with
            one, as often as rows are found there.
        n_candidates: how many feasible points densities are computed at, where there is no pool.
        outputs: names of several numbers that are measured, or `lobal.Output`s, or a `lobal.Curve`.
        cost: what a label costs, above zero: a function of a dictionary of columns or, of a pool, values at its rows.

    Raises:
        TypeError, ValueError: variables, constraints or table do not fit together.

    Example:
        >>> import lobal
        >>> space = lobal.SearchSpace(
        ...     [lobal.Real("T", 20, 200, unit="C"), lobal.Integer("n", 1, 9), lobal.Categorical("s", ["a", "b"])],
        ...     constraints=["T + 10 * n <= 250"],
        ... )
        >>> points = lobal.ActiveLearner(space, seed=0).ask(5)
        >>> list(points.columns), points.attrs["units"]
        (['T', 'n', 's'], {'T': 'C'})
    """

    def __init__(
        self,
        variables: UserInput,
        constraints: UserInput = (),
        *,
        pool: UserInput = None,
        index: Sequence[str | int | float] | None = None,
        test_density: UserInput = None,
        n_candidates: UserInput = 2**15,
        outputs: UserInput = None,
        cost: UserInput = None,
    ) -> None:
        self.region: Region = checked_region(variables, constraints)
        self.n_candidates = whole_number("n_candidates", n_candidates, least=1)
        if test_density not in (None, *TEST_DENSITIES) or (test_density == "pool" and pool is None):
            raise ValueError(f"test_density must be 'uniform' or, of a pool, 'pool', got {test_density!r}")
        self.test_density = test_density
        self.outputs = checked_outputs(outputs)
        self._pool = None if pool is None else _Pool(self.region, columns_of(pool, self.region.names), index)
        self._cost = self._checked_cost(cost)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables."""
        return self.region.variables

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints."""
        return self.region.constraints

    @property
    def names(self) -> list[str]:
        """The variables' names."""
        return self.region.names

    def __repr__(self) -> str:
        rows = "" if self._pool is None else f", pool of {len(self._pool.codes)} rows"
        return f"SearchSpace({list(self.variables)}, {list(self.constraints)}{rows})"

    @classmethod
    def from_pool(
        cls,
        pool: UserInput,
        constraints: UserInput = (),
        *,
        log: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        test_density: UserInput = None,
    ) -> "SearchSpace":
        """The space of a table's columns: numbers between the least and the greatest, texts as categories.

        Args:
            pool: a data frame or a dictionary of columns.
            constraints: as of `SearchSpace`.
            log: columns whose logarithm counts.
            units: units by column.
            columns: those that are inputs; by default all.
            test_density: as of `SearchSpace`.

        Raises:
            ValueError: a column is constant, has gaps, or is a text with too many levels.
        """
        names = list(pool) if columns is None else list(columns)
        found, given = columns_of(pool, names), {} if units is None else units
        unknown = [name for name in (*log, *given) if name not in names]
        if unknown:
            raise ValueError(f"log and units must name columns of the pool, {names}, got {unknown[0]!r}")
        variables = [_variable_of(name, found.columns[name], name in log, given.get(name)) for name in names]
        return cls(variables, constraints, pool=pool, test_density=test_density)

    # As a space of the learner.

    def candidates(self, seed: int) -> SearchCandidates:
        """Rows of the pool, all points of a small finite space, or evenly spread feasible points."""
        if self._pool is not None:
            return self._of_pool(self._pool, seed)
        points, cell = listed(self.region) if np.isfinite(self.region.n_combinations) else None, None
        if points is not None and len(points) <= self.n_candidates:
            codes = points
        else:
            codes, share = drawn(self.region, self.n_candidates, seed)
            if share < 0.5:
                logger.info("%.2g%% of the points between the bounds are feasible", 100.0 * share)
            cell = float(min(1.0, max(share, 1e-12) / len(codes)) ** (1.0 / self.region.dimension))
        p_X = torch.ones(len(codes), dtype=torch.float64)
        return SearchCandidates(
            region=self.region,
            codes=codes,
            pool_density=p_X,
            test_density=p_X,
            cell=cell,
            outputs=self.outputs,
            cost=self._cost(codes),
        )

    def _of_pool(self, pool: "_Pool", seed: int) -> SearchCandidates:
        p_X = mixed_density(self.region, pool.codes, of=pool.codes, seed=seed)
        q = normalised(torch.ones_like(p_X), p_X) if self.test_density == "uniform" else p_X
        return SearchCandidates(
            region=self.region,
            codes=pool.codes,
            pool_density=p_X,
            test_density=q,
            index=pool.index,
            is_table=True,
            outputs=self.outputs,
            cost=self._cost(pool.codes),
        )

    def _checked_cost(self, cost: UserInput) -> CostOfCodes:
        """What a label costs at candidates, by their codes."""
        if cost is None:
            return lambda _: None
        if callable(cost):

            def computed(codes: Float[ndarray, "N v"]) -> Float[Tensor, " N"]:
                values = as_numbers(cost(self.region.columns(codes)), name="cost(columns)")
                return torch.from_numpy(as_column(values, name="cost(columns)", length=len(codes), positive=True))

            return computed
        pool = self._pool
        if pool is None:
            raise ValueError(f"without a pool, cost must be a function of a dictionary of columns, got {shown(cost)}")
        values = as_column(as_numbers(cost, name="cost"), name="cost", length=pool.n_rows, positive=True)[pool.rows]
        return lambda _: torch.from_numpy(values)

    def mixture_options(self) -> dict[str, Any]:
        """The levels of a category share one bandwidth."""
        groups = column_groups(self.variables)
        return {} if groups is None else {"column_groups": groups}

    def default_surrogate(self, preset: str | None = None) -> Surrogate:
        return self.surrogate_of(MixtureRegressor(preset=preset))

    def checked_validation(self, validation: UserInput) -> Validation:
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise TypeError(f"validation must be a pair of points and labels, got {shown(validation)}")
        X = self.encode(validation[0])
        if self.outputs is not None:
            y = labels_of(self.outputs, validation[1], len(X), name="the labels of validation")
        else:
            y = np.atleast_1d(as_numbers(validation[1], name="the labels of validation"))
        if y.shape[:1] != (len(X),) or not np.isfinite(y).all():
            raise ValueError(f"validation must have {len(X)} finite labels, one for each point, got shape {y.shape}")
        return Validation(X, y)

    # Points.

    def encode(self, points: UserInput) -> Float[ndarray, "n d"]:
        """The inputs of models: numbers from 0 to 1, and a column for every level of a category.

        Raises:
            ValueError: columns are missing, or values are none of the variables.
        """
        return self.region.inputs(self.region.codes(columns_of(points, self.names).columns))

    def decode(self, inputs: UserInput) -> Table:
        """The points of inputs of models, as a table."""
        X, columns, first = np.atleast_2d(as_numbers(inputs, name="inputs")), {}, 0
        for variable in self.variables:
            part = X[:, first : first + variable.n_inputs]
            columns[variable.name], first = variable.values(variable.from_inputs(part)), first + variable.n_inputs
        if first != X.shape[1]:
            raise ValueError(f"inputs must have {first} columns, got shape {X.shape}")
        return as_table(columns, index=None, units=units_of(self.variables))

    def feasible(self, points: UserInput) -> ndarray:
        """Which points fulfil the constraints, up to rounding."""
        codes = self.region.codes(columns_of(points, self.names).columns)
        return self.region.fulfilled(codes, slack=SLACK)

    # JSON.

    def to_json(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The variables and constraints as JSON holds them, also written to a file if there is a path.

        The rows of a pool are not part of it.

        Raises:
            ValueError: a constraint is a function.
        """
        expressions_only(self.constraints)
        fields = constraint_fields(self.region)
        if path is not None:
            write_atomically(Path(path), json.dumps(fields, indent=2, ensure_ascii=False).encode())
        return fields

    @classmethod
    def from_json(cls, source: str | os.PathLike[str] | Mapping[str, Any], **options: UserInput) -> "SearchSpace":
        """The space of a JSON file, or of what it holds; pool, outputs and other options as of `SearchSpace`.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it does not describe a space; names the entry, what was expected and what was got.
        """
        if isinstance(source, Mapping):
            return cls._from_fields(source, options)
        with read_from(source, "a search space", advice="see docs/search_space.md for an example", origin=""):
            return cls._from_fields(_parsed(read_plain(source).decode("utf-8-sig")), options)

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], options: Mapping[str, UserInput]) -> "SearchSpace":
        SPACE(fields, "space")
        unknown = [name for name in fields if name not in ("version", "variables", "constraints")]
        if unknown:
            raise ValueError(f"space must have no entries but version, variables, constraints, got {unknown[0]!r}")
        texts = fields.get("constraints", [])
        if None in texts:
            raise ValueError(f"every one of space.constraints must be a text, got null at {texts.index(None)}")
        region = region_from({"version": VERSION, **fields}, None)
        return cls(region.variables, region.constraints, **options)


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"it is no JSON, {error.msg} in line {error.lineno}, column {error.colno}; texts need double quotes, true "
            "and false are in lower case, and no comma follows the last entry"
        ) from error


@final
class _Pool:
    """The feasible rows of a table, as codes, and their labels."""

    def __init__(self, region: Region, found: Columns, index: Sequence[str | int | float] | None) -> None:
        codes = region.codes(found.columns)
        feasible = np.flatnonzero(region.fulfilled(codes, slack=SLACK))
        if not len(feasible):
            raise ValueError(f"none of the {len(codes)} rows of the pool fulfils the constraints")
        if len(feasible) < len(codes):
            logger.info("%d of %d rows of the pool break a constraint", len(codes) - len(feasible), len(codes))
        given = found.labels if index is None else list(index)
        labels = list(range(len(codes))) if given is None else given
        if len(labels) != len(codes):
            raise ValueError(f"index must have {len(codes)} labels, one for each row of the pool, got {len(labels)}")
        wrong = [label for label in labels if not isinstance(label, str | int | float)]
        if wrong or len({*labels}) < len(labels):
            got = shown(wrong[0]) if wrong else "some twice"
            raise ValueError(
                f"the index of the pool must be different texts or numbers, got {got}; use frame.reset_index()"
            )
        kept = [labels[row] for row in feasible.tolist()]
        self.codes, self.rows, self.n_rows = codes[feasible], feasible, len(codes)
        self.index: list[Any] | None = None if kept == list(range(len(kept))) else kept


def _variable_of(name: str, column: ndarray, log: bool, unit: str | None) -> Variable:
    """What a column of a table looks like."""
    if column.dtype.kind in "iu" and column.min() < column.max():
        return Integer(name, int(column.min()), int(column.max()), log=log, unit=unit)
    if column.dtype.kind in "fiu":
        numbers = column[np.isfinite(column)]
        if not len(numbers) or numbers.min() == numbers.max():
            raise ValueError(f"the column {name!r} of the pool is constant or empty; leave it out of columns=[...]")
        return Real(name, float(numbers.min()), float(numbers.max()), log=log, unit=unit)
    levels = list(dict.fromkeys(column.tolist()))
    if not 2 <= len(levels) <= MOST_LEVELS or log:
        raise ValueError(
            f"the column {name!r} of the pool must be numbers, or texts of 2 to {MOST_LEVELS} levels, got "
            f"{len(levels)} different ones such as {levels[0]!r}; choose inputs with columns=[...]"
        )
    return Categorical(name, levels)
