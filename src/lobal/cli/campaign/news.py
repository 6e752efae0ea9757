"""Which labels of a table are new: tables often hold those of earlier rounds as well."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.active.learner import ActiveLearner

Key: TypeAlias = tuple[int, bytes]  # of a point: its candidate and its inputs


@final
class News(NamedTuple):
    """What the rows of a table bring."""

    labels: Float[ndarray, "n m"]  # NaN where a value is recorded already
    is_label: Bool[ndarray, " n"]  # rows with a label to record
    is_failure: Bool[ndarray, " n"]  # rows with a failure to record
    is_repeated: Bool[ndarray, " n"]  # rows with a label of a point that has another one
    is_outdated: Bool[ndarray, " n"]  # rows that say of a point with a label that it failed
    is_unasked: Bool[ndarray, " n"]  # rows of points that are not in the campaign yet

    @property
    def is_new(self) -> Bool[ndarray, " n"]:
        """Rows to record."""
        return np.asarray(self.is_label | self.is_failure)


def news_of(learner: ActiveLearner, points: Any, labels: Float[ndarray, "n m"], *, again: bool) -> News:  # noqa: ANN401
    """What labels of points bring; with `again`, those that are recorded already are measured again.

    Every value counts by itself: a row that has got its second output since only brings that.
    """
    keys = _keys(*learner.located(points))
    recorded, failed = _recorded(learner), {*_keys_of(learner, learner.ledger.failed)}
    known = {*_keys_of(learner, range(len(learner.ledger.entries)))}
    has_value = {(key, place) for key, place, _ in recorded}
    labelled = {key for key, _ in has_value}
    left = labels if again else _unknown(recorded, keys, labels)
    there = np.isfinite(left)
    is_failed = ~np.isfinite(labels).any(axis=1)
    return News(
        left,
        there.any(axis=1),
        is_failed & _marked(key not in labelled and key not in failed for key in keys),
        _marked(
            any((key, place) in has_value for place in np.flatnonzero(row).tolist())
            for key, row in zip(keys, there, strict=True)
        ),
        is_failed & _marked(key in labelled for key in keys),
        _marked(key not in known for key in keys),
    )


def _unknown(recorded: Counter[tuple[Key, int, float]], keys: Sequence[Key], labels: Float[ndarray, "n m"]) -> ndarray:
    """Labels without values that are recorded; one that a table has more often is new as often."""
    rest, left = Counter(recorded), labels.copy()
    for row, place in np.argwhere(np.isfinite(labels)).tolist():
        entry = (keys[row], place, float(labels[row, place]))
        if rest[entry] > 0:
            rest[entry] -= 1
            left[row, place] = np.nan
    return left


def _recorded(learner: ActiveLearner) -> Counter[tuple[Key, int, float]]:
    """How often each value of each output of each point is recorded."""
    numbers, labels = learner.ledger.labelled()
    values = labels.reshape(len(numbers), -1) if numbers else np.empty((0, 1))
    keys = _keys_of(learner, numbers)
    return Counter(
        (keys[row], place, float(values[row, place])) for row, place in np.argwhere(np.isfinite(values)).tolist()
    )


def _keys_of(learner: ActiveLearner, numbers: Sequence[int]) -> list[Key]:
    return _keys(learner.ledger.candidates(numbers).tolist(), learner.ledger.inputs(numbers))


def _keys(candidates: Sequence[int], inputs: ndarray) -> list[Key]:
    return [(n, x.tobytes()) for n, x in zip(candidates, np.asarray(inputs, dtype=np.float64), strict=True)]


def _marked(values: Any) -> Bool[ndarray, " n"]:  # noqa: ANN401 - truth values, one after the other
    return np.fromiter(values, dtype=bool)
