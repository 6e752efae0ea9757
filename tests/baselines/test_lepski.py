"""Lepski's choice of bandwidths, the ladder, the noise, and the complexity that follows from the best bandwidths."""

import math

import pytest
import torch

from lobal.baselines.lepski import RATIO, bandwidth_ladder, estimated_noise, lepski_choice, optimal_choice
from lobal.baselines.local_fit import Fits, left_out_fits, local_fits, polynomial_basis
from lobal.core.superior_density import local_complexity
from tests.baselines.setting import labelled, uniform
from tests.core.setting import seeded


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
