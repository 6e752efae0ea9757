import math
import re
from collections.abc import Callable

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from lobal.core.superior_density import (
    attainable_sample_size,
    inducing_target,
    learning_rate,
    local_bandwidth,
    local_complexity,
    relative_sample_size,
    smoothness_of_fall,
    superior_density,
)
from tests.core.setting import tensor, uniform

CASES = [{"smoothness": a, "dimension": d} for a in (0.5, 2.0, 7.0, math.inf) for d in (1.0, 2.0, 4.7)]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_smoothness = pytest.mark.parametrize("smoothness", [0.5, 2.0, 7.0, math.inf])


def positive(generator: torch.Generator, number: int) -> list[Tensor]:
    """Several columns of twenty values."""
    return [0.1 + uniform(generator, 20) for _ in range(number)]


def test_local_bandwidth_is_the_geometric_mean_weighted_by_the_gate(generator: torch.Generator) -> None:
    bandwidths = tensor(0.03, 0.2, 4.0)
    gate = torch.cat([torch.eye(3), torch.full((1, 3), 1.0 / 3.0), uniform(generator, 9, 3).softmax(1)])
    torch.testing.assert_close(local_bandwidth(gate, bandwidths), bandwidths.pow(gate).prod(1))


@every_case
def test_complexity_has_the_exponent_of_the_theorem(case: dict[str, float], generator: torch.Generator) -> None:
    """d / (2 alpha + d), Eq. (eq:isotropicComplexityGPR).

    It is that of Eq. (eq:isotropicComplexityLPS) for Q = alpha - 1, and the printed 1 / (2 alpha + d) for d = 1.
    """
    d, (bandwidth, density) = case["dimension"], positive(generator, 2)
    expected = (1.0 / density) ** (d / (2.0 * case["smoothness"] + d)) / bandwidth**d
    torch.testing.assert_close(local_complexity(bandwidth, density, **case), expected)


@every_case
def test_complexity_does_not_depend_on_where_the_data_lies(case: dict[str, float], generator: torch.Generator) -> None:
    """Bandwidths that follow sigma = c (p n)^(-1/(2 alpha + d)) give c^-d whatever p, and up to a factor whatever n."""
    c, p = positive(generator, 2)
    for n in (10.0, 1000.0):
        law = c * (p * n).pow(-1.0 / (2.0 * case["smoothness"] + case["dimension"]))
        complexity = local_complexity(law, p, **case)
        torch.testing.assert_close(complexity / complexity[0], (c / c[0]).pow(-case["dimension"]))


@every_case
def test_superior_density_has_the_exponents_of_the_paper(case: dict[str, float], generator: torch.Generator) -> None:
    """Q = alpha - 1 turns Eq. (eq:GeneralizedOptimalSampling) into Eq. (eq:optimalSamplingFiniteLPS).

    At alpha = infinity all exponents are one half, Eq. (eq:GeneralizedOptimalSamplingInfAlpha).
    """
    (complexity, q, noise), d = positive(generator, 3), case["dimension"]
    twice = min(2.0 * case["smoothness"], 1e12)
    expected = (complexity * q) ** ((twice + d) / (2.0 * twice + d)) * noise ** (twice / (2.0 * twice + d))
    torch.testing.assert_close(superior_density(complexity, q, noise, **case), expected)


FORMULAS = {local_complexity: 2, superior_density: 3, attainable_sample_size: 4}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("dimension", [1.0, 2.0, 4.7])
def test_a_million_derivatives_equal_infinity(
    formula: Callable[..., object], dimension: float, generator: torch.Generator
) -> None:
    values = positive(generator, FORMULAS[formula])
    nearly, at_infinity = (formula(*values, smoothness=alpha, dimension=dimension) for alpha in (1e6, math.inf))
    torch.testing.assert_close(nearly, at_infinity, rtol=1e-4, atol=0.0)


def test_inducing_target_is_the_geometric_mean_of_density_and_complexity(generator: torch.Generator) -> None:
    density, complexity = positive(generator, 2)
    torch.testing.assert_close(inducing_target(density, density), density)
    torch.testing.assert_close(inducing_target(density, complexity).square(), density * complexity)


def test_learning_rate_is_half_at_infinity_and_less_before() -> None:
    assert learning_rate(smoothness=math.inf, dimension=5.0) == 0.5
    assert learning_rate(smoothness=1e6, dimension=5.0) == pytest.approx(0.5, abs=1e-5)
    assert learning_rate(smoothness=2.0, dimension=1.0) == pytest.approx(0.4)


@every_case
def test_the_smoothness_is_that_by_which_bandwidths_fall(case: dict[str, float], generator: torch.Generator) -> None:
    denser, dimension = 0.5 + uniform(generator, 50), case["dimension"]
    fall = -denser / (2.0 * case["smoothness"] + dimension)
    assert smoothness_of_fall(fall, denser, dimension=dimension) == pytest.approx(case["smoothness"])
    assert smoothness_of_fall(denser, denser, dimension=dimension) == math.inf
    assert smoothness_of_fall(-denser, denser, dimension=dimension) == 0.01
    with pytest.raises(ValueError, match="says nothing about smoothness"):
        smoothness_of_fall(fall, torch.zeros_like(denser), dimension=dimension)


@every_case
def test_relative_sample_size_follows_the_learning_curves(case: dict[str, float]) -> None:
    """With RMSE = C n^-tau for both designs, rho n active labels reach the error of n random ones."""
    tau, n = learning_rate(**case), 1000.0
    active, random = 0.8 * n**-tau, 1.3 * n**-tau
    share = relative_sample_size(active, random, **case)
    assert 0.8 * (share * n) ** -tau == pytest.approx(random)
    assert share < 1.0 == relative_sample_size(random, random, **case)
    assert relative_sample_size(0.0, random, **case) == 0.0


@pytest.mark.parametrize(("rmse", "rmse_random"), [(-0.5, 1.0), (0.5, 0.0), (math.nan, 1.0), (0.5, math.nan)])
def test_errors_below_zero_are_refused_and_shown(rmse: float, rmse_random: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {rmse} and {rmse_random}")):
        relative_sample_size(rmse, rmse_random, smoothness=2.0, dimension=1.0)


@every_case
def test_a_homogeneous_problem_attains_a_relative_sample_size_of_one(
    case: dict[str, float], generator: torch.Generator
) -> None:
    constant, p_X = torch.full((20,), 3.0).double(), positive(generator, 1)[0]
    assert attainable_sample_size(constant, torch.ones_like(p_X), constant, p_X, **case) == pytest.approx(1.0)


@given(
    values=npst.arrays(np.float64, (4, 12), elements=st.floats(1e-4, 1e4)),
    smoothness=st.floats(0.2, 50.0) | st.just(math.inf),
    dimension=st.floats(1.0, 10.0),
)
def test_the_superior_density_never_needs_more_labels_than_random_sampling(
    values: np.ndarray, smoothness: float, dimension: float
) -> None:
    rho = attainable_sample_size(*torch.from_numpy(values), smoothness=smoothness, dimension=dimension)
    assert 0.0 < rho <= 1.0 + 1e-9


@every_case
def test_the_attainable_sample_size_does_not_depend_on_constant_factors(
    case: dict[str, float], generator: torch.Generator
) -> None:
    values = positive(generator, 4)
    scaled = [factor * column for factor, column in zip((1e3, 0.1, 30.0, 7.0), values, strict=True)]
    assert attainable_sample_size(*scaled, **case) == pytest.approx(attainable_sample_size(*values, **case))


@every_case
def test_the_attainable_sample_size_compares_integrated_errors(
    case: dict[str, float], generator: torch.Generator
) -> None:
    """On a uniform pool: MISE(p) = C_n int q LFC (v / p)^s with rate n^-s, at the superior density and at q."""
    complexity, q, noise = positive(generator, 3)
    s = 2.0 * learning_rate(**case)
    q = q / q.mean()
    best = (q * complexity * noise**s).pow(1.0 / (1.0 + s)).mean() ** (1.0 + s)
    random = (q * complexity * (noise / q) ** s).mean()
    rho = attainable_sample_size(complexity, q, noise, torch.ones_like(q), **case)
    assert rho == pytest.approx((best / random).item() ** (1.0 / s))


@pytest.mark.parametrize(("level", "share"), [(100.0, 0.1), (4.0, 0.5), (1e4, 0.01)])
def test_a_complexity_of_two_levels_has_a_closed_form(level: float, share: float) -> None:
    """(1 + share (sqrt(level) - 1))^2 / (1 + share (level - 1)) at alpha = infinity."""
    complexity = torch.where(torch.arange(1000) < share * 1000, level, 1.0).double()
    one = torch.ones_like(complexity)
    rho = attainable_sample_size(complexity, one, one, one, smoothness=math.inf, dimension=2.0)
    assert rho == pytest.approx((1.0 + share * (math.sqrt(level) - 1.0)) ** 2 / (1.0 + share * (level - 1.0)))


@every_smoothness
def test_the_attainable_sample_size_does_not_depend_on_how_the_pool_lies(
    smoothness: float, generator: torch.Generator
) -> None:
    """The same integrals from a uniform pool and from one of density 2x."""
    u = uniform(generator, 400_000)

    def rho(x: Tensor, p_X: Tensor) -> float:
        values = (0.1 + x.square(), torch.ones_like(x), 1.0 + x, p_X)
        return attainable_sample_size(*values, smoothness=smoothness, dimension=1.0)

    assert rho(u.sqrt(), 2.0 * u.sqrt()) == pytest.approx(rho(u, torch.ones_like(u)), abs=0.01)


@every_smoothness
def test_where_nothing_is_predicted_costs_nothing(smoothness: float) -> None:
    complexity, one = tensor(1.0, 9.0, 50.0, 0.0), tensor(1.0, 1.0, 1.0, 1.0)
    rho = attainable_sample_size(complexity, tensor(1.0, 1.0, 0.0, 0.0), one, one, smoothness=smoothness, dimension=1.0)
    without = attainable_sample_size(complexity[:2], one[:2], one[:2], one[:2], smoothness=smoothness, dimension=1.0)
    assert rho == pytest.approx(without)


CALLS: list[Callable[..., object]] = [
    lambda **case: local_complexity(tensor(1.0), tensor(1.0), **case),
    lambda **case: superior_density(tensor(1.0), tensor(1.0), tensor(1.0), **case),
    lambda **case: attainable_sample_size(*[tensor(1.0)] * 4, **case),
    lambda **case: relative_sample_size(1.0, 2.0, **case),
    learning_rate,
]


@pytest.mark.parametrize("formula", CALLS)
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, -math.inf, math.inf])
def test_an_impossible_smoothness_or_dimension_is_refused_and_shown(formula: Callable[..., object], bad: float) -> None:
    with pytest.raises(ValueError, match=f"dimension must be positive and finite, got {bad}"):
        formula(smoothness=2.0, dimension=bad)
    if bad < math.inf or math.isnan(bad):
        with pytest.raises(ValueError, match=rf"smoothness alpha must exceed zero \(math.inf is allowed\), got {bad}"):
            formula(smoothness=bad, dimension=1.0)
