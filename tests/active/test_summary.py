import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest

from lobal import ActiveLearner, Box, MixtureRegressor
from lobal.active.expected_savings import ExpectedSavings
from lobal.active.learning_curve import Trend, trend
from lobal.active.summary import VALIDATION, Summary, with_standard_error
from tests.faults.setting import begun

KNOWN = Summary(
    labels=200,
    pending=5,
    pending_since=datetime(2024, 5, 17, 9, 30, tzinfo=UTC),
    failed=3,
    error=0.1234,
    error_standard_error=0.011,
    trend=Trend(-0.61, 0.12),
    noise=0.05,
    savings=ExpectedSavings(0.2, 0.05),
    is_flat=False,
    has_no_advantage=False,
)


def test_all_is_said_in_words() -> None:
    assert KNOWN.sentences(target="hardness", unit="HV") == [
        "200 labels, 5 pending since 2024-05-17 09:30 UTC, 3 failed.",
        "Predictions of hardness are off by 0.123 ± 0.011 HV (root mean square, leave-one-out).",
        "The error is falling: 0.0892 ± 0.0094 HV is expected with 400 labels (as n^-0.6 ± 0.1 with n labels).",
        "The noise of hardness has a standard deviation of 0.05 HV.",
        "Following the local complexity is expected to save 20% ± 15% of the labels.",
        "Nothing speaks for stopping yet.",
    ]


def test_what_is_not_known_yet_is_said_to_be_so() -> None:
    unknown = dict.fromkeys(("trend", "noise", "savings", "error_standard_error"))
    sentences = dataclasses.replace(KNOWN, **unknown).sentences()
    assert sentences[1] == "Predictions of the label are off by 0.123 (root mean square, leave-one-out)."
    assert sum("not known yet" in sentence for sentence in sentences) == 3
    learner = begun()
    learner.tell([0], [1.0])
    assert learner.summary().sentences("y") == [
        "1 label, 0 pending, 0 failed.",
        "The error of predictions of y is not known yet; 9 more labels are needed.",
        "Stopping advice: not known yet.",
    ]


def test_both_rules_give_advice() -> None:
    advice = dataclasses.replace(KNOWN, is_flat=True, has_no_advantage=True).advice()
    assert advice[0] == "Twice as many labels are expected to lower the error by less than 5%: consider stopping."
    assert advice[1].startswith("Following the local complexity saves less than 10% of the labels")


@pytest.mark.parametrize(
    ("found", "words"), [(Trend(0.02, 0.1), "has not changed measurably"), (Trend(0.5, 0.1), "growing as n^0.5")]
)
def test_an_error_that_does_not_fall_is_said_to_be_so(found: Trend, words: str) -> None:
    assert words in dataclasses.replace(KNOWN, trend=found).sentences()[2]


def test_an_error_does_not_fall_below_the_noise() -> None:
    steep = dataclasses.replace(KNOWN, trend=Trend(-2.6, 0.2), noise=0.1)
    assert "The error is falling: 0.1007 ± 0.0090 is expected with 400 labels" in steep.sentences()[2]
    exact = dataclasses.replace(KNOWN, trend=Trend(-1.0, 0.1), noise=0.0)
    assert "The error is falling: 0.0617 ± 0.0070 is expected" in exact.sentences()[2]


def test_the_trend_is_the_power_of_a_power_law() -> None:
    curve = [(n, 3.0 * n**-0.6) for n in (100, 200, 400, 800)]
    found = trend(curve)
    assert found is not None
    assert found.slope == pytest.approx(-0.6)
    assert 0.0 < found.standard_error < 0.1
    assert trend(curve[:2]) is None


def test_a_campaign_is_summarised() -> None:
    box = Box(0.0, 1.0, n_candidates=256)
    learner = ActiveLearner(box, seed=0, model=MixtureRegressor(n_inducing=16, n_gate_inducing=8))
    rng = np.random.default_rng(0)
    learner.run(lambda X: np.sin(9.0 * X[:, 0]) + 0.1 * rng.normal(size=len(X)), sizes=[16, 32, 64])
    pending = learner.ask(4)
    learner.tell(pending[:1], [np.nan])
    summary = learner.summary()
    assert (summary.labels, summary.pending, summary.failed) == (64, 3, 1)
    assert summary.pending_since == learner.pending_since()[0]
    assert summary.error == learner.fitted.validation_error  # type: ignore[union-attr]  # there are labels enough
    assert summary.noise == pytest.approx(0.1, rel=0.5)
    assert 0.0 < summary.error_standard_error < 0.5 * summary.error  # type: ignore[operator]  # both are known
    assert summary.trend is not None
    assert summary.savings == learner.expected_savings()


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (15.23, 1.98, "15.2 ± 2.0"),
        (0.1151, 0.0087, "0.1151 ± 0.0087"),
        (1234.0, 151.0, "1230 ± 150"),
        (3.4e8, 1.2e7, "3.4e+08 ± 1.2e+07"),
        (2.0, None, "2"),
    ],
)
def test_a_value_has_the_digits_that_its_error_allows(value: float, error: float | None, words: str) -> None:
    assert with_standard_error(value, error) == words


def test_errors_of_validation_labels_are_said_to_be_so() -> None:
    X = np.linspace(0.0, 1.0, 40)[:, None]
    validated = ActiveLearner(Box(0.0, 1.0), model=MixtureRegressor(), validation=(X[:5], np.zeros(5)))
    assert validated.summary().method == VALIDATION


def test_every_output_has_its_error_with_its_unit() -> None:
    errors = {"strength": (1.5, 0.1), "cost": (20.0, None)}
    sentences = dataclasses.replace(KNOWN, outputs=errors, units={"strength": "MPa"}).sentences()
    assert sentences[1:3] == [
        "Predictions of strength are off by 1.50 ± 0.10 MPa (root mean square, leave-one-out).",
        "Predictions of cost are off by 20 (root mean square, leave-one-out).",
    ]
    assert sentences[3].startswith(
        "The error is falling: 34% less, of all outputs together, is expected with 400 labels"
    )
