"""Whatever a user hands in: it is taken, or refused with a message, and the learner stays as it was."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lobal import ActiveLearner, Box, Pool
from tests.learner_setting import MODEL

N = 30  # candidates; fewer than ten labels are told below, so that nothing is fitted

SPACES = {
    "pool": Pool(np.linspace(0.0, 1.0, N)[:, None], density=1.0),
    "box": Box([0.0, -1.0], [1.0, 1.0], n_candidates=N),
}
LABELS = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, None]))


def learner(space: str = "pool") -> ActiveLearner:
    return ActiveLearner(SPACES[space], seed=0, model=MODEL)


def state(active: ActiveLearner) -> tuple[Any, ...]:
    """All that may change."""
    return (
        active.labelled.y.tolist(),
        active.pending.tolist(),
        active.failed.tolist(),
        active.training_density().tolist(),
        len(active.history),
    )


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> Exception | None:
    """What a call was refused with, if it was."""
    try:
        call(*arguments, **options)
    except (ValueError, TypeError, RuntimeError) as error:
        return error
    return None


def finite(labels: list[float | None]) -> list[float]:
    return [label for label in labels if label is not None and math.isfinite(label)]


@given(st.lists(st.tuples(st.integers(0, N - 1), LABELS), max_size=9))
def test_finite_labels_are_kept_and_others_fail_their_points(pairs: list[tuple[int, float | None]]) -> None:
    active = learner()
    rows, labels = [row for row, _ in pairs], [label for _, label in pairs]
    active.tell(rows, labels)
    assert sorted(active.labelled.y) == sorted(finite(labels))
    labelled = {row for row, label in pairs if finite([label])}
    assert set(active.labelled.candidate.tolist()) == labelled
    assert set(active.failed.tolist()) == {*rows} - labelled
    assert active.pending.size == 0


@given(st.lists(LABELS, min_size=1, max_size=9), st.randoms())
def test_the_order_and_the_parts_in_which_labels_come_do_not_matter(labels: list[float | None], random: Any) -> None:
    together, apart = learner(), learner()
    batch = together.ask(len(labels)).tolist()
    apart.ask(len(labels))
    together.tell(batch, labels)
    pairs = list(zip(batch, labels, strict=True))
    random.shuffle(pairs)
    for row, label in pairs:
        apart.tell([row], [label])
    assert state(together) == state(apart)


@given(
    space=st.sampled_from(sorted(SPACES)),
    batch=st.one_of(
        hnp.arrays(st.sampled_from([np.int64, np.float64]), hnp.array_shapes(max_dims=3, max_side=4)),
        st.lists(st.integers(-5, 2 * N), max_size=4),
        st.lists(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=3), max_size=3),
        st.text(max_size=3),
        st.none(),
    ),
    labels=st.one_of(
        hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=4)),
        st.lists(LABELS, max_size=4),
        st.text(max_size=3),
    ),
)
def test_what_is_told_is_taken_or_refused_as_a_whole(space: str, batch: Any, labels: Any) -> None:
    active = learner(space)
    before = state(active)
    refusal = refused(active.tell, batch, labels)
    if refusal is None:
        assert len(active.labelled.y) + len(active.failed) <= np.size(labels)
    else:
        assert "got" in str(refusal)
        assert state(active) == before


@given(counts=st.lists(st.integers(-3, N + 3), min_size=1, max_size=4))
def test_points_are_asked_for_once_and_no_more_than_there_are(counts: list[int]) -> None:
    active = learner()
    seen: set[int] = set()
    for n in counts:
        before = state(active)
        if 1 <= n <= N - len(seen):
            batch = set(active.ask(n).tolist())
            assert len(batch) == n
            assert not batch & seen
            seen |= batch
        else:
            with pytest.raises(ValueError, match=r"asked for|to ask for"):
                active.ask(n)
            assert state(active) == before
    assert set(active.pending.tolist()) == seen


@given(n=st.integers(1, N))
def test_a_box_never_runs_out(n: int) -> None:
    active = learner("box")
    for batch in (n, n, N + n):  # a cell is asked in as often as need be
        points = active.ask(batch)
        assert points.shape == (batch, 2)
        assert len(np.unique(points, axis=0)) == batch


@given(answers=st.lists(st.sampled_from(["label", "nan", "raise", "wrong number", "text"]), min_size=1, max_size=9))
def test_whatever_an_oracle_does_no_point_is_lost(answers: list[str]) -> None:
    active = learner()
    calls = iter(answers)

    def oracle(X: np.ndarray) -> Any:
        match next(calls, "label"):  # points that make up for failures have labels
            case "label":
                return X[:, 0]
            case "nan":
                return np.full(len(X), math.nan)
            case "raise":
                raise RuntimeError("diverged")
            case "wrong number":
                return np.zeros(len(X) + 1)
        return "high"

    refusal = refused(active.run, oracle, sizes=[len(answers)], points_per_call=1)
    if refusal is None:
        assert len(active.labelled.y) == len(answers)
        assert not active.pending.size
    elif isinstance(refusal, RuntimeError):
        assert "failed at all" in str(refusal)
        assert len(active.pending) == len(answers)
    else:
        assert "the oracle" in str(refusal)
        assert {"wrong number", "text"} & {*answers}
    assert len(active.labelled.y) + len(active.pending) <= len(answers)
    assert len(active.labelled.y) + len(active.failed) + len(active.pending) >= len(answers)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(20, 40), st.integers(1, 3)), elements=st.integers(0, 3).map(float)),
    constant=st.booleans(),
)
def test_duplicate_points_and_constant_columns_can_be_learned_from(X: np.ndarray, constant: bool) -> None:
    """Many equal rows, columns that hardly vary or not at all, and constant labels."""
    active = ActiveLearner(Pool(X), seed=0, model=MODEL)
    batch = active.ask(12)
    active.tell(batch, np.zeros(12) if constant else X[batch].sum(axis=1))
    assert len({*batch.tolist(), *active.ask(5).tolist()}) == 17
    assert np.isfinite(active.superior_density()).all()
    assert 0.0 < active.attainable() <= 1.0 + 1e-9
    savings = active.expected_savings()
    assert savings is None or 0.0 <= savings.share < 1.0
