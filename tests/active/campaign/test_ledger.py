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


def test_outcomes_are_those_of_points_that_are_not_pending() -> None:
    inputs, is_labelled = ledger().outcomes()
    np.testing.assert_array_equal(inputs, [[0.4], [0.7], [0.1]])
    assert is_labelled.tolist() == [True, False, False]


def test_a_failure_made_good_is_none() -> None:
    book = ledger()
    book.apply({"event": "told", "points": [1], "labels": [2.0]})
    assert (book.failed, book.n_labels) == ([3], 3)
    assert book.outcomes()[1].tolist() == [True, True, False]
