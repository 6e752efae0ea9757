"""Local polynomial fits: what they reproduce, independent solutions of the same equations, and Lepski's choice."""

import math

import numpy as np
import pytest
import torch

from lobal.baselines.local_fit import (
    RATIO,
    Fits,
    bandwidth_ladder,
    estimated_noise,
    left_out_fits,
    lepski_choice,
    local_fits,
    local_weights,
    optimal_choice,
    polynomial_basis,
)
from lobal.core.dataset import LabelledSet
from lobal.core.superior_density import local_complexity
from tests.core.setting import seeded

WIDTHS = torch.tensor([0.15, 0.4, 1.0, 20.0], dtype=torch.float64)


def uniform(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=seeded(seed))


def labelled(X: torch.Tensor, y: torch.Tensor, noise: torch.Tensor | None = None) -> LabelledSet:
    return LabelledSet(X=X, y=y, weight=torch.ones_like(y), noise=torch.ones_like(y) if noise is None else noise)


def polynomial(X: torch.Tensor, order: int) -> torch.Tensor:
    """A polynomial with all terms up to the order."""
    return (0.3 + X @ torch.linspace(1.0, 2.0, X.shape[1], dtype=X.dtype)).pow(order) - 4.0 * X[:, 0] + 2.0


@pytest.mark.parametrize(("order", "d"), [(1, 1), (3, 1), (5, 1), (1, 2), (3, 2), (1, 4)])
def test_polynomials_are_reproduced_under_any_bandwidth_at_any_place(order: int, d: int) -> None:
    X, at = uniform(400, d), torch.cat([uniform(20, d, seed=1), torch.zeros(1, d), torch.full((1, d), 1.2)])
    fits = local_fits(at, labelled(X, polynomial(X, order)), WIDTHS, polynomial_basis(order, d))
    expected = polynomial(at, order)[:, None].expand(-1, len(WIDTHS))
    assert fits.is_enough[:20, 1:].all()
    torch.testing.assert_close(fits.mean[fits.is_enough], expected[fits.is_enough], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("order", "d"), [(1, 1), (3, 1), (1, 3), (3, 2)])
def test_fits_are_those_of_weighted_least_squares(order: int, d: int) -> None:
    X, at = uniform(200, d), uniform(5, d, seed=1)
    y = torch.sin(7.0 * X[:, 0]) + uniform(200, seed=2)
    noise = 0.5 + X[:, 0]
    fits = local_fits(at, labelled(X, y, noise), WIDTHS, polynomial_basis(order, d))
    for i, x in enumerate(at.numpy()):
        U = X.numpy() - x
        terms = np.array([e for e in np.ndindex(*[order + 1] * d) if sum(e) <= order])  # the constant comes first
        Phi = np.prod(U[:, None] ** terms, axis=2)
        for j, width in enumerate(WIDTHS.tolist()):
            root = np.exp(-0.25 * np.square(U / width).sum(1))
            first = np.linalg.pinv(root[:, None] * Phi, rcond=1e-15)[0] * root
            assert fits.mean[i, j].item() == pytest.approx(first @ y.numpy(), rel=1e-8)
            assert fits.variance[i, j].item() == pytest.approx(np.square(first) @ noise.numpy(), rel=1e-8)


def test_order_one_in_one_column_is_the_closed_form_of_local_lines() -> None:
    """m = sum w (S2 - u S1) y / (S0 S2 - S1^2) with the moments S of the kernel weights (Fan and Gijbels 1996)."""
    x, y = uniform(100, 1), uniform(100, seed=1)
    fits = local_fits(torch.full((1, 1), 0.4, dtype=torch.float64), labelled(x, y), WIDTHS, polynomial_basis(1, 1))
    u = x[:, 0] - 0.4
    w = torch.exp(-0.5 * (u / WIDTHS[:, None]).square())
    S0, S1, S2 = w.sum(1), w @ u, w @ u.square()
    expected = ((S2[:, None] - u * S1[:, None]) * w @ y) / (S0 * S2 - S1.square())
    torch.testing.assert_close(fits.mean[0], expected, rtol=1e-12, atol=0.0)


def test_blocks_of_points_are_fitted_like_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, at = uniform(50, 2), uniform(30, 2, seed=1)
    data, basis = labelled(X, X[:, 0].sin()), polynomial_basis(3, 2)
    whole = local_fits(at, data, WIDTHS, basis)
    monkeypatch.setattr("lobal.baselines.local_fit.BLOCK_ENTRIES", 1)
    torch.testing.assert_close(local_fits(at, data, WIDTHS, basis), whole, rtol=1e-9, atol=1e-12)


def test_labels_left_out_by_formula_are_those_left_out_by_refitting() -> None:
    X = uniform(40, 2)
    data, basis = labelled(X, (5.0 * X[:, 0]).sin(), noise=0.1 + X[:, 1]), polynomial_basis(1, 2)
    left_out = left_out_fits(torch.tensor([3, 17]), data, WIDTHS[1:], basis)
    for row, number in enumerate((3, 17)):
        others = torch.arange(40) != number
        again = local_fits(X[number][None], data[others], WIDTHS[1:], basis)
        for found, expected in zip(left_out, again, strict=True):
            torch.testing.assert_close(found[row], expected[0], rtol=1e-9, atol=0.0)


def test_windows_with_too_few_labels_do_not_count() -> None:
    X = torch.tensor([[0.0], [0.1], [0.2], [5.0]], dtype=torch.float64)
    at = torch.tensor([[0.1], [4.0]], dtype=torch.float64)
    weights = local_weights(at, X, WIDTHS[:3], polynomial_basis(1, 1))
    assert weights.is_enough.tolist() == [[True] * 3, [False, False, True]]
    assert (weights.weights.sum(2)[weights.is_enough] - 1.0).abs().max() < 1e-9


@pytest.mark.parametrize("X", [[[1.0, 2.0]] * 5, [[k, 2.0 * k] for k in range(5)], [[0.0, 0.0], [3.0, 1.0]]], ids=str)
def test_labels_too_few_for_any_window_are_averaged_or_followed_where_they_lie(X: list[list[float]]) -> None:
    inputs = torch.tensor(X, dtype=torch.float64)
    data = labelled(inputs, 3.0 + inputs[:, 0])
    fits = local_fits(inputs.mean(0)[None], data, WIDTHS[:3], polynomial_basis(1, 2))
    assert fits.is_enough.tolist() == [[False, False, True]]
    assert fits.mean[0, -1].item() == pytest.approx(3.0 + inputs[:, 0].mean().item(), rel=1e-6)


def test_a_far_point_has_finite_weights() -> None:
    weights = local_weights(torch.full((1, 1), 1e30).double(), uniform(20, 1), WIDTHS, polynomial_basis(3, 1)).weights
    assert torch.isfinite(weights).all()


def fits_of(mean: list[float], deviation: list[float], is_enough: list[bool] | None = None) -> Fits:
    enough = torch.tensor([[True] * len(mean) if is_enough is None else is_enough])
    return Fits(torch.tensor([mean]), torch.tensor([deviation]).square(), enough)


@pytest.mark.parametrize(
    ("mean", "enough", "expected"),
    [
        ([0.0, 0.5, 0.9, 2.0], None, 2),  # within one deviation of the first, not of the second
        ([0.0, 0.5, 1.3, 0.5], None, 1),  # that the last agrees again does not count
        ([9.0, 0.5, 0.9, 0.6], [False, True, True, True], 3),  # what has too few labels has no say
        ([0.0, 9.0, 0.9, 0.6], [True, False, True, True], 3),
    ],
)
def test_lepski_takes_the_largest_bandwidth_up_to_which_all_agree(
    mean: list[float], enough: list[bool] | None, expected: int
) -> None:
    assert lepski_choice(fits_of(mean, [1.0, 0.8, 0.5, 0.4], enough), 1.0).tolist() == [expected]


def test_the_best_bandwidth_is_steps_below_lepskis_but_no_smaller_than_the_first_that_counts() -> None:
    # 2.5 deviations of bias instead of 1/2: a factor 5^(1 / 2.5) = 1.9, two steps of sqrt(2).
    agreeing = fits_of([0.0] * 6, [1.0] * 6)
    assert lepski_choice(agreeing, 2.5).tolist() == [5]
    assert optimal_choice(agreeing, 2.5, order=1, d=1).tolist() == [3]
    assert optimal_choice(agreeing, 2.5, order=3, d=1).tolist() == [4]  # 7.07^(1 / 4.5) = 1.54, one step
    few = fits_of([0.0] * 6, [1.0] * 6, [False] * 5 + [True])
    assert optimal_choice(few, 2.5, order=1, d=1).tolist() == [5]


@pytest.mark.parametrize("order", [1, 3])
def test_lepskis_bandwidth_is_larger_where_the_function_is_flatter(order: int) -> None:
    x = torch.linspace(0.0, 1.0, 2000, dtype=torch.float64)[:, None]
    f = torch.where(x[:, 0] < 0.5, (60.0 * x[:, 0]).sin(), (6.0 * x[:, 0]).sin())
    noise = torch.full_like(f, 0.01)
    data = labelled(x, f + 0.1 * torch.randn(2000, dtype=torch.float64, generator=seeded(1)), noise)
    basis = polynomial_basis(order, 1)
    widths = bandwidth_ladder(x, basis)
    at = torch.linspace(0.05, 0.95, 91, dtype=torch.float64)[:, None]
    found = widths[lepski_choice(local_fits(at, data, widths, basis), 2.5)].log()
    wiggly, flat = found[at[:, 0] < 0.4].mean().exp(), found[at[:, 0] > 0.6].mean().exp()
    assert flat > 4.0 * wiggly


def best_widths(order: int, density: float, noise: float, at: torch.Tensor) -> torch.Tensor:
    """Eq. (eq:lpsLOBDefinition) with all known: the bandwidths of least mean squared error for f = x^(Q + 1).

    Labels are evenly spaced with this density per unit length.
    """
    X = torch.arange(-4.0, 4.0, 1.0 / density, dtype=torch.float64)[:, None]
    widths = 0.02 * 1.01 ** torch.arange(450, dtype=torch.float64)
    basis = polynomial_basis(order, 1)
    fits = local_fits(at, labelled(X, X[:, 0].pow(order + 1), torch.full_like(X[:, 0], noise)), widths, basis)
    error = (fits.mean - at.pow(order + 1)).square() + fits.variance
    return widths[torch.where(fits.is_enough, error, math.inf).argmin(1)]


@pytest.mark.parametrize("order", [1, 3])
def test_the_complexity_depends_on_neither_the_density_of_the_labels_nor_their_noise(order: int) -> None:
    """The bias of x^(Q + 1) is the same everywhere; the exponent d / (2 (Q + 1) + d) takes density and noise out."""
    at = torch.linspace(-0.5, 0.5, 5, dtype=torch.float64)[:, None]
    complexities = []
    for density, noise in ((100.0, 1e-4), (400.0, 1e-4), (100.0, 1e-2)):
        p, v = (torch.full((5,), value, dtype=torch.float64) for value in (density, noise))
        widths = best_widths(order, density, noise, at)
        complexities.append(local_complexity(widths, p, smoothness=order + 1.0, dimension=1.0, noise=v))
    for other in complexities[1:]:
        torch.testing.assert_close(other, complexities[0], rtol=0.03, atol=0.0)


def test_the_ladder_reaches_from_the_spacing_of_dense_labels_to_the_extent_of_all() -> None:
    x = torch.cat([torch.linspace(0.0, 0.01, 100), torch.linspace(0.02, 1.0, 100)]).double()[:, None]
    ladder = bandwidth_ladder(x, polynomial_basis(1, 1))
    assert 1e-4 / 2.0 / RATIO <= ladder[0].item() <= 1e-4 * 1.5
    assert ladder[-1].item() == pytest.approx(0.5, rel=0.6)
    torch.testing.assert_close(ladder[1:] / ladder[:-1], torch.full_like(ladder[1:], RATIO))
    assert bandwidth_ladder(torch.ones(5, 2).double(), polynomial_basis(1, 2)).tolist() == [1.0]


def test_the_noise_is_found_beside_a_function_that_is_too_fast_in_places() -> None:
    x = uniform(2000, 1)
    f = torch.where(x[:, 0] < 0.1, 5.0 * (3000.0 * x[:, 0]).sin(), (6.0 * x[:, 0]).sin())
    y = f + 0.3 * torch.randn(2000, dtype=torch.float64, generator=seeded(1))
    basis = polynomial_basis(1, 1)
    fits = left_out_fits(torch.arange(2000), labelled(x, y), bandwidth_ladder(x, basis), basis)
    assert estimated_noise(fits, y) == pytest.approx(0.09, rel=0.4)
    assert estimated_noise(fits, torch.zeros_like(y)) >= 0.0
