import numpy as np

from lobal.active.campaign.ledger import Ledger

EVENTS = [
    {"event": "asked", "candidates": [4, 7, 9], "inputs": [[0.4], [0.7], [0.9]]},
    {"event": "added", "candidates": [1], "inputs": [[0.1]]},
    {"event": "told", "points": [0, 0], "labels": [1.0, 1.1]},
    {"event": "failed", "points": [1, 3]},
]


def ledger() -> Ledger:
    book = Ledger(1)
    for event in EVENTS:
        book.apply(event)
    return book


def test_points_are_labelled_pending_or_failed() -> None:
    book = ledger()
    assert (book.pending, book.failed) == ([2], [1, 3])
    assert (book.n_drawn, book.size, book.n_labels) == (4, 2, 2)
    assert book.used_candidates == [1, 4, 7, 9]


def test_answered_points_are_those_that_are_not_pending() -> None:
    book = ledger()
    np.testing.assert_array_equal(book.inputs(book.answered), [[0.4], [0.7], [0.1]])
    assert book.has_label(book.answered).tolist() == [True, False, False]


def test_labels_of_one_point_are_all_kept_or_replaced() -> None:
    all_kept, replaced = ledger(), Ledger(1, keeps_repeats=False)
    for event in EVENTS:
        replaced.apply(event)
    assert (all_kept.labelled()[0], all_kept.labelled()[1].tolist()) == ([0, 0], [1.0, 1.1])
    assert (replaced.labelled()[0], replaced.labelled()[1].tolist(), replaced.n_labels) == ([0], [1.1], 1)


def test_a_failure_made_good_is_none() -> None:
    book = ledger()
    book.apply({"event": "told", "points": [1], "labels": [2.0]})
    assert (book.failed, book.n_labels) == ([3], 3)
    assert book.has_label(book.answered).tolist() == [True, True, False]
