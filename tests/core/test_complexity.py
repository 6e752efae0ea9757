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

from lobal.core.complexity import (
    attainable_sample_size,
    inducing_target,
    learning_rate,
    local_bandwidth,
    local_complexity,
    relative_sample_size,
    smoothness_of_fall,
    superior_density,
)

SMOOTHNESS = [0.5, 2.0, 7.0, math.inf]
DIMENSIONS = [1.0, 2.0, 4.7]
every_smoothness = pytest.mark.parametrize("smoothness", SMOOTHNESS)
every_dimension = pytest.mark.parametrize("dimension", DIMENSIONS)


def positive(generator: torch.Generator, n: int = 20) -> Tensor:
    return 0.1 + torch.rand(n, dtype=torch.float64, generator=generator)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("expert", [0, 1, 2])
def test_a_constant_gate_recovers_its_bandwidth(expert: int) -> None:
    gate = torch.zeros(5, 3, dtype=torch.float64)
    gate[:, expert] = 1.0
    bandwidths = tensor(0.03, 0.2, 4.0)
    torch.testing.assert_close(local_bandwidth(gate, bandwidths), bandwidths[expert].expand(5), rtol=1e-15, atol=0.0)


def test_an_even_gate_gives_the_geometric_mean() -> None:
    gate = torch.full((2, 4), 0.25, dtype=torch.float64)
    expected = tensor(1.0, 2.0, 4.0, 8.0).prod().pow(0.25).expand(2)
    torch.testing.assert_close(local_bandwidth(gate, tensor(1.0, 2.0, 4.0, 8.0)), expected)


def test_local_bandwidth_lies_between_the_extremes_and_scales_with_them(generator: torch.Generator) -> None:
    gate = torch.rand(20, 3, dtype=torch.float64, generator=generator).softmax(1)
    bandwidth = local_bandwidth(gate, tensor(0.1, 0.5, 3.0))
    assert ((bandwidth > 0.1) & (bandwidth < 3.0)).all()
    torch.testing.assert_close(local_bandwidth(gate, 7.0 * tensor(0.1, 0.5, 3.0)), 7.0 * bandwidth)


@every_dimension
def test_complexity_at_a_million_derivatives_equals_that_at_infinity(
    dimension: float, generator: torch.Generator
) -> None:
    bandwidth, density = positive(generator), positive(generator)
    nearly = local_complexity(bandwidth, density, smoothness=1e6, dimension=dimension)
    at_infinity = local_complexity(bandwidth, density, smoothness=math.inf, dimension=dimension)
    torch.testing.assert_close(nearly, at_infinity, rtol=1e-4, atol=0.0)
    torch.testing.assert_close(at_infinity, bandwidth.pow(-dimension))


@every_dimension
def test_superior_density_at_a_million_derivatives_equals_that_at_infinity(
    dimension: float, generator: torch.Generator
) -> None:
    values = [positive(generator) for _ in range(3)]
    nearly = superior_density(*values, smoothness=1e6, dimension=dimension)
    at_infinity = superior_density(*values, smoothness=math.inf, dimension=dimension)
    torch.testing.assert_close(nearly, at_infinity, rtol=1e-4, atol=0.0)


@every_dimension
@pytest.mark.parametrize("smoothness", [0.5, 2.0, 7.0])
def test_complexity_has_the_exponent_of_the_theorem(smoothness: float, dimension: float) -> None:
    """d / (2 alpha + d), Eq. (eq:isotropicComplexityGPR)."""
    one, two = local_complexity(tensor(1.0, 1.0), tensor(1.0, 2.0), smoothness=smoothness, dimension=dimension)
    assert math.log2(one / two) == pytest.approx(dimension / (2.0 * smoothness + dimension))


@pytest.mark.parametrize("smoothness", [0.5, 2.0, 7.0])
def test_in_one_dimension_the_theorem_agrees_with_the_printed_exponent(
    smoothness: float, generator: torch.Generator
) -> None:
    """1 / (2 alpha + d), as Eq. (eq:approxLFC) prints it."""
    bandwidth, density = positive(generator), positive(generator)
    printed = (1.0 / density).pow(1.0 / (2.0 * smoothness + 1.0)) / bandwidth
    torch.testing.assert_close(local_complexity(bandwidth, density, smoothness=smoothness, dimension=1.0), printed)


@every_dimension
@pytest.mark.parametrize("smoothness", [0.5, 2.0, 7.0])
def test_complexity_does_not_depend_on_where_the_data_lies(
    smoothness: float, dimension: float, generator: torch.Generator
) -> None:
    """Bandwidths that follow sigma = c (p n)^(-1/(2 alpha + d)) give c^-d whatever p, and up to a factor whatever n."""
    c, p = positive(generator), positive(generator)
    for n in (10.0, 1000.0):
        law = c * (p * n).pow(-1.0 / (2.0 * smoothness + dimension))
        complexity = local_complexity(law, p, smoothness=smoothness, dimension=dimension)
        torch.testing.assert_close(complexity / complexity[0], (c / c[0]).pow(-dimension))


@every_smoothness
def test_the_dimension_is_the_power_of_the_bandwidth(smoothness: float, generator: torch.Generator) -> None:
    bandwidth, density = positive(generator), positive(generator)
    one = local_complexity(bandwidth, density, smoothness=smoothness, dimension=3.0)
    half = local_complexity(0.5 * bandwidth, density, smoothness=smoothness, dimension=3.0)
    torch.testing.assert_close(half, 8.0 * one)


@every_smoothness
@every_dimension
def test_superior_density_of_a_homogeneous_problem_is_constant(smoothness: float, dimension: float) -> None:
    complexity, test_density, noise = (torch.full((6,), value, dtype=torch.float64) for value in (3.0, 0.5, 2.0))
    density = superior_density(complexity, test_density, noise, smoothness=smoothness, dimension=dimension)
    torch.testing.assert_close(density, density[0].expand(6), rtol=0.0, atol=0.0)


def test_superior_density_at_infinity_is_the_square_root(generator: torch.Generator) -> None:
    """Eq. (eq:GeneralizedOptimalSamplingInfAlpha)."""
    complexity, test_density, noise = (positive(generator) for _ in range(3))
    density = superior_density(complexity, test_density, noise, smoothness=math.inf, dimension=3.0)
    torch.testing.assert_close(density.square(), complexity * test_density * noise)


@pytest.mark.parametrize("order", [1, 3])
@every_dimension
def test_superior_density_agrees_with_local_polynomials(
    order: int, dimension: float, generator: torch.Generator
) -> None:
    """Q = alpha - 1 turns Eq. (eq:GeneralizedOptimalSampling) into Eq. (eq:optimalSamplingFiniteLPS)."""
    complexity, test_density, noise = (positive(generator) for _ in range(3))
    twice = 2.0 * (order + 1)
    optimal = (complexity * test_density) ** ((twice + dimension) / (2.0 * twice + dimension))
    optimal = optimal * noise ** (twice / (2.0 * twice + dimension))
    ours = superior_density(complexity, test_density, noise, smoothness=order + 1.0, dimension=dimension)
    torch.testing.assert_close(ours, optimal)


@pytest.mark.parametrize("order", [1, 3])
@every_dimension
def test_complexity_agrees_with_local_polynomials(order: int, dimension: float, generator: torch.Generator) -> None:
    """Q = alpha - 1 turns Eq. (eq:isotropicComplexityGPR) into Eq. (eq:isotropicComplexityLPS) at v = 1, n = 1."""
    bandwidth, density = positive(generator), positive(generator)
    polynomial = (1.0 / density) ** (dimension / (2.0 * (order + 1) + dimension)) / bandwidth**dimension
    ours = local_complexity(bandwidth, density, smoothness=order + 1.0, dimension=dimension)
    torch.testing.assert_close(ours, polynomial)


@every_smoothness
@every_dimension
@pytest.mark.parametrize("raised", [0, 1, 2])
def test_superior_density_grows_with_complexity_test_density_and_noise(
    raised: int, smoothness: float, dimension: float
) -> None:
    values = [tensor(1.0), tensor(1.0), tensor(1.0)]
    before = superior_density(*values, smoothness=smoothness, dimension=dimension)
    values[raised] = tensor(2.0)
    assert superior_density(*values, smoothness=smoothness, dimension=dimension) > before


def test_inducing_target_is_the_geometric_mean_of_density_and_complexity(generator: torch.Generator) -> None:
    density, complexity = positive(generator), positive(generator)
    torch.testing.assert_close(inducing_target(density, density), density)
    torch.testing.assert_close(inducing_target(density, complexity).square(), density * complexity)


def test_learning_rate_is_half_at_infinity_and_less_before() -> None:
    assert learning_rate(smoothness=math.inf, dimension=5.0) == 0.5
    assert learning_rate(smoothness=1e6, dimension=5.0) == pytest.approx(0.5, abs=1e-5)
    assert learning_rate(smoothness=2.0, dimension=1.0) == pytest.approx(0.4)


@every_dimension
@pytest.mark.parametrize("smoothness", [0.5, 2.0, 7.0])
def test_the_smoothness_is_that_by_which_bandwidths_fall(
    smoothness: float, dimension: float, generator: torch.Generator
) -> None:
    denser = 0.5 + torch.rand(50, dtype=torch.float64, generator=generator)
    fall = -denser / (2.0 * smoothness + dimension)
    assert smoothness_of_fall(fall, denser, dimension=dimension) == pytest.approx(smoothness)
    assert smoothness_of_fall(torch.zeros_like(fall), denser, dimension=dimension) == math.inf
    assert smoothness_of_fall(denser, denser, dimension=dimension) == math.inf
    assert smoothness_of_fall(-denser, denser, dimension=dimension) == 0.01
    with pytest.raises(ValueError, match="says nothing about smoothness"):
        smoothness_of_fall(fall, torch.zeros_like(denser), dimension=dimension)


@every_smoothness
@every_dimension
def test_relative_sample_size_is_one_at_equal_errors(smoothness: float, dimension: float) -> None:
    assert relative_sample_size(0.3, 0.3, smoothness=smoothness, dimension=dimension) == 1.0


@every_smoothness
@every_dimension
def test_relative_sample_size_follows_the_learning_curves(smoothness: float, dimension: float) -> None:
    """With RMSE = C n^-tau for both designs, rho n active labels reach the error of n random ones."""
    tau, n = learning_rate(smoothness=smoothness, dimension=dimension), 1000.0
    active, random = 0.8 * n**-tau, 1.3 * n**-tau
    share = relative_sample_size(active, random, smoothness=smoothness, dimension=dimension)
    assert 0.8 * (share * n) ** -tau == pytest.approx(random)
    assert share < 1.0


@pytest.mark.parametrize(("rmse", "rmse_random"), [(-0.5, 1.0), (0.5, 0.0), (math.nan, 1.0), (0.5, math.nan)])
def test_errors_below_zero_are_refused_and_shown(rmse: float, rmse_random: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {rmse} and {rmse_random}")):
        relative_sample_size(rmse, rmse_random, smoothness=2.0, dimension=1.0)


@every_smoothness
@every_dimension
def test_a_homogeneous_problem_attains_a_relative_sample_size_of_one(
    smoothness: float, dimension: float, generator: torch.Generator
) -> None:
    constant, p_X = torch.full((20,), 3.0, dtype=torch.float64), positive(generator)
    rho = attainable_sample_size(
        constant, torch.ones_like(p_X), constant, p_X, smoothness=smoothness, dimension=dimension
    )
    assert rho == pytest.approx(1.0)


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


@every_smoothness
@pytest.mark.parametrize("scaled", [0, 1, 2, 3])
def test_the_attainable_sample_size_does_not_depend_on_constant_factors(
    scaled: int, smoothness: float, generator: torch.Generator
) -> None:
    values = [positive(generator) for _ in range(4)]
    before = attainable_sample_size(*values, smoothness=smoothness, dimension=2.0)
    values[scaled] = 1000.0 * values[scaled]
    assert attainable_sample_size(*values, smoothness=smoothness, dimension=2.0) == pytest.approx(before)


def test_the_attainable_sample_size_at_a_million_derivatives_is_that_at_infinity(generator: torch.Generator) -> None:
    values = [positive(generator) for _ in range(4)]
    nearly, at_infinity = (attainable_sample_size(*values, smoothness=a, dimension=3.0) for a in (1e6, math.inf))
    assert nearly == pytest.approx(at_infinity, rel=1e-4)


@every_smoothness
@every_dimension
def test_the_attainable_sample_size_compares_integrated_errors(
    smoothness: float, dimension: float, generator: torch.Generator
) -> None:
    """On a uniform pool: MISE(p) = C_n int q LFC (v / p)^s with rate n^-s, at the superior density and at q."""
    complexity, q, noise = (positive(generator) for _ in range(3))
    s = 1.0 if math.isinf(smoothness) else 2.0 * smoothness / (2.0 * smoothness + dimension)
    q = q / q.mean()
    best = (q * complexity * noise**s).pow(1.0 / (1.0 + s)).mean() ** (1.0 + s)
    random = (q * complexity * (noise / q) ** s).mean()
    rho = attainable_sample_size(complexity, q, noise, torch.ones_like(q), smoothness=smoothness, dimension=dimension)
    assert rho == pytest.approx((best / random).item() ** (1.0 / s))


@pytest.mark.parametrize(("level", "share"), [(100.0, 0.1), (4.0, 0.5), (1e4, 0.01)])
def test_a_complexity_of_two_levels_has_a_closed_form(level: float, share: float) -> None:
    """(1 + share (sqrt(level) - 1))^2 / (1 + share (level - 1)) at alpha = infinity."""
    n = 1000
    complexity = torch.where(torch.arange(n) < share * n, level, 1.0).double()
    one = torch.ones(n, dtype=torch.float64)
    rho = attainable_sample_size(complexity, one, one, one, smoothness=math.inf, dimension=2.0)
    assert rho == pytest.approx((1.0 + share * (math.sqrt(level) - 1.0)) ** 2 / (1.0 + share * (level - 1.0)))


@every_smoothness
def test_the_attainable_sample_size_does_not_depend_on_how_the_pool_lies(
    smoothness: float, generator: torch.Generator
) -> None:
    """The same integrals from a uniform pool and from one of density 2x."""
    u = torch.rand(400_000, dtype=torch.float64, generator=generator)

    def rho(x: Tensor, p_X: Tensor) -> float:
        return attainable_sample_size(
            0.1 + x.square(), torch.ones_like(x), 1.0 + x, p_X, smoothness=smoothness, dimension=1.0
        )

    assert rho(u.sqrt(), 2.0 * u.sqrt()) == pytest.approx(rho(u, torch.ones_like(u)), abs=0.01)


@every_smoothness
def test_where_nothing_is_predicted_costs_nothing(smoothness: float) -> None:
    complexity, one = tensor(1.0, 9.0, 50.0, 0.0), tensor(1.0, 1.0, 1.0, 1.0)
    rho = attainable_sample_size(complexity, tensor(1.0, 1.0, 0.0, 0.0), one, one, smoothness=smoothness, dimension=1.0)
    without = attainable_sample_size(complexity[:2], one[:2], one[:2], one[:2], smoothness=smoothness, dimension=1.0)
    assert rho == pytest.approx(without)


FORMULAS: dict[str, Callable[..., object]] = {
    "complexity": lambda **options: local_complexity(tensor(1.0), tensor(1.0), **options),
    "density": lambda **options: superior_density(tensor(1.0), tensor(1.0), tensor(1.0), **options),
    "rate": learning_rate,
    "attainable": lambda **options: attainable_sample_size(*[tensor(1.0)] * 4, **options),
    "share": lambda **options: relative_sample_size(1.0, 2.0, **options),
}
every_formula = pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS.keys())


@every_formula
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, -math.inf])
def test_a_smoothness_that_is_not_positive_is_refused_and_shown(formula: Callable[..., object], bad: float) -> None:
    with pytest.raises(ValueError, match=rf"smoothness alpha must exceed zero \(math.inf is allowed\), got {bad}"):
        formula(smoothness=bad, dimension=1.0)


@every_formula
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_dimension_that_is_not_positive_is_refused_and_shown(formula: Callable[..., object], bad: float) -> None:
    with pytest.raises(ValueError, match=f"dimension must be positive and finite, got {bad}"):
        formula(smoothness=2.0, dimension=bad)
