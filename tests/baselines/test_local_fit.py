"""Local polynomial fits: what they reproduce, independent solutions of the same equations."""

import numpy as np
import pytest
import torch

from lobal.baselines.local_fit import left_out_fits, local_fits, local_weights, polynomial_basis
from tests.baselines.setting import labelled, uniform

WIDTHS = torch.tensor([0.15, 0.4, 1.0, 20.0], dtype=torch.float64)


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


def test_a_fit_that_is_less_certain_than_a_label_does_not_count() -> None:
    """The line through labels at 1 and 2 is at zero twice the first less the second: five times a label's variance."""
    X = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    beside, between = (torch.full((1, 1), place, dtype=torch.float64) for place in (0.0, 1.5))
    found = local_weights(beside, X, WIDTHS[2:], polynomial_basis(1, 1))
    torch.testing.assert_close(found.weights[0, 1], torch.tensor([2.0, -1.0], dtype=torch.float64))
    assert not found.is_enough.any()
    assert local_weights(between, X, WIDTHS[2:], polynomial_basis(1, 1)).is_enough.all()


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


def test_weights_sum_to_one_or_the_window_does_not_count() -> None:
    """Windows of every size at the edges of what can be solved: the equations are nearly singular in many of them."""
    X = uniform(60, 1).pow(3)
    widths = 1e-5 * 1.2 ** torch.arange(60, dtype=torch.float64)
    found = local_weights(uniform(300, 1, seed=1), X, widths, polynomial_basis(3, 1))
    assert 0.2 < found.is_enough.double().mean() < 0.95
    assert (found.weights.sum(2)[found.is_enough] - 1.0).abs().max() < 1e-7
