import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lobal
from lobal.active.learner import ActiveLearner
from lobal.active.pending_points import BoxColumn, meant_among, recognised

FIXTURES = Path(__file__).parents[1] / "fixtures" / "campaigns"
UNIT = [BoxColumn(1.0)]
ROUNDED = {
    "float32": lambda x: x.astype(np.float32),
    "six digits": lambda x: np.array([[float(f"{value:.6g}") for value in row] for row in x]),
    "four decimals": lambda x: x.round(4),
    "in other units and back": lambda x: (x * 1.8 + 32.0).round(4) / 1.8 - 32.0 / 1.8,
}


def asked(n: int = 12, **options: Any) -> tuple[ActiveLearner, np.ndarray]:
    learner = ActiveLearner(lobal.Box([0.0, -1.0], [2.0, 1.0], n_candidates=64), seed=4, **options)
    return learner, learner.ask(n)


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


# What a user sees.


@pytest.mark.parametrize("form", [*ROUNDED])
def test_points_of_a_box_that_were_rounded_are_the_pending_ones(form: str, caplog: pytest.LogCaptureFixture) -> None:
    learner, x = asked()
    with caplog.at_level(logging.INFO):
        learner.tell(ROUNDED[form](x)[::-1], np.arange(12.0)[::-1])
    assert not len(learner.pending)
    np.testing.assert_array_equal(learner.labelled.X, x)
    np.testing.assert_array_equal(learner.labelled.y, np.arange(12.0))
    assert "12 points nearly equal pending ones and are taken for these" in caplog.text


def test_failures_and_expected_points_may_be_rounded_too() -> None:
    learner, x = asked()
    learner.give_up(x[:1].astype(np.float32))
    learner.tell(x[1:2].round(4), [np.nan])
    learner.expect(x[2:3].round(4))
    np.testing.assert_array_equal(learner.failed, x[:2])
    np.testing.assert_array_equal(learner.pending, x[2:])
    assert learner.ledger.n_drawn == 12


def test_a_rounded_tell_is_undone_as_a_whole(tmp_path: Path) -> None:
    learner, x = asked(path=tmp_path / "c")
    learner.tell(x[:5].astype(np.float32), np.arange(5.0))
    learner.undo()
    np.testing.assert_array_equal(learner.pending, x)
    learner.tell(x[:5].astype(np.float32), np.arange(5.0))
    learner.close()
    with ActiveLearner.load(tmp_path / "c") as again:
        np.testing.assert_array_equal(again.labelled.X, x[:5])
        np.testing.assert_array_equal(again.pending, x[5:])


def test_points_told_exactly_are_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    learner, x = asked()
    own = np.vstack([x[0] + [1e-4, 0.0], [0.123, 0.456]])  # one beside a point that is told itself
    with caplog.at_level(logging.INFO):
        learner.tell(np.vstack([x[:2], own]), np.arange(4.0))
        learner.tell(x[0] + [2e-4, 0.0], [4.0])  # beside points that have labels
    np.testing.assert_array_equal(learner.pending, x[2:])
    np.testing.assert_array_equal(learner.labelled.X[2:], np.vstack([own, x[0] + [2e-4, 0.0]]))
    assert not caplog.records


def test_a_point_at_a_bound_may_be_rounded_beyond_it() -> None:
    learner = ActiveLearner(lobal.Box(0.0, np.pi, n_candidates=64), seed=0)
    learner.expect([[3.14159]])
    learner.tell([[3.1416]], [1.0])
    assert learner.labelled.X.tolist() == [[3.14159]]
    with pytest.raises(ValueError, match=r"points must lie in the box from \[0.0\] to \[3.14.*got \[3.1416\]"):
        learner.tell([[3.1416]], [1.0])


def test_what_may_be_one_of_two_pending_points_is_neither_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    learner = ActiveLearner(lobal.Box(0.0, 1.0, n_candidates=64), seed=0)
    learner.expect(column(0.70002, 0.70048))
    learner.tell([[0.7]], [1.0])
    np.testing.assert_array_equal(learner.pending, column(0.70002, 0.70048))
    assert learner.labelled.X.tolist() == [[0.7]]
    assert "1 points, such as [0.7], nearly equal pending ones, but not clearly one each" in caplog.text
    assert "call undo() and give them with all digits, as learner.pending does" in caplog.text


def test_many_points_in_one_column_are_told_as_float32() -> None:
    learner = ActiveLearner(lobal.Box(0.0, 1.0, n_candidates=4096), seed=0)
    x = learner.ask(2000)  # half a thousandth apart
    learner.tell(x.astype(np.float32), np.arange(2000.0))
    np.testing.assert_array_equal(learner.labelled.X, x)
    np.testing.assert_array_equal(learner.labelled.y, np.arange(2000.0))


def test_a_journal_with_rounded_points_of_an_earlier_version_loads_as_that_version_left_it(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "box_rounded", tmp_path / "c")
    expected = json.loads((FIXTURES / "box_rounded_expected.json").read_text())
    with ActiveLearner.load(tmp_path / "c") as learner:
        np.testing.assert_array_equal(learner.labelled.X, expected["inputs"])
        np.testing.assert_array_equal(learner.labelled.y, expected["labels"])
        np.testing.assert_array_equal(learner.pending, expected["pending"])
        np.testing.assert_array_equal(learner.failed, expected["failed"])
        np.testing.assert_allclose(learner.training_density(), expected["training_density"], rtol=1e-12)
        np.testing.assert_allclose(learner.ask(4), expected["next"], rtol=1e-9)


# The rule.


@pytest.mark.parametrize(
    ("told", "known", "meant"),
    [
        ([0.5], [0.50099, 0.9], [0]),
        ([0.5], [0.50101], [-1]),  # more than a thousandth off
        ([0.50012345678901], [0.5001, 0.5008], [0]),  # thirty times as far
        ([0.50012345678901], [0.5001, 0.5002], [-1]),
        ([0.5001], [0.50008, 0.50022], [0]),  # 0.50022 is no 0.5001
        ([0.5001], [0.50008, 0.50014], [-1]),
        ([0.501, 0.503], [0.5013, 0.5026], [0, 1]),
        ([0.501, 0.502], [0.5014], [-1, -1]),  # at most one of them is rounded
        ([0.501, 0.501], [0.5014], [0, 0]),  # two labels of one point
        ([0.50012345678901] * 2, [0.5001, 0.5009], [-1, -1]),  # perhaps one each
    ],
)
def test_a_point_is_the_known_one_that_it_nearly_equals(told: list, known: list, meant: list) -> None:
    near, is_doubtful = meant_among(UNIT, column(*told), column(*known))
    assert near.tolist() == meant
    assert is_doubtful.tolist() == [place < 0 and known != [0.50101] for place in meant]


def test_different_pending_points_are_never_one() -> None:
    generator = np.random.default_rng(0)
    for digits in (3, 4, 5):
        known = generator.random((400, 1))
        for told in (known.round(digits), known.round(digits).astype(np.float32).astype(np.float64)):
            near, _ = meant_among(UNIT, told, known)
            found = np.flatnonzero(near >= 0)
            np.testing.assert_array_equal(near[found], found)
            assert len(found) > {3: 40, 4: 300, 5: 380}[digits]


def test_whole_numbers_and_levels_have_to_be_equal() -> None:
    axes = [lobal.Integer("n", 1, 5000), lobal.Real("x", 0.0, 1.0)]
    known = np.array([[12.0, 0.5], [13.0, 0.50001]])
    near, is_doubtful = meant_among(axes, np.array([[13.0, 0.5], [14.0, 0.5]]), known)
    assert near.tolist() == [1, -1]
    assert not is_doubtful.any()


def test_known_points_need_no_look_at_the_pending_ones() -> None:
    def pending() -> tuple[list[int], np.ndarray]:
        raise AssertionError("not needed")

    found = recognised(UNIT, column(0.1, 0.2), pending, lambda _: True)
    assert found.candidates.tolist() == [-1, -1]
    np.testing.assert_array_equal(found.inputs, column(0.1, 0.2))


def test_a_search_space_has_the_same_rule() -> None:
    learner = ActiveLearner(lobal.SearchSpace([lobal.Real("x", 0.0, 1.0)]), seed=0)
    learner.expect({"x": [0.70002, 0.70048, 0.2]})
    learner.tell({"x": [0.7, 0.2001]}, [1.0, 2.0])
    assert learner.labelled_points["x"].tolist() == [0.2, 0.7]
    assert len(learner.pending) == 2
