"""Constraints as people write them, such as "x1 + x2 <= 100": parsed and computed here, never run as code.

Names of variables, numbers, texts in comparisons of categories, + - * / **, comparisons, `and`, `or`, `not`, and the
functions min, max, abs, log, exp and sqrt are known; anything else is refused. Names with spaces or signs are in
backticks, as in pandas: `flow rate` <= 3.
"""

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.core.checks import shown

Columns: TypeAlias = Mapping[str, ndarray]

LONGEST = 2000  # characters
DEEPEST = 50  # expressions within expressions
EXACT = 1e-9  # of the size of the terms: equalities hold up to this, by rounding
KNOWN = "names of variables, numbers, + - * / **, comparisons, and, or, not, min, max, abs, log, exp, sqrt"

QUOTED = re.compile(r"`([^`]+)`")  # a name
SINGLE_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")

OPERATIONS: dict[type[ast.operator], Callable[[ndarray, ndarray], ndarray]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "abs": np.abs,
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "min": lambda *values: functools.reduce(np.minimum, values),
    "max": lambda *values: functools.reduce(np.maximum, values),
}
OF_SEVERAL = ("min", "max")
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class Linear(NamedTuple):
    """The sum of coefficients times variables, and a constant."""

    coefficients: dict[str, float]
    constant: float


class Value(NamedTuple):
    """A number, or a text, at every row, and the size of the terms that were added up to it."""

    value: ndarray
    size: ndarray


@final
class Expression:
    """A constraint over named columns.

    Raises:
        ValueError: it cannot be read, or has something other than what is known.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a constraint must be a text such as 'x1 + x2 <= 100', got {shown(text)}")
        self.text = text.strip()
        if len(self.text) > LONGEST:
            raise ValueError(f"a constraint may have {LONGEST} characters, got {len(self.text)}")
        self._source, self._quoted = _without_backticks(self.text)
        try:
            self._node = ast.parse(self._source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"the constraint {self.text!r} cannot be read; {_how_to_write(self.text)}") from error
        for node in ast.walk(self._node):
            if isinstance(node, ast.Name):
                node.id = self._quoted.get(node.id, node.id)
        self._check(self._node, is_condition=True, depth=0)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    @property
    def names(self) -> list[str]:
        """The variables that it names, in their order."""
        functions = {id(node.func) for node in ast.walk(self._node) if isinstance(node, ast.Call)}
        found = (node for node in ast.walk(self._node) if isinstance(node, ast.Name) and id(node) not in functions)
        return list(dict.fromkeys(node.id for node in found))

    def holds(self, columns: Columns, *, slack: float = 0.0) -> Bool[ndarray, " n"]:
        """At which rows it holds; by `slack` times the size of its terms, comparisons may be missed."""
        with np.errstate(all="ignore"):  # the logarithm of a negative number is NaN, and fulfils nothing
            found = np.asarray(_holds(self._node, columns, slack), dtype=bool)
        n = len(next(iter(columns.values())))
        return np.broadcast_to(found, (n,)).copy()

    def equalities(self) -> Iterator[Linear | None]:
        """Sides of equalities that must hold, first minus second, where these are linear; None for others."""
        for node in _conditions(self._node):
            if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq) for each in node.ops):
                yield _difference(node) if len(node.ops) == 1 else None

    def _check(self, node: ast.expr, *, is_condition: bool, depth: int) -> None:
        """Refuse what is not known, and conditions and numbers in each other's places."""
        if depth > DEEPEST:
            raise ValueError(f"the constraint {self.text!r} is nested too deeply; split it into several")
        parts = self._parts_of_condition(node) if is_condition else self._parts_of_number(node)
        if parts is None:
            self._refuse(node, is_condition=is_condition)
            return
        for part in parts:
            self._check(part, is_condition=is_condition and not isinstance(node, ast.Compare), depth=depth + 1)

    def _parts_of_condition(self, node: ast.expr) -> list[ast.expr] | None:
        """The expressions that a condition consists of; None if it is none."""
        match node:
            case ast.BoolOp(values=values):
                return values
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return [operand]
            case ast.Compare(left=left, comparators=others):
                self._check_comparison(node)
                return [side for side in (left, *others) if not _is_text(side)]
        return None

    def _parts_of_number(self, node: ast.expr) -> list[ast.expr] | None:
        """The expressions that a number consists of; None if it is none."""
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                return [left, right]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return [operand]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                if (len(args) < 2) if name in OF_SEVERAL else (len(args) != 1):
                    raise ValueError(f"{name} in {self.text!r} has the wrong number of arguments, got {len(args)}")
                return args
            case ast.Name():
                return []
            case ast.Constant(value=value) if type(value) in (int, float):
                return []
        return None

    def _refuse(self, node: ast.expr, *, is_condition: bool) -> None:
        part = ast.get_source_segment(self._source, node) or type(node).__name__
        for placeholder, name in self._quoted.items():
            part = part.replace(placeholder, f"`{name}`")
        wanted = "a condition such as 'x1 + x2 <= 100'" if is_condition else f"built of {KNOWN}"
        raise ValueError(f"{part!r} in the constraint {self.text!r} must be {wanted}")

    def _check_comparison(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for place, op in enumerate(node.ops):
            if not isinstance(op, (ast.Eq, ast.NotEq, *ORDERS)):
                self._refuse(node, is_condition=True)
            if isinstance(op, ORDERS) and any(_is_text(side) for side in sides[place : place + 2]):
                raise ValueError(f"texts have no order, got {self.text!r}; compare them with == or !=")


def _without_backticks(text: str) -> tuple[str, dict[str, str]]:
    """The text with another name for every name in backticks, and these names."""
    prefix = "q"
    while prefix in text:
        prefix += "q"
    quoted: dict[str, str] = {}

    def placeholder(found: re.Match[str]) -> str:
        quoted[f"{prefix}{len(quoted)}_"] = found[1]
        return [*quoted][-1]

    return QUOTED.sub(placeholder, text), quoted


def _how_to_write(text: str) -> str:
    if SINGLE_EQUALS.search(text):
        return "write == where both sides are to be equal"
    return "write it as 'x1 + x2 <= 100', and names with spaces or signs in backticks: `flow rate` <= 3"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _holds(node: ast.expr, columns: Columns, slack: float) -> ndarray:
    """Where a condition holds; the slack of a negation is less, not more."""
    match node:
        case ast.BoolOp(op=op, values=values):
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return np.asarray(functools.reduce(join, [_holds(value, columns, slack) for value in values]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.asarray(np.logical_not(_holds(operand, columns, -slack)))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(side, columns) for side in (left, *others)]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return np.asarray(functools.reduce(np.logical_and, [_compared(*pair, slack) for pair in pairs]))
    raise TypeError(f"expected a condition, got {ast.dump(node)}")


def _compared(first: Value, op: ast.cmpop, second: Value, slack: float) -> ndarray:
    if first.value.dtype.kind in "OUS" or second.value.dtype.kind in "OUS":
        equal = np.asarray(first.value == second.value)
        return equal if isinstance(op, ast.Eq) else ~equal
    difference, size = first.value - second.value, first.size + second.size
    match op:
        case ast.Eq():
            return np.asarray(np.abs(difference) <= max(slack, EXACT) * size)
        case ast.NotEq():
            return np.asarray(np.abs(difference) > max(-slack, EXACT) * size)
        case ast.Lt():
            return np.asarray(difference < slack * size)
        case ast.LtE():
            return np.asarray(difference <= (slack or EXACT) * size)
        case ast.Gt():
            return np.asarray(-difference < slack * size)
    return np.asarray(-difference <= (slack or EXACT) * size)


def _value(node: ast.expr, columns: Columns) -> Value:
    match node:
        case ast.Name(id=name):
            column = columns[name]
            return Value(column, np.abs(column) if column.dtype.kind in "iuf" else np.zeros(len(column)))
        case ast.Constant(value=str() as word):
            return Value(np.asarray(word), np.zeros(()))
        case ast.Constant(value=int() | float() as number):
            return Value(np.asarray(float(number)), np.asarray(abs(float(number))))
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _value(left, columns), _value(right, columns)
            value = OPERATIONS[type(op)](_real(first), _real(second))
            is_sum = isinstance(op, ast.Add | ast.Sub)
            return Value(value, first.size + second.size if is_sum else np.abs(value))
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, columns)
            return Value(-inner.value if isinstance(op, ast.USub) else inner.value, inner.size)
        case ast.Call(func=ast.Name(id=name), args=args):
            values = FUNCTIONS[name](*(_real(_value(argument, columns)) for argument in args))
            return Value(values, np.abs(values))
    raise TypeError(f"expected numbers, got {ast.dump(node)}")


def _real(value: Value) -> Float[ndarray, "..."]:
    return np.asarray(value.value, dtype=np.float64)


def _conditions(node: ast.expr) -> Iterator[ast.expr]:
    """The conditions that must all hold."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for value in node.values:
            yield from _conditions(value)
    else:
        yield node


def _difference(node: ast.Compare) -> Linear | None:
    first, second = _linear(node.left), _linear(node.comparators[0])
    return None if first is None or second is None else _sum(first, second, -1.0)


def _linear(node: ast.expr) -> Linear | None:
    """The expression as a linear form; None if it is none."""
    match node:
        case ast.Name(id=name):
            return Linear({name: 1.0}, 0.0)
        case ast.Constant(value=int() | float() as value):
            return Linear({}, float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _linear(operand)
            return None if inner is None else _sum(Linear({}, 0.0), inner, -1.0)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _linear(operand)
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _linear(left), _linear(right)
            return None if first is None or second is None else _combined(first, op, second)
    return None


def _combined(first: Linear, op: ast.operator, second: Linear) -> Linear | None:
    match op:
        case ast.Add() | ast.Sub():
            return _sum(first, second, 1.0 if isinstance(op, ast.Add) else -1.0)
        case ast.Mult() if not first.coefficients or not second.coefficients:
            factor, other = (first, second) if not first.coefficients else (second, first)
            return _sum(Linear({}, 0.0), other, factor.constant)
        case ast.Div() if not second.coefficients and second.constant:
            return _sum(Linear({}, 0.0), first, 1.0 / second.constant)
    return None


def _sum(first: Linear, second: Linear, factor: float) -> Linear:
    coefficients = dict(first.coefficients)
    for name, value in second.coefficients.items():
        coefficients[name] = coefficients.get(name, 0.0) + factor * value
    return Linear(coefficients, first.constant + factor * second.constant)
