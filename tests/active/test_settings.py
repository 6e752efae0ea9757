"""What a learner refuses to be told; every message says what was expected and got."""

import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from lobal import MixtureRegressor, Pool
from lobal.active.mixture_surrogate import MixtureSurrogate
from lobal.active.settings import LearnerSettings, checked_sizes, checked_space, checked_surrogate

GOOD = {
    "seed": 3,
    "smoothness": math.inf,
    "intrinsic_dimension": 1.5,
    "exploration": 0.1,
    "draw": "random",
    "complexity": "local",
}
POOL = Pool([[0.0], [1.0]])


def test_settings_are_plain_data_and_come_back() -> None:
    given = GOOD | {"seed": np.int64(3), "smoothness": 2, "exploration": np.float32(0.5)}
    settings = LearnerSettings.checked(**given)
    assert LearnerSettings.from_fields(json.loads(json.dumps(settings.to_fields()))) == settings
    assert (settings.seed, settings.smoothness, settings.exploration) == (3, 2.0, 0.5)
    with pytest.raises(ValueError, match="has not been estimated yet"):
        _ = LearnerSettings().dimension
    # Campaigns of versions that did not write how they draw go on with random draws.
    earlier = GOOD | {"seed": 0, "intrinsic_dimension": None, "keep_models": False, "preset": None}
    assert LearnerSettings.from_fields({"of an earlier version": 1}).to_fields() == earlier
    assert LearnerSettings().draw == "adaptive"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("seed", -1, "seed must be a whole number, at least 0, got -1"),
        ("seed", None, "got None of type NoneType"),
        ("smoothness", 0.0, r"smoothness must be above 0, got 0\.0; math\.inf"),
        ("smoothness", "estimate", r"smoothness must be a number, got 'estimate' .*fit\(X, y\)\.smoothness_"),
        ("intrinsic_dimension", -2, "intrinsic_dimension must be above 0, got -2.0; leave it out"),
        ("intrinsic_dimension", math.inf, "intrinsic_dimension must be above 0"),
        ("exploration", 1.5, r"exploration must be between 0 and 1, got 1\.5"),
        ("draw", "lots", r"draw must be one of \[.*'low_dispersion', .*'random', 'spread'\], got 'lots'"),
        ("complexity", "none", r"complexity must be one of \['local', 'constant'\], got 'none'"),
        ("draw", ["random"], r"got \['random'\]"),
        ("keep_models", "yes", "keep_models must be True or False, got 'yes'"),
        ("preset", "thesis", r"preset must be None or one of \['paper'\], got 'thesis'"),
    ],
)
def test_wrong_settings_are_refused_with_what_was_expected(option: str, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        LearnerSettings.checked(**GOOD | {option: value})


@pytest.mark.parametrize("space", [[[0.0], [1.0]], np.zeros((3, 1)), None, Pool])
def test_a_space_is_a_pool_or_a_box(space: Any) -> None:
    with pytest.raises(
        TypeError,
        match=r"lobal\.Pool of candidates, a lobal\.Box or a lobal\.SearchSpace, got .* write lobal\.Pool\(X\)",
    ):
        checked_space(space)


@pytest.mark.parametrize("model", [MixtureRegressor, "mixture", 5])
def test_a_model_is_a_mixture_regressor(model: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a lobal\.MixtureRegressor, such as .*, got "):
        checked_surrogate(model, False, POOL)


def test_a_model_is_wrapped_and_a_surrogate_taken_as_it_is() -> None:
    assert checked_surrogate(MixtureRegressor(n_gate_inducing=7), True, POOL).changed_options == {
        "n_gate_inducing": 7,
        "shrink_inducing": True,
    }
    own = MixtureSurrogate()
    assert checked_surrogate(own, False, POOL) is own
    assert isinstance(checked_surrogate(None, False, POOL), MixtureSurrogate)


def test_shrinking_is_true_or_false_and_belongs_to_the_surrogate() -> None:
    for wrong in (1, "yes"):
        with pytest.raises(TypeError, match="shrink_inducing must be True or False, got "):
            checked_surrogate(None, wrong, POOL)
    with pytest.raises(ValueError, match="must be passed to the surrogate itself"):
        checked_surrogate(MixtureSurrogate(), True, POOL)


@pytest.mark.parametrize("sizes", [[], [20, 20], [30, 20], [0, 5], [2.5], ["2"], 5], ids=str)
def test_sizes_are_whole_and_ascend(sizes: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"sizes .*got"):
        checked_sizes(sizes, None)


def test_a_learner_checks_its_options_before_it_computes_anything() -> None:
    """In a process of its own: here, types are checked at every call before the learner can."""
    code = """
import lobal
X = [[k / 9] for k in range(10)]
density = lambda X: (_ for _ in ()).throw(AssertionError("computed"))
for options in (
    {"seed": "one"}, {"model": lobal.MixtureRegressor}, {"validation": 5}, {"exploration": "much"}, {"draw": 1},
    {"smoothness": "rough"}, {"intrinsic_dimension": "two"}, {"shrink_inducing": None},
):
    try:
        lobal.ActiveLearner(lobal.Pool(X, density=density), **options)
    except (TypeError, ValueError) as error:
        assert str(error).startswith(next(iter(options))) and "got" in str(error), error
    else:
        raise AssertionError(options)
learner = lobal.ActiveLearner(lobal.Pool(X))
for call in (
    lambda: lobal.ActiveLearner(X), lambda: learner.ask(2.0), lambda: learner.ask("all"),
    lambda: learner.run(None, sizes=[5]), lambda: learner.run(len, sizes=[5], points_per_call=0),
    lambda: learner.save(5),
):
    try:
        call()
    except (TypeError, ValueError) as error:
        assert "must be" in str(error) and "got" in str(error), error
    else:
        raise AssertionError("nothing was wrong")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
