import math
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from lobal import ActiveLearner
from lobal.active.expected_savings import ExpectedSavings
from lobal.active.learning_curve import most_gained_by_doubling
from lobal.active.stopping import flattened, no_advantage, target_error
from tests.learner_setting import bumpy, learner

HALF_POWER = 1.0 - 2.0**-0.5  # what twice the labels gain where errors fall with n^-0.5


def stand_in(errors: dict[int, float | None], expected: ExpectedSavings | None = None) -> Any:
    """A learner with these validation errors, by number of labels, the last those of its model."""
    *before, (n, last) = errors.items()
    return Mock(
        spec=ActiveLearner,
        history=[SimpleNamespace(labels=size, validation_error=error) for size, error in before],
        labelled=SimpleNamespace(y=np.zeros(n)),
        fitted=None if last is None else SimpleNamespace(validation_error=last),
        expected_savings=lambda: expected,
    )


def power_law(n: list[int], exponent: float) -> list[tuple[int, float]]:
    return [(each, float(each) ** exponent) for each in n]


def test_stopping_rules_end_the_run() -> None:
    for rule in (target_error(100.0), no_advantage(1.0), lambda _: True):
        active = learner()
        active.run(bumpy, sizes=[30, 60, 120], stop=[rule])
        assert len(active.labelled.y) == 30
    active = learner()
    active.run(bumpy, sizes=[30, 60], stop=[target_error(0.0), no_advantage(0.0), flattened(0.0)])
    assert len(active.labelled.y) == 60


def test_a_learning_curve_is_extrapolated_from_three_sizes_on() -> None:
    active = learner()
    active.run(bumpy, sizes=[20, 40, 60, 80], stop=[flattened(1.0)])
    assert len(active.labelled.y) == 60


def test_an_exact_power_law_gains_what_it_says_and_an_error_that_shrinks_with_n() -> None:
    gains = [most_gained_by_doubling(power_law([n, 2 * n, 4 * n], -0.5)) for n in (10, 1000, 100_000)]
    assert gains == sorted(gains, reverse=True)
    errors = [math.log2(1.0 - HALF_POWER) - math.log2(1.0 - gain) for gain in gains]
    assert errors[0] / errors[1] == pytest.approx(10.0)
    assert errors[1] / errors[2] == pytest.approx(10.0)
    assert gains[-1] == pytest.approx(HALF_POWER, abs=1e-3)


def test_the_error_of_a_curve_is_that_of_root_mean_squares(rng: np.random.Generator) -> None:
    """A standard error covers the true gain from one side in 84% of all curves, more by the scatter about a line."""
    n = [50, 100, 200, 400]
    errors = np.sqrt(rng.chisquare(n, size=(1000, 4))) / n  # root mean squares of normal errors with variance 1 / n
    covered = np.mean([most_gained_by_doubling([*zip(n, row, strict=True)]) > HALF_POWER for row in errors.tolist()])
    assert 0.82 < covered < 0.95


def test_scatter_about_the_line_counts_against_stopping() -> None:
    smooth, rough = power_law([1000, 2000, 4000, 8000], 0.0), [(1000, 1.0), (2000, 1.2), (4000, 0.8), (8000, 1.0)]
    assert most_gained_by_doubling(rough) > most_gained_by_doubling(smooth) + 0.05


@pytest.mark.parametrize(("n", "ends"), [([30, 60, 120], False), ([60, 120, 240], True), ([30, 60, 120, 240], True)])
def test_constant_errors_end_a_run_once_they_are_known_well_enough(n: list[int], ends: bool) -> None:
    assert flattened(0.05)(stand_in(dict.fromkeys(n, 0.7))) == ends


def test_errors_that_fall_or_rise_are_told_apart() -> None:
    n = [1000, 2000, 4000]
    assert not flattened()(stand_in(dict(power_law(n, -0.5))))
    assert flattened()(stand_in(dict(power_law(n, 0.1))))


def test_fewer_than_three_sizes_go_on() -> None:
    assert not flattened()(stand_in({10_000: 1.0, 20_000: 1.0}))
    assert not flattened()(stand_in({0: None, 9: None, 10_000: 1.0, 20_000: 1.0}))
    assert not flattened()(stand_in({9: None}))


def test_pending_points_are_no_labels() -> None:
    active = learner()
    active.run(bumpy, sizes=[60])
    for _ in range(3):
        active.ask(60)
    assert [step.labels for step in active.history] == [None, 60, 60, 60]
    assert not flattened(1.0)(active)


def test_only_the_last_sizes_count() -> None:
    assert flattened()(stand_in({10: 50.0, **dict.fromkeys([1000, 2000, 4000, 8000], 1.0)}))


@pytest.mark.parametrize(
    ("expected", "ends"),
    [
        (None, False),
        (ExpectedSavings(0.04, 0.0), True),
        (ExpectedSavings(0.06, 0.0), False),
        ((0.0, 0.06), False),
        ((0.0, None), False),
    ],
)
def test_local_complexity_has_no_advantage_where_it_saves_less(expected: Any, ends: bool) -> None:
    savings = None if expected is None else ExpectedSavings(*expected)
    assert no_advantage(0.05)(stand_in({30: 1.0}, savings)) == ends


@pytest.mark.parametrize("rule", [flattened, no_advantage])
@pytest.mark.parametrize("share", [5.0, -0.1, math.nan])
def test_percentages_are_refused(rule: Any, share: float) -> None:
    with pytest.raises(ValueError, match="percent"):
        rule(share)
