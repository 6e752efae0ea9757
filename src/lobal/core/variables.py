"""Named variables of a search space: what they may be, as numbers in files, and as inputs of models.

Every variable has three forms. Values are what people read and write: 0.3, 12, "ethanol". Codes are one number for each
value: the value itself, or the position of a level. Model inputs are columns between zero and one: numbers by their
place between the bounds, or that of their logarithms, and a column for every level of a category. These are sqrt(1/2)
at the level and zero elsewhere, so that any two levels are at distance one, as are the bounds of a number.
"""

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.core.checks import real_number, shown
from lobal.core.real_numbers import UserInput, as_numbers

Level: TypeAlias = str | int | float | bool

INDICATOR = math.sqrt(0.5)  # of a level
SLACK = 1e-3  # of the range: by so much may values differ that were rounded to a few digits


class Variable(ABC):
    """One named input."""

    kind: ClassVar[str]  # name in files
    name: str
    unit: str | None

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """How many columns it has among the inputs of a model."""

    @property
    @abstractmethod
    def input_names(self) -> list[str]:
        """Names of these columns."""

    @property
    @abstractmethod
    def n_values(self) -> int | None:
        """How many values there are; none where they are real numbers."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest code."""

    @abstractmethod
    def codes(self, values: UserInput) -> Float[ndarray, " n"]:
        """One number for each value; whole numbers within rounding are whole, the bounds may be passed by rounding.

        Raises:
            ValueError: a value is none of this variable; names it.
        """

    @abstractmethod
    def values(self, codes: Float[ndarray, " n"]) -> ndarray:
        """The values of codes, as people know them."""

    @abstractmethod
    def drawn(self, shares: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """The codes at these shares, between zero and one, of the way through all values."""

    @abstractmethod
    def moved(self, codes: Float[ndarray, " n"], by: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Codes moved by shares of the range, reflected at the bounds; levels stay."""

    @abstractmethod
    def inputs(self, codes: Float[ndarray, " n"]) -> Float[ndarray, "n k"]:
        """The inputs of a model."""

    @abstractmethod
    def from_inputs(self, inputs: Float[ndarray, "n k"]) -> Float[ndarray, " n"]:
        """The codes nearest to inputs of a model."""

    @abstractmethod
    def differences(self, first: Float[ndarray, "..."], second: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """How far codes are apart: in shares of the range, zero or one for levels."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The variable as JSON holds it."""


class Numerical(Variable):
    """A variable whose values are numbers between two bounds."""

    lower: float
    upper: float
    log: bool

    @property
    def n_inputs(self) -> int:
        return 1

    @property
    def input_names(self) -> list[str]:
        return [f"{self.name} (log)" if self.log else self.name]

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.lower), float(self.upper)

    def inputs(self, codes: Float[ndarray, " n"]) -> Float[ndarray, "n k"]:
        lower, upper = self._scaled(np.array(self.bounds))
        return np.asarray(np.clip((self._scaled(codes) - lower) / (upper - lower), 0.0, 1.0))[:, None]

    def from_inputs(self, inputs: Float[ndarray, "n k"]) -> Float[ndarray, " n"]:
        return self._rounded(self._between(np.clip(inputs[:, 0], 0.0, 1.0), *self.bounds))

    @abstractmethod
    def _rounded(self, codes: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """The nearest codes that values have."""

    def moved(self, codes: Float[ndarray, " n"], by: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        places = np.abs(self.inputs(codes)[:, 0] + by)  # reflected at zero, and at one:
        moved = self.from_inputs(np.where(places > 1.0, 2.0 - places, places)[:, None])
        return np.where(by == 0.0, codes, moved)

    def differences(self, first: Float[ndarray, "..."], second: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        lower, upper = self._scaled(np.array(self.bounds))
        return np.asarray(np.abs(self._scaled(first) - self._scaled(second)) / (upper - lower))

    def to_json(self) -> dict[str, Any]:
        bounds = {"lower": self.lower, "upper": self.upper, "log": self.log}
        return {"type": self.kind, "name": self.name, **bounds, "unit": self.unit}

    def _scaled(self, codes: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """Codes or their logarithms; what rounding has put below zero is at the lower bound."""
        return np.log(np.maximum(codes, self.lower * (1.0 - SLACK))) if self.log else codes

    def _between(self, shares: Float[ndarray, " n"], lower: float, upper: float) -> Float[ndarray, " n"]:
        """Codes at shares of the way, and none beyond the ends."""
        if self.log:
            between = np.exp(math.log(lower) + shares * math.log(upper / lower))
        else:
            between = lower + shares * (upper - lower)
        return np.asarray(np.clip(between, lower, upper))

    def _within(self, column: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """The column; numbers must lie between the bounds, up to rounding."""
        scaled, (lower, upper) = np.where(np.isfinite(column), column, np.inf), self.bounds
        slack = SLACK * (upper - lower)
        low = lower - (SLACK * lower if self.log else slack)
        wrong = ~((scaled >= low) & (scaled <= upper + slack))
        if wrong.any():
            unit = "" if self.unit is None else f" {self.unit}"
            raise ValueError(
                f"{self.name!r} must lie between {self.lower:g} and {self.upper:g}{unit}, got "
                f"{_first(column[wrong])}; leave such points out, or begin with wider bounds"
            )
        return np.asarray(np.clip(column, lower, upper))


@final
@dataclass(frozen=True, init=False)
class Real(Numerical):
    """A real number between two bounds; with `log` the logarithm counts, as for ranges over several decades.

    Example:
        >>> import lobal
        >>> lobal.Real("pressure", 0.01, 1000.0, log=True, unit="bar")
        Real(name='pressure', lower=0.01, upper=1000.0, log=True, unit='bar')
    """

    kind: ClassVar[str] = "real"

    name: str
    lower: float
    upper: float
    log: bool
    unit: str | None

    def __init__(
        self, name: str, lower: UserInput, upper: UserInput, log: UserInput = False, unit: UserInput = None
    ) -> None:
        hint = f"give numbers as the bounds of {name!r}"
        ends = [real_number(end, value, least=-1e150, most=1e150, hint=hint) for end, value in _ends(lower, upper)]
        _set(self, name=checked_name(name), lower=ends[0], upper=ends[1], log=log, unit=unit)
        _check_numerical(self)

    @property
    def n_values(self) -> int | None:
        return None

    def codes(self, values: UserInput) -> Float[ndarray, " n"]:
        return self._within(_column(values, self.name))

    def values(self, codes: Float[ndarray, " n"]) -> ndarray:
        return np.array(codes, dtype=np.float64)

    def drawn(self, shares: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        return self._between(shares, self.lower, self.upper)

    def _rounded(self, codes: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        return codes


@final
@dataclass(frozen=True, init=False)
class Integer(Numerical):
    """A whole number between two bounds, both included; with `log` the logarithm counts.

    Example:
        >>> import lobal
        >>> lobal.Integer("layers", 1, 8)
        Integer(name='layers', lower=1, upper=8, log=False, unit=None)
    """

    kind: ClassVar[str] = "integer"

    name: str
    lower: int
    upper: int
    log: bool
    unit: str | None

    def __init__(
        self, name: str, lower: UserInput, upper: UserInput, log: UserInput = False, unit: UserInput = None
    ) -> None:
        for end, value in _ends(lower, upper):
            is_whole = isinstance(value, numbers.Real) and not isinstance(value, bool) and float(value).is_integer()
            if not is_whole or abs(value) > 2**53:
                raise ValueError(f"the {end} bound of {name!r} must be a whole number, got {shown(value)}")
        _set(self, name=checked_name(name), lower=int(lower), upper=int(upper), log=log, unit=unit)
        _check_numerical(self)

    @property
    def n_values(self) -> int | None:
        return self.upper - self.lower + 1

    def codes(self, values: UserInput) -> Float[ndarray, " n"]:
        column = _column(values, self.name)
        whole = np.rint(column)
        wrong = np.isfinite(column) & (np.abs(column - whole) > SLACK)
        if wrong.any():
            raise ValueError(f"{self.name!r} must be a whole number, got {_first(column[wrong])}; round it yourself")
        return self._within(whole)

    def values(self, codes: Float[ndarray, " n"]) -> ndarray:
        return np.asarray(np.rint(codes), dtype=np.int64)

    def drawn(self, shares: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Every number has half a step on both sides, the bounds as well."""
        return np.asarray(np.clip(np.rint(self._between(shares, self.lower - 0.5, self.upper + 0.5)), *self.bounds))

    def _rounded(self, codes: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        return np.asarray(np.rint(codes))


@final
@dataclass(frozen=True, init=False)
class Categorical(Variable):
    """One of some levels, which have no order: texts, numbers or truth values.

    Example:
        >>> import lobal
        >>> lobal.Categorical("solvent", ["water", "ethanol"])
        Categorical(name='solvent', levels=('water', 'ethanol'), unit=None)
    """

    kind: ClassVar[str] = "categorical"

    name: str
    levels: tuple[Level, ...]
    unit: str | None

    def __init__(self, name: str, levels: UserInput) -> None:
        if isinstance(levels, str) or not isinstance(levels, Sequence | ndarray):
            raise TypeError(f"levels of {name!r} must be a list, such as ['water', 'ethanol'], got {shown(levels)}")
        plain = tuple(each.item() if isinstance(each, np.generic) else each for each in levels)
        for level in plain:
            if not isinstance(level, str | int | float) or level != level or level in (math.inf, -math.inf):
                raise TypeError(
                    f"levels of {name!r} must be texts, finite numbers or True and False, got {shown(level)}"
                )
        if len(plain) < 2 or len({*plain}) < len(plain):
            raise ValueError(f"levels of {name!r} must be at least two different ones, got {list(plain)}")
        _set(self, name=checked_name(name), levels=plain, unit=None)

    @property
    def n_inputs(self) -> int:
        return len(self.levels)

    @property
    def input_names(self) -> list[str]:
        return [f"{self.name} = {level}" for level in self.levels]

    @property
    def n_values(self) -> int | None:
        return len(self.levels)

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, len(self.levels) - 1.0

    def codes(self, values: UserInput) -> Float[ndarray, " n"]:
        places = {level: place for place, level in enumerate(self.levels)}
        column = np.asarray(values, dtype=object).reshape(-1).tolist()
        unknown = [value for value in column if not _is_known(value, places)]
        if unknown:
            raise ValueError(f"{self.name!r} must be one of {list(self.levels)}, got {unknown[0]!r}")
        return np.array([places[value] for value in column], dtype=np.float64)

    def values(self, codes: Float[ndarray, " n"]) -> ndarray:
        """Texts and mixed levels as objects, others in a type of their own."""
        is_text = any(isinstance(level, str) for level in self.levels)
        levels = np.array(self.levels, dtype=object if is_text else None)
        return np.asarray(levels[self._places(codes)])

    def drawn(self, shares: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        return np.asarray(np.clip(np.floor(shares * len(self.levels)), *self.bounds))

    def moved(self, codes: Float[ndarray, " n"], by: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        del by
        return codes

    def inputs(self, codes: Float[ndarray, " n"]) -> Float[ndarray, "n k"]:
        return np.asarray(INDICATOR * np.eye(len(self.levels))[self._places(codes)])

    def from_inputs(self, inputs: Float[ndarray, "n k"]) -> Float[ndarray, " n"]:
        return np.asarray(inputs.argmax(axis=1), dtype=np.float64)

    def differences(self, first: Float[ndarray, "..."], second: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        return np.asarray(first != second, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.kind, "name": self.name, "levels": list(self.levels)}

    def _places(self, codes: Float[ndarray, " n"]) -> Int[ndarray, " n"]:
        return np.asarray(np.rint(codes), dtype=np.int64)


def checked_name(name: object) -> str:
    """The name of a variable, which must be a text that is not empty."""
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"the name of a variable must be a text, such as 'temperature', got {shown(name)}")
    return name


def _ends(lower: Any, upper: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:  # noqa: ANN401 - as users give them
    return ("lower", lower), ("upper", upper)


def _set(variable: Variable, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(variable, name, value)


def _check_numerical(variable: Numerical) -> None:
    name = variable.name
    if not isinstance(variable.log, bool):
        raise TypeError(f"log of {name!r} must be True or False, got {shown(variable.log)}")
    if variable.unit is not None and not isinstance(variable.unit, str):
        raise TypeError(f"unit of {name!r} must be a text such as 'bar', got {shown(variable.unit)}")
    if not variable.lower < variable.upper:
        raise ValueError(f"lower must lie below upper for {name!r}, got {variable.lower} and {variable.upper}")
    if variable.log and variable.lower <= 0:
        raise ValueError(f"lower must be above zero where the logarithm counts, got {variable.lower} for {name!r}")


def _column(values: UserInput, name: str) -> Float[ndarray, " n"]:
    return as_numbers(values, name=f"the column {name!r}").reshape(-1)


def _first(values: ndarray) -> str:
    more = "" if len(values) == 1 else f" and {len(values) - 1} more"
    return f"{values[0]:.10g}{more}"


def _is_known(value: object, places: dict[Level, int]) -> bool:
    try:
        return value in places
    except TypeError:  # a list or another value that cannot be a level
        return False
