"""Spaces of named variables as JSON, and back, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from lobal.active.region import Constraint, Region, checked_region
from lobal.core.checks import shown
from lobal.core.expressions import Expression
from lobal.core.schema import Check, flag, list_of, optional, real, table, text, whole
from lobal.core.variables import Categorical, Integer, Real, Variable

VERSION = 1  # of the format
MOST_VARIABLES = 1000
KINDS: dict[str, type[Real | Integer | Categorical]] = {each.kind: each for each in (Real, Integer, Categorical)}
FARTHEST = 1e150


def _level(value: object, name: str) -> None:
    if not isinstance(value, str | int | float):
        raise ValueError(f"{name} must be a text, a number, true or false, got {shown(value)}")


_NUMBER = {"name": text(), "lower": real(-FARTHEST, FARTHEST), "upper": real(-FARTHEST, FARTHEST)}
_OF_KIND: dict[str, Check] = {
    Real.kind: table(_NUMBER, log=flag, unit=optional(text())),
    Integer.kind: table(_NUMBER, log=flag, unit=optional(text())),
    Categorical.kind: table({"name": text(), "levels": list_of(_level)}),
}
_ENTRIES = {
    Real.kind: ("type", "name", "lower", "upper", "log", "unit"),
    Integer.kind: ("type", "name", "lower", "upper", "log", "unit"),
    Categorical.kind: ("type", "name", "levels"),
}


def _variable(value: object, name: str) -> None:
    table({"type": text(*KINDS)})(value, name)
    assert isinstance(value, Mapping)
    kind = value["type"]
    _OF_KIND[kind](value, name)
    unknown = [entry for entry in value if entry not in _ENTRIES[kind]]
    if unknown:
        raise ValueError(f"{name} must have no other entries than {list(_ENTRIES[kind])}, got {unknown[0]!r}")


VARIABLES = list_of(_variable)
SPACE = table({"variables": VARIABLES}, constraints=list_of(optional(text())), version=whole(1, VERSION))


def variables_to_json(variables: Sequence[Variable]) -> list[dict[str, Any]]:
    """The variables as JSON holds them."""
    return [variable.to_json() for variable in variables]


def variables_from_json(entries: Sequence[Mapping[str, Any]]) -> tuple[Variable, ...]:
    """The variables of entries that have been checked.

    Raises:
        TypeError, ValueError: bounds or levels are none.
    """
    if not 1 <= len(entries) <= MOST_VARIABLES:
        raise ValueError(f"variables must be from 1 to {MOST_VARIABLES}, got {len(entries)}")
    return tuple(_variable_from(entry) for entry in entries)


def _variable_from(entry: Mapping[str, Any]) -> Variable:
    options = {name: value for name, value in entry.items() if name != "type"}
    if "log" in options:
        options["log"] = bool(options["log"])
    return KINDS[entry["type"]](**options)


def constraint_fields(region: Region) -> dict[str, Any]:
    """A region as JSON holds it, with null in the place of every function."""
    texts = [each.text if isinstance(each, Expression) else None for each in region.constraints]
    return {"version": VERSION, "variables": variables_to_json(region.variables), "constraints": texts}


def region_from(fields: Mapping[str, Any], space: Any, *, check_only: bool = False) -> Region:  # noqa: ANN401 - a Space
    """The region of fields that have been checked; a `space` has the functions that are null there.

    With `check_only` functions are left out.

    Raises:
        ValueError: functions are missing, or the space is another one.
    """
    texts = fields.get("constraints", [])
    variables = variables_from_json(fields["variables"])
    region = checked_region(variables, [each for each in texts if each is not None])
    if check_only:
        return region
    given: Region | None = None if space is None else getattr(space, "region", None)
    if space is not None and (
        given is None or constraint_fields(given) != {**constraint_fields(region), "constraints": texts}
    ):
        raise ValueError(
            "the space that is given has other variables or constraints than the campaign was begun with; give the "
            "same lobal.SearchSpace, or leave pool out where no constraint is a function"
        )
    if given is not None:
        return given
    if None in texts:
        raise ValueError(
            f"{texts.count(None)} of the campaign's constraints are functions, which cannot be saved; pass the space "
            "again: ActiveLearner.load(path, pool=space)"
        )
    return region


def expressions_only(constraints: Sequence[Constraint]) -> None:
    """Refuse functions, which cannot be written."""
    functions = [each for each in constraints if not isinstance(each, Expression)]
    if functions:
        name = getattr(functions[0], "__name__", type(functions[0]).__name__)
        raise ValueError(
            f"the constraint {name} is a function, which cannot be written as JSON; write it as an expression, such as "
            "'x1 + x2 <= 100'"
        )


def column_groups(variables: Sequence[Variable]) -> list[int] | None:
    """For every input of a model the number of its variable; none where no variable has several."""
    if all(variable.n_inputs == 1 for variable in variables):
        return None
    return [number for number, variable in enumerate(variables) for _ in range(variable.n_inputs)]


def units_of(variables: Sequence[Variable]) -> dict[str, str]:
    """The units of variables that have any, by name."""
    return {variable.name: variable.unit for variable in variables if variable.unit is not None}
