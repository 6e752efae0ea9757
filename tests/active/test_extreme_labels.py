import re
from typing import Any

import numpy as np
import pytest

import lobal
from lobal.active.extreme_labels import extreme
from lobal.active.learner import ActiveLearner
from tests.learner_setting import MODEL

SPACES: dict[str, Any] = {
    "box": lobal.Box(0.0, 1.0, n_candidates=64),
    "pool": lobal.Pool(np.linspace(0.0, 1.0, 50)[:, None]),
    "search space": lobal.SearchSpace([lobal.Real("x", 0.0, 1.0)]),
}


def told(space: Any, labels: np.ndarray, **options: Any) -> ActiveLearner:
    learner = ActiveLearner(space, seed=0, **options)
    learner.tell(learner.ask(len(labels)), labels)
    return learner


def labels_with(value: float) -> np.ndarray:
    labels = np.sin(np.arange(20.0))
    labels[7] = value
    return labels


@pytest.mark.parametrize("kind", [*SPACES])
@pytest.mark.parametrize("value", [1e200, -1.7e308])
def test_a_label_that_no_model_can_be_fitted_with_is_named_with_what_to_do(kind: str, value: float) -> None:
    learner = told(SPACES[kind], labels_with(value), model=MODEL)
    (point,) = learner.candidates.named(
        *(each[7:8] for each in map(np.array, learner.located(learner.labelled_points)))
    )
    message = (
        f"no model can be fitted with the label {value:g} of point {point}, row 7 of learner.labelled: it is more than "
        "1e+140 from the others, whose variance is then no floating-point number; take the call that told it back, with"
        " learner.undo() or `lobal campaign undo`, and tell the right label"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        learner.ask(2)
    learner.undo()
    learner.tell(learner.pending, labels_with(0.5))
    assert len(learner.ask(2)) == 2


def test_the_label_of_one_of_several_outputs_is_named() -> None:
    space = lobal.Box(0.0, 1.0, n_candidates=64, outputs=("a", "b"))
    labels = np.column_stack([labels_with(0.5), labels_with(1e200)])
    labels[3, 0] = np.nan
    learner = told(space, labels)
    with pytest.raises(ValueError, match=r"no model can be fitted with the label 1e\+200 of point \(.*\), row 7 of"):
        learner.ask(2)


def test_where_all_labels_are_too_large_the_unit_is_to_blame() -> None:
    learner = told(SPACES["box"], 1e200 * np.sin(np.arange(20.0)), model=MODEL)
    with pytest.raises(ValueError, match=r"labels must have a standard deviation between .* give y / 7e\+199 instead"):
        learner.ask(2)


def test_labels_that_a_model_can_be_fitted_with_are_none_of_these() -> None:
    assert not extreme(np.array([[0.0], [1.0], [1e139], [np.nan]])).any()
    assert not extreme(np.array([[1e200], [1e200], [1e200], [0.0]])).any()
    assert extreme(np.array([[0.0], [1.0], [1e200], [-1e200], [2.0]]))[:, 0].tolist() == [
        False,
        False,
        True,
        True,
        False,
    ]
