"""The rule of preference: its threshold, its ties and its order."""

import math

import pytest
import torch

from lobal.core.comparison import best_of, is_better, standard_error

REFERENCE = torch.tensor([1.0, 2.0, 3.0, 4.0]).double()
NOISE = torch.tensor([1.0, -1.0, 1.0, -1.0]).double()  # mean 0, standard deviation sqrt(4/3)
ERROR = math.sqrt(4.0 / 3.0) / 2.0  # standard error of the mean of NOISE


def test_the_standard_error_is_the_deviation_by_the_root_of_the_number() -> None:
    assert standard_error(NOISE) == pytest.approx(ERROR)
    assert standard_error(NOISE[:1]) == math.inf


@pytest.mark.parametrize("standard_errors", [0.5, 1.0, 4.0])
def test_a_gain_counts_from_the_given_number_of_standard_errors_on(standard_errors: float) -> None:
    for factor, expected in ((0.99, False), (1.01, True)):
        loss = REFERENCE - NOISE - factor * standard_errors * ERROR
        assert is_better(loss, REFERENCE, standard_errors=standard_errors) is expected


def test_a_gain_below_the_least_worth_having_does_not_count() -> None:
    assert is_better(REFERENCE - 0.1, REFERENCE)
    assert not is_better(REFERENCE - 0.1, REFERENCE, least=0.2)


def test_nothing_is_better_than_itself_or_on_the_evidence_of_one_point() -> None:
    assert not is_better(REFERENCE, REFERENCE)
    assert not is_better(REFERENCE[:1] - 1.0, REFERENCE[:1])


def test_the_first_stays_unless_a_later_one_is_better_beyond_chance() -> None:
    hardly, clearly, more = REFERENCE - NOISE - 0.1, REFERENCE - NOISE - 2.0, REFERENCE - NOISE - 3.0
    assert best_of([REFERENCE, hardly]) == 0
    assert best_of([REFERENCE, hardly, clearly, more]) == 3
    assert best_of([REFERENCE, more, clearly]) == 1
    assert best_of([REFERENCE, clearly], standard_errors=10.0) == 0


def test_rounding_errors_are_no_gain() -> None:
    losses = torch.linspace(1.0, 2.0, 50, dtype=torch.float64)
    assert not is_better(losses * (1.0 - 1e-15), losses)
    assert is_better(losses * (1.0 - 1e-9), losses)
