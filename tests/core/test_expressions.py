import numpy as np
import pytest

from lobal.core.expressions import Expression, Linear

COLUMNS = {
    "x": np.array([1.0, 2.0, 3.0]),
    "y": np.array([3, 2, 1]),
    "s": np.array(["a", "b", "a"], dtype=object),
    "flow rate, l/h": np.array([1.0, 2.0, 3.0]),
    "in": np.array([1.0, 2.0, 3.0]),
    "q": np.array([1.0, 1.0, 1.0]),
    "q0_": np.array([1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y <= 4", [True, True, True]),
        ("x < y", [True, False, False]),
        ("x <= y", [True, True, False]),
        ("2 * x - y / 2 >= 3", [False, True, True]),
        ("1.5 < x <= 2.5", [False, True, False]),
        ("x ** 2 > 3 and y > 1", [False, True, False]),
        ("x == 1 or y == 1", [True, False, True]),
        ("not x > 1.5", [True, False, False]),
        ("s == 'a'", [True, False, True]),
        ("s != 'a' or x < 2", [True, True, False]),
        ("x != 2", [True, False, True]),
        ("max(x, y) >= 3", [True, False, True]),
        ("min(x, y, 1.5) >= 1.5", [False, True, False]),
        ("abs(x - 2) + sqrt(y) + exp(0) + log(x) > 2.5", [True, True, True]),
        ("-x + +y > 0", [True, False, False]),
        ("log(x - 2.5) < 0", [False, False, True]),
        ("`flow rate, l/h` < 2.5 and `y` > 1", [True, True, False]),
        ("q + q0_ + `in` < 5", [True, True, False]),
    ],
)
def test_expressions_hold_where_they_should(text: str, expected: list[bool]) -> None:
    assert Expression(text).holds(COLUMNS).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.real > 1",
        "x[0] > 1",
        "(lambda: x)() > 1",
        "[x] > 1",
        "x > 1 if y else x < 1",
        "open('f') > 1",
        "f'{x}' == 'a'",
        "x in (1, 2)",
        "x is y",
        "x % 2 == 0",
        "x + 1",
        "x",
        "True",
        "(x > 1) + 1 > 1",
        "x and y",
        "sqrt(x, y) > 1",
        "min(x) > 1",
        "s < 'a'",
        "x > 1j",
        "x > y = 2",
        "x >",
        "",
        "(x := 1) > 0",
        "max(x, key=y) > 1",
        "-" * 100 + "x > 0",
        "x > " + "9" * 3000,
    ],
)
def test_anything_else_is_refused_before_it_is_computed(text: str) -> None:
    with pytest.raises(ValueError, match=r"constraint|arguments|texts have no order"):
        Expression(text)


def test_slack_allows_for_rounding_and_less_under_a_negation() -> None:
    columns = {"x": np.array([100.05, 99.95])}
    assert Expression("x <= 100").holds(columns).tolist() == [False, True]
    assert Expression("x <= 100").holds(columns, slack=1e-3).tolist() == [True, True]
    assert Expression("not x > 100").holds(columns, slack=1e-3).tolist() == [True, True]
    assert Expression("x == 100").holds(columns, slack=1e-3).tolist() == [True, True]


def test_equalities_hold_up_to_the_rounding_of_their_terms() -> None:
    columns = {name: np.array([0.1 + 0.2]) for name in "abc"}
    assert Expression("a + b + c - 0.9 == 0").holds(columns).all()
    assert not Expression("a + b + c - 0.900001 == 0").holds(columns).any()


def test_linear_equalities_are_found() -> None:
    found = list(Expression("2 * (a + b) / 4 - c == 100 and a <= 3").equalities())
    assert found == [Linear({"a": 0.5, "b": 0.5, "c": -1.0}, -100.0)]
    assert list(Expression("a * b == 1").equalities()) == [None]
    assert list(Expression("a == 1 or b == 1").equalities()) == []


def test_names_are_those_of_variables() -> None:
    assert Expression("max(x, y) <= log(z)").names == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flow = 3", "the constraint 'flow = 3' cannot be read; write == where both sides are to be equal"),
        (
            "flow rate <= 3",
            "cannot be read; write it as 'x1 [+] x2 <= 100', and names with spaces or signs in backticks",
        ),
        ("`flow rate` % 2 <= 3", "'`flow rate` % 2' in the constraint '`flow rate` % 2 <= 3' must be built of names"),
    ],
)
def test_what_is_often_written_wrongly_is_corrected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Expression(text)


def test_names_in_backticks_are_names() -> None:
    expression = Expression("`Chrom %` + `Nickel %` + c == 100")
    assert sorted(expression.names) == ["Chrom %", "Nickel %", "c"]
    assert [*expression.equalities()] == [Linear({"Chrom %": 1.0, "Nickel %": 1.0, "c": 1.0}, -100.0)]
