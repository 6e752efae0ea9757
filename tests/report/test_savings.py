import math
from typing import Any

import numpy as np
import pytest

from lobal.active.expected_savings import ExpectedSavings
from lobal.core.superior_density import relative_sample_size
from lobal.report.savings import expectation, pooled_errors, relative_sample_sizes, verdict

INFINITE: dict[str, Any] = {"smoothness": math.inf, "dimension": 1.0}
LITTLE = "little or nothing to gain from local complexity: points spread evenly do as well"


@pytest.fixture
def arms(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A thousand seeds at two sizes, the active arm with 0.8 of the random one's error."""
    noise = rng.uniform(0.9, 1.1, size=(1000, 2))
    sizes = np.array([1.0, 0.7])
    return 0.8 * sizes * noise, sizes * rng.permutation(noise)


def test_one_seed_is_the_papers_formula_without_a_standard_error() -> None:
    savings = relative_sample_sizes([[0.3, 0.2]], [[0.5, 0.4]], smoothness=2.0, dimension=3.0)
    expected = [relative_sample_size(a, r, smoothness=2.0, dimension=3.0) for a, r in [(0.3, 0.5), (0.2, 0.4)]]
    np.testing.assert_allclose(savings.rho, expected)
    assert savings.standard_error is None
    assert savings.overall.standard_error is None


def test_errors_are_pooled_as_squares() -> None:
    savings = relative_sample_sizes([[3.0], [4.0]], [[5.0], [5.0]], **INFINITE)
    assert savings.rho == pytest.approx([0.5])  # (9 + 16) / (25 + 25)


def test_the_overall_ratio_is_the_geometric_mean() -> None:
    savings = relative_sample_sizes(np.sqrt([[1.0, 4.0]]), np.ones((1, 2)), **INFINITE)
    assert savings.overall.value == pytest.approx(2.0)


def test_equal_arms_need_equally_many_labels_without_doubt(rng: np.random.Generator) -> None:
    errors = rng.uniform(0.5, 1.0, size=(4, 3))
    savings = relative_sample_sizes(errors, errors, **INFINITE)
    np.testing.assert_allclose(savings.rho, 1.0)
    assert savings.overall == pytest.approx((1.0, 0.0))


def test_the_jackknife_agrees_with_the_spread_of_repeated_experiments(arms: tuple[np.ndarray, np.ndarray]) -> None:
    groups = [
        relative_sample_sizes(active, random, **INFINITE)
        for active, random in zip(*(np.split(arm, 100) for arm in arms), strict=True)
    ]
    spread = np.std([group.overall.value for group in groups])
    assert np.mean([group.overall.standard_error for group in groups]) == pytest.approx(spread, rel=0.15)


def test_arms_of_different_lengths_have_about_the_same_standard_error(arms: tuple[np.ndarray, np.ndarray]) -> None:
    paired = relative_sample_sizes(*arms, **INFINITE)
    unpaired = relative_sample_sizes(arms[0], arms[1][:-1], **INFINITE)
    assert unpaired.overall.standard_error == pytest.approx(paired.overall.standard_error, rel=0.1)
    np.testing.assert_allclose(unpaired.standard_error, paired.standard_error, rtol=0.1)


def test_pairing_takes_out_what_both_arms_share(rng: np.random.Generator) -> None:
    shared = rng.uniform(0.5, 1.0, size=(10, 1))
    paired = relative_sample_sizes(0.8 * shared, shared, **INFINITE)
    assert paired.overall.standard_error == pytest.approx(0.0, abs=1e-12)
    unpaired = relative_sample_sizes(0.8 * shared, shared[:-1], **INFINITE)
    assert unpaired.overall.standard_error is not None
    assert unpaired.overall.standard_error > 0.05


def test_the_standard_error_of_pooled_errors_is_that_of_their_mean_square(rng: np.random.Generator) -> None:
    rmse = rng.uniform(0.9, 1.1, size=(500, 1))
    pooled, error = pooled_errors(rmse)
    assert pooled == pytest.approx(np.sqrt(np.square(rmse).mean()))
    expected = np.square(rmse).std(ddof=1) / math.sqrt(500) / (2.0 * pooled)
    np.testing.assert_allclose(error, expected, rtol=1e-2)


@pytest.mark.parametrize(
    ("active", "random", "message"),
    [
        ([[1.0, 2.0]], [[1.0]], r"\(1, 2\) and \(1, 1\)"),
        ([1.0, 2.0], [[1.0, 2.0]], r"rmse_active .* \(2,\)"),
        ([[1.0]], [["many"]], "rmse_random .* numbers"),
        ([[1.0, 0.0]], [[1.0, 1.0]], "0.0 at seed 0 and size 1"),
        ([[1.0]], [[math.nan]], "nan at seed 0"),
        (np.empty((0, 2)), [[1.0, 1.0]], r"\(0, 2\)"),
    ],
)
def test_impossible_errors_are_refused(active: Any, random: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        relative_sample_sizes(active, random, **INFINITE)


@pytest.mark.parametrize(
    ("rho", "standard_error", "sentence"),
    [
        (0.58, 0.04, "active learning saved 42% ± 4% of the labels"),
        (0.965, 0.009, "active learning saved 3.5% ± 0.9% of the labels"),
        (1.02, 0.05, "no gain here (rho = 1.02 ± 0.05)"),
        (0.95, 0.05, "no clear gain here (rho = 0.95 ± 0.05)"),
        (1.10, 0.03, "active learning cost 10% ± 3% more labels"),
    ],
)
def test_the_verdict_tells_a_gain_from_chance(rho: float, standard_error: float, sentence: str) -> None:
    assert verdict(rho, standard_error, repetitions=16) == sentence


@pytest.mark.parametrize(("repetitions", "is_clear"), [(2, False), (8, False), (9, True), (1000, True)])
def test_few_repetitions_have_to_differ_by_more(repetitions: int, is_clear: bool) -> None:
    assert ("saved" in verdict(0.93, 0.03, repetitions=repetitions)) == is_clear


def test_what_looks_clear_on_two_repetitions_is_said_to_need_more() -> None:
    assert verdict(0.47, 0.08, repetitions=2) == (
        "rho = 0.47 ± 0.08, from 2 repetitions: repeat it with other seeds to tell it from chance"
    )


def test_one_repetition_has_no_verdict() -> None:
    savings = relative_sample_sizes([[0.3]], [[0.5]], **INFINITE)
    assert "single repetition" in savings.verdict()


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        (None, "not known yet: the labels are too few, or too noisy, to tell savings from chance"),
        ((0.45, 0.0), "45% ± 25% of the labels saved by following the local complexity"),
        ((0.45, 0.2), "45% ± 32% of the labels saved by following the local complexity"),
        ((0.12, 0.0), "12% ± 12% of the labels saved by following the local complexity"),
        ((0.0, 0.0), LITTLE),
        ((0.09, 0.0), LITTLE),
        ((0.2, 0.2), LITTLE),
        (
            (0.45, None),
            "up to 45% of the labels saved against random ones (how sure this is, is not known)",
        ),
        ((0.09, None), "little or nothing to gain (how sure this is, is not known)"),
    ],
)
def test_the_expectation_tells_savings_from_nothing_and_both_from_what_is_not_known(
    expected: tuple[float, float | None] | None, sentence: str
) -> None:
    assert expectation(None if expected is None else ExpectedSavings(*expected)) == sentence
