"""The input variables of a campaign by name: numbers, or categories that take up several columns of the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.candidates import Candidates
from lobal.active.region import Region
from lobal.active.search_candidates import SearchCandidates
from lobal.core.variables import Categorical, Integer, Numerical

Values: TypeAlias = Callable[[Float[ndarray, "n k"]], Float[ndarray, " n"]]

MOST_DISTINCT = 12  # values of a number that each get their own place in a slice or on a grid
N_SLICES = 20  # of a variable, for the mean of values along it


@final
@dataclass(frozen=True, kw_only=True)
class Variable:
    """One input as its user knows it, and where the model has it.

    `columns` are those of the model's inputs. A variable with `levels` is a category: one column for each level, of
    which the largest counts. `values` turns columns into the user's numbers, as for logarithms; by default they are.
    """

    name: str
    columns: tuple[int, ...]
    levels: tuple[str, ...] = ()
    logarithmic: bool = False  # whether axes are
    values: Values | None = None
    unit: str | None = None
    is_whole: bool = False  # whether values are whole numbers
    is_bound: bool = False  # whether it cannot change alone, such as a part of a sum

    def __post_init__(self) -> None:
        if not self.columns or (len(self.columns) > 1 and not self.levels and self.values is None):
            raise ValueError(
                f"variable {self.name!r} must have one column, or levels or values for several, got columns "
                f"{list(self.columns)}"
            )

    def at(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The variable at model inputs: the user's numbers, or numbers of levels."""
        part = points[:, list(self.columns)]
        if self.values is not None:
            return np.asarray(self.values(part), dtype=np.float64)
        return np.asarray(part.argmax(axis=1) if len(self.columns) > 1 else part[:, 0], dtype=np.float64)

    def shown(self, value: float) -> object:
        """A value as tables show it."""
        if self.levels:
            return self.levels[round(value)]
        return round(value) if self.is_whole else float(value)

    @property
    def title(self) -> str:
        """The name with the unit."""
        return titled(self.name, self.unit)

    @property
    def label(self) -> str:
        """The title for figures: matplotlib would read dollar signs as the ends of formulas."""
        return self.title.replace("$", r"\$")


def titled(name: str, unit: str | None) -> str:
    """A name with its unit, if there is one."""
    return f"{name} ({unit})" if unit else name


def variables_for(candidates: Candidates, names: Sequence[str] | None = None) -> tuple[Variable, ...]:
    """The variables of a search space, or one for each column."""
    if isinstance(candidates, SearchCandidates) and names is None:
        return variables_of_region(candidates.region)
    return variables_of(candidates.X.shape[1], names)


def row_name(candidates: Candidates, number: int) -> str | None:
    """What a candidate is called that is a row of a pool; none of others."""
    if isinstance(candidates, SearchCandidates) and candidates.index is not None:
        return str(candidates.index[number])
    if candidates.is_box or (isinstance(candidates, SearchCandidates) and not candidates.is_table):
        return None
    return f"row {candidates.named(np.array([number]), np.empty((1, candidates.n_columns)))[0]}"


def variables_of_region(region: Region) -> tuple[Variable, ...]:
    """The variables of a search space as users know them: raw values, and one for every category."""
    bound = () if region.equalities is None else region.equalities.columns
    ends = np.cumsum([0, *(variable.n_inputs for variable in region.variables)]).tolist()
    return tuple(
        Variable(
            name=variable.name,
            columns=tuple(range(*ends[place : place + 2])),
            levels=tuple(map(str, variable.levels)) if isinstance(variable, Categorical) else (),
            logarithmic=isinstance(variable, Numerical) and variable.log,
            values=variable.from_inputs,
            unit=variable.unit,
            is_whole=isinstance(variable, Integer),
            is_bound=place in bound,
        )
        for place, variable in enumerate(region.variables)
    )


def variables_of(d: int, names: Sequence[str] | None = None) -> tuple[Variable, ...]:
    """One variable for each of d columns; x, or x1, x2, ..., if they have no names."""
    found = (["x"] if d == 1 else [f"x{j + 1}" for j in range(d)]) if names is None else [*names]
    if len(found) != d:
        raise ValueError(f"{d} input columns need as many names, got {found}")
    return tuple(Variable(name=name, columns=(j,)) for j, name in enumerate(found))


def telling_variables(
    variables: Sequence[Variable], points: Float[ndarray, "n d"], *values: Float[ndarray, " n"]
) -> list[int]:
    """Positions of the variables, that along which the values vary most first.

    What counts is the variance of their mean over slices of the variable, in units of their variance.
    """
    shares = np.zeros(len(variables))
    for each in values:
        deviation = (each - each.mean()) / max(float(each.std()), np.finfo(float).tiny)
        for j, variable in enumerate(variables):
            means, sizes = slice_means(variable.at(points), deviation)
            shares[j] += np.average(np.square(means), weights=sizes)
    return [int(j) for j in np.argsort(-shares, kind="stable")]


def slice_means(
    x: Float[ndarray, " n"], values: Float[ndarray, " n"]
) -> tuple[Float[ndarray, " k"], Float[ndarray, " k"]]:
    """The mean of the values in each slice of x, and the number of points there."""
    slice_of = slices(x)
    sizes = np.bincount(slice_of).astype(float)
    filled = sizes > 0.0
    return np.bincount(slice_of, weights=values)[filled] / sizes[filled], sizes[filled]


def slices(x: Float[ndarray, " n"]) -> Int[ndarray, " n"]:
    """The slice of every value: one for each of few values, or equally large ones."""
    distinct = np.unique(x)
    if len(distinct) <= MOST_DISTINCT:
        return np.searchsorted(distinct, x)
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, N_SLICES + 1)[1:-1]))
    return np.searchsorted(edges, x)
