"""What is measured at a point: one number, several named ones, or a curve."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.core.checks import real_number, shown, whole_number
from lobal.core.real_numbers import as_numbers
from lobal.core.schema import Check, list_of, optional, real, table, text, whole

MOST_POINTS = 10**6  # of a curve
EXAMPLE = "outputs=('strength', 'cost')"


@final
@dataclass(frozen=True)
class Output:
    """One of several numbers that are measured at a point.

    Args:
        name: of the number, in reports and files.
        weight: how much its error counts, in units of the spread of its labels; with 0 it is learned and predicted, but
            no point is chosen for its sake.
        unit: of its labels, for reports.

    Example:
        >>> import lobal
        >>> box = lobal.Box([0.0], [1.0], outputs=(lobal.Output("strength", weight=2.0, unit="MPa"), "cost"))
        >>> [output.name for output in box.outputs]
        ['strength', 'cost']
    """

    name: str
    weight: float = 1.0
    unit: str | None = None

    def __post_init__(self) -> None:
        _check_words(self.name, self.unit, "an output")
        hint = "1 is the weight of every output by default"
        object.__setattr__(self, "weight", real_number("weight", self.weight, least=0.0, most=1e6, hint=hint))


@final
@dataclass(frozen=True)
class Curve:
    """Labels that are curves, such as spectra: as many numbers for every point.

    Args:
        name: of the curve, in reports and files.
        n_points: how many numbers a curve has.
        variance: share of the variance of the curves that their principal components must explain; each of those has a
            model of its own.
        unit: of the numbers, for reports.

    Example:
        >>> import lobal
        >>> lobal.Box([0.0], [1.0], outputs=lobal.Curve("spectrum", 200)).outputs.n_points
        200
    """

    name: str
    n_points: int
    variance: float = 0.999
    unit: str | None = None

    def __post_init__(self) -> None:
        _check_words(self.name, self.unit, "a curve")
        object.__setattr__(self, "n_points", whole_number("n_points", self.n_points, least=1))
        hint = "0.999 by default"
        object.__setattr__(self, "variance", real_number("variance", self.variance, above=0.0, most=1.0, hint=hint))


Outputs: TypeAlias = tuple[Output, ...] | Curve

# As JSON has them.
_WORDS: dict[str, Check] = {"name": text(), "unit": optional(text())}
_OUTPUT = table({**_WORDS, "weight": real(0.0, 1e6)})
_CURVE = table({**_WORDS, "n_points": whole(1, MOST_POINTS), "variance": real(1e-12, 1.0)})


def checked_outputs(given: object) -> Outputs | None:
    """Outputs as a user names them; None for one number without a name.

    Raises:
        TypeError, ValueError: they are of another kind, none, all of weight zero, or two have one name.
    """
    if given is None or isinstance(given, Curve):
        return given
    if isinstance(given, str | Output):
        given = (given,)
    if not isinstance(given, Iterable):
        raise TypeError(f"outputs must be names, such as {EXAMPLE}, or a lobal.Curve, got {shown(given)}")
    outputs = tuple(each if isinstance(each, Output) else Output(each) for each in given)
    names = [output.name for output in outputs]
    if not outputs or len({*names}) < len(names):
        raise ValueError(f"outputs must be different names, at least one, such as {EXAMPLE}, got {names}")
    if not any(output.weight > 0.0 for output in outputs):
        raise ValueError(f"at least one output must have a weight above zero, got zero for all of {names}")
    return outputs


def label_width(outputs: Outputs) -> int:
    """How many numbers the label of a point has."""
    return outputs.n_points if isinstance(outputs, Curve) else len(outputs)


def labels_of(outputs: Outputs, values: object, n: int, *, name: str) -> Float[ndarray, "n m"]:
    """Labels of n points as numbers, one row a point, NaN where one is missing or infinite.

    Columns of a table that have names are found by those of the outputs; further ones are ignored.

    Raises:
        ValueError: they are not numbers, have the wrong shape, or columns of other names.
    """
    labels, width = as_numbers(_in_order(outputs, values, name), name=name), label_width(outputs)
    if labels.size == n * width and (n <= 1 or width == 1):
        labels = labels.reshape(n, width)
    if labels.shape != (n, width):
        what = f"{width} numbers each" if isinstance(outputs, Curve) else str([output.name for output in outputs])
        raise ValueError(
            f"{n} points need labels of shape ({n}, {width}), one row a point with {what}, got {name} of shape "
            f"{labels.shape}; write NaN for a number that could not be measured"
        )
    return np.where(np.isfinite(labels), labels, np.nan)


def _in_order(outputs: Outputs, values: Any, name: str) -> Any:  # noqa: ANN401 - array-likes
    """The columns of a table in the order of the outputs; what has no names, and curves, as they are."""
    found = [*values] if isinstance(values, Mapping) else [*getattr(values, "columns", ())]
    if isinstance(outputs, Curve) or not found or not all(isinstance(column, str) for column in found):
        return values
    wanted = [output.name for output in outputs]
    if any(found.count(each) != 1 for each in wanted):
        raise ValueError(
            f"{name} must have each of the columns {wanted} once, got {shown(found)}; name them as the outputs are "
            "named, or pass an array"
        )
    return np.column_stack([np.atleast_1d(as_numbers(values[column], name=name)) for column in wanted])


def has_label(outputs: Outputs | None, labels: Float[ndarray, "n *label"]) -> Bool[ndarray, " n"]:
    """Which points have a label: a finite number of any output, a curve without gaps; the others failed."""
    is_finite = np.isfinite(labels).reshape(len(labels), -1)
    return np.asarray(is_finite.any(axis=1) if isinstance(outputs, tuple) else is_finite.all(axis=1))


def outputs_to_json(outputs: Outputs) -> Any:  # noqa: ANN401 - a list or a dictionary
    """The outputs as JSON can hold them."""
    return asdict(outputs) if isinstance(outputs, Curve) else [asdict(output) for output in outputs]


def check_outputs(value: object, name: str) -> None:
    """Refuse what `outputs_to_json` cannot have returned."""
    (_CURVE if isinstance(value, Mapping) else list_of(_OUTPUT))(value, name)
    outputs_from_json(value)


def outputs_from_json(entries: Any) -> Outputs:  # noqa: ANN401 - a list or a dictionary
    """The outputs that `outputs_to_json` returned, checked by `check_outputs`."""
    if isinstance(entries, Mapping):
        return Curve(**{name: entries[name] for name in ("name", "n_points", "variance", "unit")})
    outputs = checked_outputs([Output(**{name: each[name] for name in ("name", "weight", "unit")}) for each in entries])
    assert isinstance(outputs, tuple)  # what a list becomes
    return outputs


def _check_words(name: object, unit: object, what: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"the name of {what} must be a text that is not empty, such as 'strength', got {shown(name)}")
    if unit is not None and not isinstance(unit, str):
        raise TypeError(f"the unit of {what} must be a text, such as 'MPa', got {shown(unit)}")
