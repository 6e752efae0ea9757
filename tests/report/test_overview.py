import numpy as np
import pytest

from lobal import ActiveLearner, Pool
from lobal.report.error_curve import Round
from lobal.report.overview import error_name, error_now, error_trend, stopping_advice, with_standard_error
from tests.report.setting import MODEL, campaign

FALLING = tuple(Round(labels=n, error=40.0 / n, standard_error=0.01) for n in (20, 40, 80, 160))
FLAT = tuple(Round(labels=n, error=0.5, standard_error=0.01) for n in (200, 800, 3200, 12800))


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (15.23, 1.98, "15.2 ± 2.0"),
        (0.1151, 0.0087, "0.1151 ± 0.0087"),
        (1234.0, 150.0, "1.23e+03 ± 1.5e+02"),
        (2.0, None, "2"),
    ],
)
def test_a_value_has_the_digits_that_its_error_allows(value: float, error: float | None, words: str) -> None:
    assert with_standard_error(value, error) == words


def test_the_error_is_said_to_be_what_it_is() -> None:
    learner = campaign(1)
    assert error_name(learner) == "leave-one-out error"
    X = np.linspace(0.0, 1.0, 40)[:, None]
    validated = ActiveLearner(Pool(X), model=MODEL, validation=(X[:5], np.zeros(5)))
    assert error_name(validated) == "error of the validation labels"


def test_the_trend_compares_with_the_round_before_and_the_first() -> None:
    assert error_trend(FALLING) == (
        "down 50% since the round before (0.5 at 80 labels); down 88% since the first model (2 at 20)"
    )
    assert error_trend(FLAT[:2]) == "no clear change (+0%) since the round before (0.5 at 200 labels)"
    assert "no trend yet" in error_trend(FLAT[:1])


@pytest.mark.parametrize(
    ("rounds", "noise", "words"),
    [
        ((), None, "there is no model yet"),
        (FALLING[:2], 0.0, "at least 3 rounds"),
        (FALLING, 0.0, "Go on: twice the labels may lower the error by up to"),
        (FLAT, 0.0, "less than 5%"),
        (FALLING, 0.06, "noise of single labels"),
    ],
)
def test_advice_follows_from_errors_and_noise(rounds: tuple[Round, ...], noise: float | None, words: str) -> None:
    assert words in stopping_advice(rounds, noise)


def test_an_unknown_error_is_said_to_be() -> None:
    assert error_now((), "leave-one-out error", "y") == "not known yet: a model needs ten labels"
