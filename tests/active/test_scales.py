"""Neither the offset nor the scale of a column or of the labels changes which points are asked for."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import lobal
from lobal.core.units import UnusableColumnWarning

POINTS = np.random.default_rng(0).random((400, 2))
MODEL = lobal.MixtureRegressor(n_gate_inducing=16)


def target(U: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(3.0 / (U[:, 0] + 0.2)) + U[:, 1] + 0.1 * np.sin(1e5 * U[:, 0]))


def campaign(kind: str, a: Any, b: Any, c: float, d: float, **options: Any) -> tuple[np.ndarray, lobal.ActiveLearner]:
    """The points asked for, in the unit square, in three steps of a campaign in other units."""
    a, b = np.broadcast_to(a, 2), np.broadcast_to(b, 2)
    space = lobal.Pool(POINTS * a + b) if kind == "pool" else lobal.Box(b, a + b, n_candidates=256)
    learner, asked = lobal.ActiveLearner(space, seed=0, model=MODEL, **options), []
    for _ in range(3):
        batch = learner.ask(25)
        asked.append(POINTS[batch] if kind == "pool" else (batch - b) / a)
        learner.tell(batch, c * target(asked[-1]) + d)
    return np.concatenate(asked), learner


@cache
def plain(kind: str, **options: Any) -> tuple[np.ndarray, lobal.ActiveLearner]:
    return campaign(kind, 1.0, 0.0, 1.0, 0.0, **options)


UNITS = [
    (1.0, -1e6, 1e-130, 0.0),
    (1e-200, 0.0, 1.0, 1e6),
    ([1e-200, 1e200], [0.0, 1e206], 1e130, 1e136),
]


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
@pytest.mark.parametrize("kind", ["pool", "box"])
@pytest.mark.parametrize(("a", "b", "c", "d"), UNITS)
def test_the_same_points_are_asked_for_in_any_units(kind: str, a: Any, b: Any, c: float, d: float) -> None:
    (expected, reference), (asked, learner) = plain(kind), campaign(kind, a, b, c, d)
    np.testing.assert_allclose(asked, expected, atol=1e-8)
    np.testing.assert_allclose(learner.superior_density(), reference.superior_density(), rtol=1e-4)
    width = np.exp(np.log(np.broadcast_to(a, 2)).mean())
    np.testing.assert_allclose(learner.local_bandwidth() / width, reference.local_bandwidth(), rtol=1e-4)
    assert learner.attainable() == pytest.approx(reference.attainable(), rel=1e-4)


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
@pytest.mark.parametrize("draw", ["low_dispersion", "gsx", "mogpu"])
def test_other_designs_ask_for_the_same_points_too(draw: str) -> None:
    asked, _ = campaign("pool", [1e-200, 1e200], [0.0, 1e206], 1.0, 0.0, draw=draw)
    np.testing.assert_array_equal(asked, plain("pool", draw=draw)[0])


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
def test_smoothness_is_no_exception() -> None:
    asked, _ = campaign("pool", 1e200, 0.0, 1e130, 0.0, smoothness=2.0)
    np.testing.assert_array_equal(asked, plain("pool", smoothness=2.0)[0])


def test_a_box_far_from_zero_recognises_its_points() -> None:
    box = lobal.Box([1e6, 0.0], [1e6 + 1e-6, 1.0], n_candidates=64)
    candidates = box.candidates(0)
    assert candidates.locate(candidates.inputs)[0] == list(range(64))


def test_a_pool_warns_of_columns_that_its_type_cannot_resolve() -> None:
    X = np.column_stack([POINTS[:, 0], 1e6 + 0.2 * POINTS[:, 1]]).astype(np.float32)
    with pytest.warns(UnusableColumnWarning, match="column 1 of the pool is not used: .* type float32"):
        lobal.Pool(X).candidates(0)
