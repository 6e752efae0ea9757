"""The input variables of a campaign by name: numbers, or categories that take up several columns of the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

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
        return self.levels[round(value)] if self.levels else float(value)

    @property
    def label(self) -> str:
        """The name for figures: matplotlib would read dollar signs as the ends of formulas."""
        return self.name.replace("$", r"\$")


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
    distinct = np.unique(x)
    if len(distinct) <= MOST_DISTINCT:
        slice_of = np.searchsorted(distinct, x)
    else:
        edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, N_SLICES + 1)[1:-1]))
        slice_of = np.searchsorted(edges, x)
    sizes = np.bincount(slice_of).astype(float)
    filled = sizes > 0.0
    return np.bincount(slice_of, weights=values)[filled] / sizes[filled], sizes[filled]
