import numpy as np
import pytest

from lobal.active.campaign.ledger import Ledger

EVENTS = [
    {"event": "asked", "candidates": [4, 7, 9], "inputs": [[0.4], [0.7], [0.9]]},
    {"event": "added", "candidates": [1], "inputs": [[0.1]]},
    {"event": "told", "points": [0, 0], "labels": [1.0, 1.1]},
    {"event": "failed", "points": [1, 3]},
]


def ledger(**options: bool) -> Ledger:
    book = Ledger(1, **options)
    for event in EVENTS:
        book.apply(event)
    return book


def test_points_are_labelled_pending_or_failed() -> None:
    book = ledger()
    assert (book.pending, book.failed) == ([2], [1, 3])
    assert (book.n_drawn, book.size, book.n_labels) == (4, 2, 2)
    assert book.used_candidates == [1, 4, 7, 9]
    np.testing.assert_array_equal(book.inputs(book.answered), [[0.4], [0.7], [0.1]])
    assert book.has_label(book.answered).tolist() == [True, False, False]


@pytest.mark.parametrize(("keeps_repeats", "labels"), [(True, [1.0, 1.1]), (False, [1.1])])
def test_labels_of_one_point_are_all_kept_or_replaced(keeps_repeats: bool, labels: list[float]) -> None:
    book = ledger(keeps_repeats=keeps_repeats)
    numbers, found = book.labelled()
    assert (numbers, found.tolist(), book.n_labels) == ([0] * len(labels), labels, len(labels))


def test_a_failed_point_that_gets_a_label_is_no_failure() -> None:
    book = ledger()
    book.apply({"event": "told", "points": [1], "labels": [2.0]})
    assert (book.failed, book.n_labels) == ([3], 3)
    assert book.has_label(book.answered).tolist() == [True, True, False]
