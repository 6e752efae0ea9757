import re
from typing import Any

import pytest
from matplotlib.figure import Figure

from lobal.molecules.dynamics.growth import Round
from lobal.report import growth_rounds
from lobal.report.error_curve import Round as Point
from lobal.report.growth_rounds import COLUMNS, KEY, UNKNOWN, rounds_blocks, thousandths

FIRST = Round(1, 30, 0.3709, 0.0637, 17, 0.622, 1000, 0.31, 2.9)
LAST = Round(2, 45, 0.0826, None)


def cells(page: str) -> list[list[str]]:
    return [re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in page.split("<tr>")[1:]]


def test_the_table_has_a_line_for_every_round_and_dashes_for_what_is_not_known() -> None:
    header, first, last = cells("".join(rounds_blocks((FIRST, LAST), ())))
    assert header == [*COLUMNS]
    assert first == ["1", "30", "370.9", "63.7", "1000", "17", "62%", "31%", "3"]
    assert last == ["2", "45", "82.6", "–", "–", "–", "–", "–", "–"]  # noqa: RUF001 - dashes


@pytest.mark.parametrize(
    ("error", "words"),
    [(1.2345, "1234.5"), (0.3709, "370.9"), (0.01, "10.0"), (0.0012345, "1.23"), (1.27e-5, "0.0127")],
)
def test_errors_have_three_digits_at_least_and_no_exponent(error: float, words: str) -> None:
    assert thousandths(error) == words


def test_every_column_is_explained() -> None:
    explained = " ".join(KEY).lower()
    named = {column.partition(" (")[0].removeprefix("force ").removeprefix("energy ") for column in COLUMNS[1:]}
    assert [column for column in sorted(named) if column not in explained] == []


def test_rounds_that_are_not_known_are_said_to_be() -> None:
    (block,) = rounds_blocks((), ())
    assert UNKNOWN in block


def test_the_curve_is_in_thousandths_of_an_electronvolt(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def draw(points: tuple[Point, ...], name: str) -> Figure:
        drawn.append((points, name))
        return Figure()

    monkeypatch.setattr(growth_rounds, "error_curve_figure", draw)
    *_, figure = rounds_blocks((FIRST,), (Point(labels=30, error=0.3709), Point(labels=45, error=0.0826)))
    ((points, name),) = drawn
    assert [(each.labels, round(each.error, 6)) for each in points] == [(30, 370.9), (45, 82.6)]
    assert "meV/Å" in name
    assert figure.startswith("<figure>")
