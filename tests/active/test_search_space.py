"""Spaces of named variables, and learners that work in them."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy import ndarray

import lobal
from lobal.active import frames
from lobal.active.learner import ActiveLearner

VARIABLES = [
    lobal.Real("p", 1e-3, 100.0, log=True, unit="bar"),
    lobal.Real("T", 20, 200, unit="C"),
    lobal.Integer("n", 1, 9),
    lobal.Categorical("s", ["water", "oil", "gas"]),
]
CONSTRAINTS = ["T + 10 * n <= 250", "s != 'water' or T <= 100"]


def mixed_space(**options: Any) -> lobal.SearchSpace:
    return lobal.SearchSpace(VARIABLES, options.pop("constraints", CONSTRAINTS), n_candidates=1024, **options)


def composition(**options: Any) -> lobal.SearchSpace:
    parts = [lobal.Real(name, 0, 100) for name in "abc"]
    return lobal.SearchSpace(parts, ["a + b + c == 100", "a >= 20"], n_candidates=512, **options)


def target(table: Any) -> ndarray:
    s = np.asarray(table["s"])
    return np.asarray(np.sin(2 * np.log10(table["p"])) + table["T"] / 100 + 0.1 * table["n"] + (s == "oil"))


def asked(n: int = 12) -> tuple[ActiveLearner, pd.DataFrame]:
    learner = ActiveLearner(mixed_space(), seed=0)
    return learner, learner.ask(n)


def alloys(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = {
        "Cr": rng.uniform(0, 30, n).round(2),
        "Ni": rng.uniform(0, 20, n).round(2),
        "route": rng.choice(["cast", "forged"], n),
    }
    return pd.DataFrame({**table, "note": "x"}, index=[f"A{k}" for k in range(n)])


# Points.


def test_points_are_frames_of_raw_values_with_units() -> None:
    _, points = asked()
    assert list(points.columns) == ["p", "T", "n", "s"]
    assert points["n"].dtype == np.int64
    assert set(points["s"]) <= {"water", "oil", "gas"}
    assert points.attrs["units"] == {"p": "bar", "T": "C"}


def test_points_are_feasible_also_where_cells_are_used_again() -> None:
    space = lobal.SearchSpace(VARIABLES, CONSTRAINTS, n_candidates=16)
    learner = ActiveLearner(space, seed=0)
    points = pd.concat([learner.ask(16), learner.ask(16)])
    assert space.feasible(points).all()
    assert (points["T"] + 10 * points["n"] <= 250).all()
    assert len(points.drop_duplicates()) == 32


@pytest.mark.parametrize("draw", ["random", "low_dispersion", "spread"])
def test_every_design_draws_feasible_points(draw: str) -> None:
    learner = ActiveLearner(composition(), draw=draw, seed=1)
    points = learner.ask(40)
    np.testing.assert_allclose(points.sum(axis=1), 100.0)
    assert (points["a"] >= 20).all()
    assert (points >= 0).all(axis=None)


def test_parts_of_a_sum_are_uniform_on_the_simplex() -> None:
    parts = [lobal.Real(name, 0, 1) for name in "abcd"]
    codes = lobal.SearchSpace(parts, ["a + b + c + d == 1"]).candidates(0).codes
    # Parts of a uniform point of the simplex: mean 1/4, P(part > 1/2) = 1/8.
    np.testing.assert_allclose(codes.mean(axis=0), 0.25, atol=0.01)
    np.testing.assert_allclose((codes > 0.5).mean(axis=0), 0.125, atol=0.01)


def test_sums_that_share_parts_are_fulfilled_together() -> None:
    parts = [lobal.Real(name, 0, 1) for name in "abcd"]
    codes = lobal.SearchSpace(parts, ["a + b + c == 1", "c == 2 * d"], n_candidates=4096).candidates(0).codes
    np.testing.assert_allclose(codes[:, :3].sum(axis=1), 1.0)
    np.testing.assert_allclose(codes[:, 2], 2 * codes[:, 3])
    np.testing.assert_allclose(codes[:, :3].mean(axis=0), 1 / 3, atol=0.03)


def test_many_parts_with_narrow_bounds_are_drawn() -> None:
    parts = [lobal.Real(f"x{k}", 0, 0.2) for k in range(8)]
    codes = (
        lobal.SearchSpace(parts, [" + ".join(f"x{k}" for k in range(8)) + " == 1"], n_candidates=512)
        .candidates(0)
        .codes
    )
    assert len(codes) == 512
    np.testing.assert_allclose(codes.sum(axis=1), 1.0)
    assert codes.max() <= 0.2


def test_whole_parts_of_a_sum_are_whole() -> None:
    parts = [lobal.Integer("a", 0, 100), lobal.Integer("b", 0, 100), lobal.Real("c", 0, 100)]
    points = ActiveLearner(lobal.SearchSpace(parts, ["a + b + c == 100"], n_candidates=256), seed=0).ask(20)
    np.testing.assert_allclose(points.sum(axis=1), 100.0)
    assert points["a"].dtype == np.int64


def test_little_room_is_an_error_that_names_the_constraint() -> None:
    space = lobal.SearchSpace([lobal.Real("x", 0, 1), lobal.Real("y", 0, 1)], ["x * y >= 0.9999999"])
    with pytest.raises(ValueError, match=r"only 0 of \d+ points are feasible, .*'x \* y >= 0.9999999' by 0.00%"):
        ActiveLearner(space)


def test_sums_out_of_reach_are_an_error() -> None:
    space = lobal.SearchSpace([lobal.Real("x", 0, 1), lobal.Real("y", 0, 1)], ["x + y == 3"])
    with pytest.raises(ValueError, match="the equalities leave no room within the bounds"):
        ActiveLearner(space)


def test_functions_are_constraints_too() -> None:
    space = mixed_space(constraints=[lambda columns: columns["T"] <= 50 + 10 * columns["n"]])
    points = ActiveLearner(space, seed=0).ask(30)
    assert (points["T"] <= 50 + 10 * points["n"]).all()


def test_functions_must_return_truth_values() -> None:
    with pytest.raises(ValueError, match="must return True or False for each of"):
        ActiveLearner(mixed_space(constraints=[lambda columns: columns["T"]]))


def test_a_finite_space_has_every_point_once_and_then_no_more() -> None:
    space = lobal.SearchSpace([lobal.Integer("n", 1, 4), lobal.Categorical("s", ["a", "b"])], ["n < 4 or s == 'a'"])
    learner = ActiveLearner(space, seed=0)
    points = learner.ask(7)
    assert len(points.drop_duplicates()) == 7
    learner.tell(points, points["n"])
    with pytest.raises(ValueError, match="only 0 of the pool's 7 are left"):
        learner.ask(1)


# Telling.


@pytest.mark.parametrize("form", [lambda t: t, lambda t: t.to_dict("list"), lambda t: t.to_dict("records")])
def test_points_are_told_in_any_form_and_order(form: Any) -> None:
    learner, points = asked()
    shuffled = points.sample(frac=1, random_state=0).assign(extra="ignored")
    learner.tell(form(shuffled), target(shuffled))
    assert not len(learner.pending)
    pd.testing.assert_frame_equal(learner.labelled_points, points)
    np.testing.assert_allclose(learner.labelled.y, target(points))


def test_rounded_points_are_taken_for_the_pending_ones_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    learner, points = asked()
    with caplog.at_level(logging.INFO):
        learner.tell(points.round({"p": 6, "T": 1}), target(points))
    assert not len(learner.pending)
    pd.testing.assert_frame_equal(learner.labelled_points, points)
    assert "nearly equal pending ones and are taken for these" in caplog.text


def test_points_that_are_known_exactly_are_not_taken_for_pending_ones() -> None:
    learner, points = asked(3)
    learner.tell(points, target(points))
    near = points.iloc[[0]].assign(T=points["T"].iloc[0] + 0.01)
    learner.expect(points.iloc[[1]].assign(T=points["T"].iloc[1] + 20))
    learner.expect(near)
    learner.tell(points.iloc[[0]], [7.0])
    assert len(learner.pending) == 2


def test_points_nobody_asked_for_are_welcome() -> None:
    learner, points = asked(2)
    learner.tell({"p": 0.5, "T": 25.0, "n": 2, "s": "gas"}, [1.0])
    assert len(learner.pending) == len(points)
    assert learner.labelled_points["s"].tolist() == ["gas"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"T": [180.0], "s": ["water"]},
            r"must fulfil the constraint \"s != 'water' or T <= 100\", got p = 0.1, T = 180",
        ),
        ({"T": [500.0]}, "'T' must lie between 20 and 200 C, got 500"),
        ({"n": [3.5]}, "'n' must be a whole number, got 3.5"),
        ({"s": ["wine"]}, "'s' must be one of"),
        ({"T": [float("nan")]}, "'T' must lie between 20 and 200 C, got nan"),
        ({"T": [30.0, 40.0]}, "columns must be equally long"),
    ],
)
def test_points_outside_the_space_are_refused_with_their_values(change: dict[str, Any], message: str) -> None:
    learner, _ = asked(2)
    with pytest.raises(ValueError, match=message):
        learner.tell({"p": [0.1], "T": [50.0], "n": [3], "s": ["gas"], **change}, [1.0])


def test_missing_columns_are_named() -> None:
    learner, points = asked(2)
    with pytest.raises(ValueError, match=r"the columns \['T', 's'\] are missing"):
        learner.tell(points[["p", "n"]], [1.0, 2.0])


def test_points_that_are_no_table_are_refused() -> None:
    learner, _ = asked(2)
    with pytest.raises(
        ValueError, match="points must be a data frame, a dictionary of columns or a list of dictionaries"
    ):
        learner.tell([1, 2], [1.0, 2.0])


def test_sums_that_were_rounded_are_accepted() -> None:
    learner = ActiveLearner(composition(), seed=0)
    learner.tell({"a": [33.3], "b": [33.3], "c": [33.3]}, [1.0])
    with pytest.raises(ValueError, match="'a \\+ b \\+ c == 100'"):
        learner.tell({"a": [33.0], "b": [33.0], "c": [33.0]}, [1.0])


def test_points_can_be_given_up() -> None:
    learner, points = asked(4)
    learner.give_up(points.iloc[:2])
    assert len(learner.failed) == 2
    assert len(learner.pending) == 2


# Pools.


def test_points_of_a_pool_keep_their_index() -> None:
    table = alloys()
    learner = ActiveLearner(lobal.SearchSpace.from_pool(table[["Cr", "Ni", "route"]]), seed=0)
    points = learner.ask(10)
    pd.testing.assert_frame_equal(points, table.loc[points.index, ["Cr", "Ni", "route"]], check_dtype=False)


def test_rows_are_told_by_index_by_values_or_by_labels() -> None:
    table = alloys()
    learner = ActiveLearner(lobal.SearchSpace.from_pool(table, columns=["Cr", "Ni", "route"]), seed=0)
    points = learner.ask(9)
    learner.tell(points.iloc[:3], [1.0, 2.0, 3.0])
    learner.tell(points.iloc[3:6].reset_index(drop=True), [4.0, 5.0, 6.0])
    learner.tell(points.index[6:].tolist(), [7.0, 8.0, 9.0])
    assert learner.labelled_points.index.tolist() == points.index.tolist()
    assert learner.labelled.y.tolist() == list(map(float, range(1, 10)))


def test_equal_rows_are_told_one_after_the_other() -> None:
    table = pd.DataFrame({"x": [1.0, 1.0, 2.0, 3.0]})
    learner = ActiveLearner(lobal.SearchSpace([lobal.Real("x", 0, 4)], pool=table), seed=0, intrinsic_dimension=1.0)
    learner.ask(4)
    learner.tell({"x": [1.0, 1.0]}, [5.0, 6.0])
    assert sorted(learner.labelled.candidate) == [0, 1]


def test_values_of_no_row_are_refused() -> None:
    learner = ActiveLearner(lobal.SearchSpace.from_pool(alloys(), columns=["Cr", "Ni"]), seed=0)
    with pytest.raises(ValueError, match=r"points must be rows of the pool, got Cr = 15.0, Ni = 15.0"):
        learner.tell({"Cr": [15.0], "Ni": [15.0]}, [1.0])


def test_rows_that_break_a_constraint_are_left_out() -> None:
    table = alloys()
    space = lobal.SearchSpace.from_pool(table, ["Cr + Ni <= 25", "route == 'cast'"], columns=["Cr", "Ni", "route"])
    learner = ActiveLearner(space, seed=0)
    expected = table[(table["Cr"] + table["Ni"] <= 25) & (table["route"] == "cast")]
    assert sorted(learner.ask(len(expected)).index) == sorted(expected.index)


def test_columns_that_cannot_be_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the column 'note' of the pool must be numbers, or texts of 2 to 100 levels"):
        lobal.SearchSpace.from_pool(alloys())


# Models.


def test_levels_of_a_category_share_one_learned_width() -> None:
    learner, points = asked(40)
    learner.tell(points, target(points))
    width = learner.model.mixture_.shared_bandwidth
    assert learner.model.column_groups == [0, 1, 2, 3, 3, 3]
    assert len(torch.unique(width[3:])) == 1


def test_a_model_of_the_user_learns_one_width_as_well() -> None:
    learner = ActiveLearner(mixed_space(), model=lobal.MixtureRegressor(noise=0.1))
    assert learner.surrogate.model.column_groups == [0, 1, 2, 3, 3, 3]  # type: ignore[attr-defined]
    assert learner.surrogate.model.noise == 0.1  # type: ignore[attr-defined]


def test_spaces_of_numbers_tie_no_widths() -> None:
    assert composition().mixture_options() == {}


def test_saved_models_predict_from_raw_columns(tmp_path: Path) -> None:
    learner, points = asked(30)
    learner.tell(points, target(points))
    new = mixed_space().candidates(5).batch(np.arange(5), mixed_space().candidates(5).codes[:5])
    learner.save_model(tmp_path / "model.lobal")
    loaded = lobal.SpaceModel.load(tmp_path / "model.lobal")
    for options in ({}, {"return_std": True}, {"return_interval": 0.9}):
        np.testing.assert_allclose(loaded.predict(new, **options), learner.predict(new, **options))


def test_models_need_labels() -> None:
    learner, points = asked(2)
    with pytest.raises(ValueError, match="need 10 labels to fit a model, have 0"):
        learner.predict(points)


def test_files_of_other_models_are_refused(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 2))
    lobal.MixtureRegressor(random_state=0).fit(X, X[:, 0]).save(tmp_path / "model.lobal")
    with pytest.raises(ValueError, match="is not a model with named variables that lobal saved"):
        lobal.SpaceModel.load(tmp_path / "model.lobal")


def test_oracles_get_tables() -> None:
    seen = []

    def oracle(table: pd.DataFrame) -> ndarray:
        seen.append(table)
        return target(table)

    learner = ActiveLearner(mixed_space(), seed=0)
    learner.run(oracle, sizes=[8, 16])
    assert all(isinstance(table, pd.DataFrame) for table in seen)
    assert len(learner.labelled.y) == 16


def test_oracles_that_fail_leave_the_values_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def oracle(table: pd.DataFrame) -> ndarray:
        if table["s"].iloc[0] == "oil":
            raise RuntimeError("hung")
        return target(table)

    ActiveLearner(mixed_space(), seed=0).run(oracle, sizes=[12], points_per_call=1)
    assert "'s': 'oil'" in caplog.text


def test_without_pandas_tables_are_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "find_spec", lambda _: None)
    learner = ActiveLearner(mixed_space(), seed=0)
    points = learner.ask(6)
    assert isinstance(points, dict)
    learner.tell(points, target(points))
    learner.run(target, sizes=[9], points_per_call=1)
    assert len(learner.labelled.y) == 9


def test_columns_of_figures_have_names() -> None:
    names = ["p (log)", "T", "n", "s = water", "s = oil", "s = gas"]
    assert mixed_space().candidates(0).input_names == names


def test_validation_is_given_as_a_table() -> None:
    _, points = asked(15)
    learner = ActiveLearner(mixed_space(), seed=1, validation=(points, target(points)))
    batch = learner.ask(15)
    learner.tell(batch, target(batch))
    assert learner.model.validation_error_ > 0


# Files.


def test_inputs_of_models_come_back_as_points() -> None:
    space, (_, points) = mixed_space(), asked()
    pd.testing.assert_frame_equal(space.decode(space.encode(points)), points, check_exact=False)


def test_json_brings_the_same_space_back(tmp_path: Path) -> None:
    space = mixed_space()
    fields = space.to_json(tmp_path / "space.json")
    for source in (tmp_path / "space.json", fields, json.loads(json.dumps(fields))):
        back = lobal.SearchSpace.from_json(source)
        assert back.variables == space.variables
        assert back.to_json() == fields


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variables": []}, "variables must be from 1 to 1000, got 0"),
        (
            {"variables": [{"type": "real", "name": "x", "lower": 0}]},
            r"space.variables\[0\] must have the entry 'upper'",
        ),
        ({"variables": [{"type": "float", "name": "x"}]}, r"space.variables\[0\].type must be one of"),
        ({"variables": [{"type": "categorical", "name": "x", "levels": "ab"}]}, r"levels must be a list"),
        ({"variables": [{"type": "real", "name": "x", "lower": 0, "upper": 1, "Log": True}]}, "got 'Log'"),
        ({"constraints": ["x +"]}, r"the constraint 'x \+' cannot be read"),
        ({"constraints": ["z < 1"]}, r"the constraint 'z < 1' names \['z'\], but the variables are \['x'\]"),
        ({"constraints": [None]}, "every one of space.constraints must be a text, got null at 0"),
        ({"version": 2}, "space.version must be a whole number from 1 to 1"),
        ({"bounds": []}, "got 'bounds'"),
    ],
)
def test_json_that_describes_no_space_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fields = {"variables": [{"type": "real", "name": "x", "lower": 0, "upper": 1}], **change}
    with pytest.raises(ValueError, match=message):
        lobal.SearchSpace.from_json(fields)
    (tmp_path / "space.json").write_text(json.dumps(fields))
    with pytest.raises(
        ValueError, match=r"space.json' is not a search space: .*; see docs/search_space.md for an example"
    ):
        lobal.SearchSpace.from_json(tmp_path / "space.json")


def test_functions_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="is a function, which cannot be written as JSON; write it as an expression"):
        mixed_space(constraints=[lambda columns: columns["T"] < 100]).to_json()


def test_campaigns_go_on_where_they_were(tmp_path: Path) -> None:
    learners = [ActiveLearner(mixed_space(), seed=3, path=tmp_path / name) for name in ("a", "b")]
    for learner in learners:
        points = learner.ask(12)
        learner.tell(points.iloc[:10], target(points.iloc[:10]))
    learners[0].close()
    with ActiveLearner.load(tmp_path / "a") as loaded, learners[1] as other:
        pd.testing.assert_frame_equal(loaded.pending, other.pending)
        pd.testing.assert_frame_equal(loaded.ask(5), other.ask(5))


def test_campaigns_of_pools_keep_the_index(tmp_path: Path) -> None:
    with ActiveLearner(lobal.SearchSpace.from_pool(alloys(), columns=["Cr", "Ni"]), path=tmp_path / "c") as learner:
        points = learner.ask(5)
    with ActiveLearner.load(tmp_path / "c") as loaded:
        assert loaded.pending.index.tolist() == points.index.tolist()


def test_campaigns_with_functions_need_the_space_again(tmp_path: Path) -> None:
    space = mixed_space(constraints=["T < 150", lambda columns: columns["n"] < 5])
    with ActiveLearner(space, path=tmp_path / "c") as learner:
        learner.ask(5)
    with pytest.raises(ValueError, match=r"1 of the campaign's constraints are functions.*load\(path, pool=space\)"):
        ActiveLearner.load(tmp_path / "c")
    with pytest.raises(ValueError, match="has other variables or constraints than the campaign was begun with"):
        ActiveLearner.load(tmp_path / "c", pool=mixed_space())
    with ActiveLearner.load(tmp_path / "c", pool=space) as loaded:
        assert (loaded.ask(5)["n"] < 5).all()


def test_a_damaged_header_is_refused() -> None:
    candidates = mixed_space().candidates(0)
    fields = candidates.to_tensors()[1]
    fields["space"]["variables"][0]["upper"] = -1.0
    with pytest.raises(ValueError, match="lower must lie below upper"):
        type(candidates).check_fields(fields)


@pytest.mark.parametrize(
    ("variables", "constraints", "message"),
    [
        ([], [], "variables must be one or more with different names"),
        ([lobal.Real("x", 0, 1), lobal.Real("x", 0, 1)], [], "with different names, got"),
        (lobal.Real("x", 0, 1), [], "variables must be a list of lobal.Real"),
        ([lobal.Real("x", 0, 1)], "x < 1", "constraints must be a list"),
        ([lobal.Real("x", 0, 1)], [3], "a constraint must be a text or a function"),
        ([lobal.Real("x", 0, 1), lobal.Real("y", 0, 1)], ["x * y == 1"], "the equality 'x \\* y == 1' must be linear"),
        ([lobal.Categorical("s", ["a", "b"])], ["s + 1 < 2"], "cannot be computed"),
    ],
)
def test_spaces_that_cannot_be_are_refused(variables: Any, constraints: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        lobal.SearchSpace(variables, constraints)
