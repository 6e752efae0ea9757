"""Compositions that sum to 100: asked for, weighed to a tenth, told back."""

import json
import os
import shutil
from pathlib import Path

import pytest

from lobal import ActiveLearner
from tests.cli.campaign.setting import done, killed, refused, rows_of

PARTS = ("a", "b", "c")
N = 12


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with 12 points asked for, `next.csv`, and labels of weighed compositions, `results.csv`."""
    folder = tmp_path_factory.mktemp("compositions")
    variables = [{"type": "real", "name": name, "lower": 0.0, "upper": 100.0, "unit": "%"} for name in PARTS]
    space = {"variables": variables, "constraints": ["a + b + c == 100"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("space.json").write_text(json.dumps(space))
        notes = done("campaign", "new", "m", "--space", "space.json", "--target", "strength")
        assert notes.startswith("Inputs: a, b, c. Any feasible point may be asked for; campaign begun in m.")
        assert "Units: a in %, b in %, c in %. 12 points in next.csv." in done("campaign", "ask", "m", N)
        write_results("results.csv", 1)
    return folder


@pytest.fixture(autouse=True)
def here(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(name: str = "next.csv") -> list[list[float]]:
    return [[float(row[part]) for part in PARTS] for row in rows_of(name)]


def write_results(name: str, digits: int, *, last: str | None = None) -> None:
    """Labels of the points of `next.csv`, rounded; the last one may be another."""
    rows = [[f"{value:.{digits}f}" for value in row] + [f"{row[0] * row[1] / 50:.2f}"] for row in asked()]
    rows[-1][-1] = last or rows[-1][-1]
    Path(name).write_text("\n".join([",".join([*PARTS, "strength"]), *map(",".join, rows)]))


def counts() -> tuple[int, int, int, int]:
    """Labels, pending, failed and all points."""
    with ActiveLearner.read("m") as learner:
        ledger = learner.ledger
        return ledger.n_labels, len(ledger.pending), len(ledger.failed), len(ledger.entries)


def test_every_point_that_is_asked_for_sums_to_100() -> None:
    done("campaign", "tell", "m", "results.csv")
    done("campaign", "ask", "m", 8, "--output", "more.csv")
    for row in [*asked(), *asked("more.csv")]:
        assert sum(row) == pytest.approx(100.0, abs=1e-4)  # of rounded numbers
        assert min(row) >= 0.0


def test_weighed_compositions_are_the_points_that_were_asked_for() -> None:
    assert any(abs(sum(float(row[part]) for part in PARTS) - 100) > 0.05 for row in rows_of("results.csv"))
    notes = done("campaign", "tell", "m", "results.csv")
    assert (
        "Rows of results.csv recognised as points of the campaign in spite of rounded values: 12, at most 0.0" in notes
    )
    assert notes.endswith("results.csv: 12 labels recorded.")
    assert counts() == (N, 0, 0, N)


def test_compositions_weighed_to_whole_numbers_are_the_points_that_were_asked_for() -> None:
    write_results("results.csv", 0)
    done("campaign", "tell", "m", "results.csv")
    assert counts() == (N, 0, 0, N)


def test_compositions_near_the_points_that_are_not_rounded_ones_are_others() -> None:
    first = asked()[0]
    Path("own.csv").write_text(f"a,b,c,strength\n{first[0] + 0.37},{first[1] - 0.37},{first[2]},7\n")
    notes = done("campaign", "tell", "m", "own.csv")
    assert "own.csv: 1 label recorded. Points that nobody asked for, recorded like all others: a = " in notes
    assert counts() == (1, N, 0, N + 1)


def test_the_table_of_points_has_digits_that_people_read_and_is_told_without_a_note() -> None:
    assert all(len(row[part]) <= 8 for row in rows_of("next.csv") for part in PARTS)
    filled = Path("next.csv").read_text().replace(",,", ",7.5,")
    Path("next.csv").write_text(filled)
    assert done("campaign", "tell", "m", "next.csv") == "next.csv: 12 labels recorded."
    assert counts() == (N, 0, 0, N)


def test_weighed_compositions_that_are_told_twice_are_known() -> None:
    done("campaign", "tell", "m", "results.csv")
    assert done("campaign", "tell", "m", "results.csv").endswith("results.csv: 0 labels recorded, 12 known already.")
    assert counts() == (N, 0, 0, N)


def test_a_corrected_label_of_a_weighed_composition_is_a_further_one_of_the_same_point() -> None:
    done("campaign", "tell", "m", "results.csv")
    write_results("results.csv", 1, last="17.5")
    notes = done("campaign", "tell", "m", "results.csv")
    assert "results.csv: 1 label recorded, 11 known already. Points that had a label already, and have a" in notes
    assert counts() == (N + 1, 0, 0, N)


def test_compositions_weighed_to_whole_numbers_that_are_told_twice_are_known() -> None:
    write_results("results.csv", 0)
    done("campaign", "tell", "m", "results.csv")
    assert done("campaign", "tell", "m", "results.csv").endswith("results.csv: 0 labels recorded, 12 known already.")
    assert counts() == (N, 0, 0, N)


def test_an_own_composition_with_few_digits_is_no_rounded_one_of_another_own() -> None:
    done("campaign", "tell", "m", "results.csv")
    Path("own.csv").write_text("a,b,c,strength\n20.4,29.8,49.8,7\n")
    done("campaign", "tell", "m", "own.csv")
    Path("own.csv").write_text("a,b,c,strength\n20,30,50,8\n")
    assert "Points that nobody asked for" in done("campaign", "tell", "m", "own.csv")
    assert counts() == (N + 2, 0, 0, N + 2)


def test_of_several_tables_one_that_breaks_the_constraint_leaves_the_others_unrecorded() -> None:
    Path("wrong.csv").write_text("a,b,c,strength\n10,20,30,7\n")
    message = refused("campaign", "tell", "m", "results.csv", "wrong.csv")
    assert "begin with other constraints. Nothing was recorded, of the other files neither." in message
    assert counts() == (0, N, 0, N)


def test_a_failure_that_is_told_twice_is_one() -> None:
    write_results("results.csv", 1, last="failed")
    done("campaign", "tell", "m", "results.csv")
    assert done("campaign", "tell", "m", "results.csv").endswith("0 labels recorded, 12 known already.")
    assert counts() == (N - 1, 0, 1, N)


def test_a_composition_that_does_not_sum_to_100_is_refused() -> None:
    Path("wrong.csv").write_text("a,b,c,strength\n10,20,30,7\n")
    message = refused("campaign", "tell", "m", "wrong.csv")
    assert "points must fulfil the constraint 'a + b + c == 100', got a = 10.0, b = 20.0, c = 30.0" in message
    assert counts() == (0, N, 0, N)


def test_kills_lose_and_double_nothing(here: Path) -> None:
    write_results("results.csv", 1, last="failed")
    places = [here.with_name(f"{here.name}_{k}") for k in range(2)]
    for place in places:
        shutil.copytree(here, place)
    calls = [(k, place, ["campaign", "tell", "m", "results.csv"]) for k, place in enumerate(places, start=1)]
    assert killed(calls) == [-9, -9]
    done("campaign", "tell", "m", "results.csv")
    done("campaign", "ask", "m", 4, "--force")
    expected = asked()
    for place in places:
        os.chdir(place)
        done("campaign", "tell", "m", "results.csv")
        assert counts() == (N - 1, 0, 1, N)
        done("campaign", "ask", "m", 4, "--force")
        assert asked() == expected
