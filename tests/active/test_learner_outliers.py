"""Labels that contradict the others: a learner warns of each once, and keeps them in its history."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner, MixtureRegressor, OutlierWarning
from tests.learner_setting import MODEL, bumpy, learner

WRONG = 1000.0


def told(path: Path | None = None, model: MixtureRegressor = MODEL) -> tuple[ActiveLearner, int]:
    """A learner with 60 labels, and the candidate whose label is wrong."""
    asker = learner(path=path, model=model)
    batch = asker.ask(60)
    labels = bumpy(asker.candidates.X[batch])
    labels[20] = WRONG
    asker.tell(batch, labels)
    return asker, int(batch[20])


def one_more_step(asker: ActiveLearner) -> None:
    batch = asker.ask(10)
    asker.tell(batch, bumpy(asker.candidates.X[batch]))


def test_a_label_is_warned_of_once_and_remembered(tmp_path: Path) -> None:
    asker, candidate = told(tmp_path / "campaign")
    row = int(np.flatnonzero(asker.labelled.y == WRONG)[0])
    with pytest.warns(OutlierWarning, match=rf"rows of learner.labelled\): row {row}: 1000, predicted"):
        one_more_step(asker)
    one_more_step(asker)
    asker.close()
    with ActiveLearner.load(tmp_path / "campaign") as again:
        one_more_step(again)
        assert [step.outliers for step in again.history] == [(), (candidate,), (candidate,), (candidate,)]
        assert again.model.outliers_.tolist() == [int(np.flatnonzero(again.labelled.y == WRONG)[0])]


def test_another_label_is_another_warning() -> None:
    asker, candidate = told()
    with pytest.warns(OutlierWarning):
        one_more_step(asker)
    batch = asker.ask(10)
    labels = bumpy(asker.candidates.X[batch])
    labels[3] = -WRONG
    asker.tell(batch, labels)
    with pytest.warns(OutlierWarning, match="1 label contradicts .*: -1000, predicted"):
        one_more_step(asker)
    assert set(asker.history[-1].outliers) == {candidate, int(batch[3])}


def test_heavy_tails_need_no_warning() -> None:
    asker, candidate = told(model=MixtureRegressor(n_inducing=40, n_gate_inducing=10, noise="heavy_tails"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_more_step(asker)
    assert candidate in asker.history[-1].outliers


def test_right_labels_leave_nothing_to_remember() -> None:
    asker = learner()
    one_more_step(asker)
    one_more_step(asker)
    assert [step.outliers for step in asker.history] == [(), ()]
