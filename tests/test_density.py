import math

import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde
from torch import Tensor

from lobal.density import LARGEST_SAMPLE, RELATIVE_WIDTHS, KernelDensity, intrinsic_dimension


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def two_clusters(generator: torch.Generator, n: int) -> Tensor:
    centres = torch.tensor([-5.0, 5.0], dtype=torch.float64).repeat_interleave(n // 2)
    return (centres + 0.05 * normal(generator, n))[:, None]


def silverman(X: Tensor) -> Tensor:
    n, d = X.shape
    return X.std(0) * (4.0 / (n * (d + 2.0))) ** (1.0 / (d + 4.0))


def test_density_integrates_to_one(generator: torch.Generator) -> None:
    density = KernelDensity.fit(two_clusters(generator, 100), generator=generator)
    x = torch.linspace(-8.0, 8.0, 20_001, dtype=torch.float64)
    assert torch.trapezoid(density(x[:, None]), x).item() == pytest.approx(1.0, abs=1e-6)


def test_density_in_two_dimensions_integrates_to_one(generator: torch.Generator) -> None:
    density = KernelDensity.fit(normal(generator, 60, 2), generator=generator)
    x = torch.linspace(-7.0, 7.0, 201, dtype=torch.float64)
    values = density(torch.cartesian_prod(x, x)).reshape(201, 201)
    assert torch.trapezoid(torch.trapezoid(values, x), x).item() == pytest.approx(1.0, abs=1e-4)


def test_density_with_given_widths_agrees_with_scipy(generator: torch.Generator) -> None:
    X, X_new = normal(generator, 40, 2), normal(generator, 10, 2)
    X = X @ torch.linalg.inv(torch.linalg.cholesky(X.T.cov())).mT  # uncorrelated columns: scipy's widths are diagonal
    oracle = gaussian_kde(X.numpy().T, bw_method=0.4)
    ours = KernelDensity(centres=X, widths=0.4 * X.std(0))
    np.testing.assert_allclose(ours(X_new), oracle(X_new.numpy().T), rtol=1e-10)


def test_a_normal_density_is_recovered(generator: torch.Generator) -> None:
    density = KernelDensity.fit(normal(generator, 2000, 1), generator=generator)
    x = torch.linspace(-2.0, 2.0, 50, dtype=torch.float64)
    truth = torch.exp(-0.5 * x.square()) / math.sqrt(2.0 * math.pi)
    assert (density(x[:, None]) - truth).abs().max() < 0.05


def test_two_tight_clusters_get_narrow_widths(generator: torch.Generator) -> None:
    X = two_clusters(generator, 200)
    density = KernelDensity.fit(X, generator=generator)
    assert density.widths.item() < 0.1 * silverman(X).item()
    between, at_cluster = density(torch.tensor([[0.0], [5.0]], dtype=torch.float64))
    assert between < 1e-6 * at_cluster


def test_leave_one_out_likelihood_agrees_with_leaving_each_centre_out(generator: torch.Generator) -> None:
    X, width = normal(generator, 12, 2), torch.tensor([0.5, 0.8], dtype=torch.float64)
    rest = [torch.arange(12) != i for i in range(12)]
    left_out = [KernelDensity(centres=X[rest[i]], widths=width)(X[i : i + 1]).log().item() for i in range(12)]
    ours = KernelDensity(centres=X, widths=width).leave_one_out_likelihood()
    assert ours == pytest.approx(np.mean(left_out))


def test_fitted_widths_have_the_best_leave_one_out_likelihood(generator: torch.Generator) -> None:
    X = two_clusters(generator, 60)
    best = KernelDensity.fit(X, generator=generator)
    for factor in RELATIVE_WIDTHS:
        other = KernelDensity(centres=X, widths=factor * silverman(X))
        assert other.leave_one_out_likelihood() <= best.leave_one_out_likelihood() + 1e-12


def test_density_scales_with_the_inputs(generator: torch.Generator) -> None:
    X, scale = normal(generator, 50, 2), torch.tensor([100.0, 0.01], dtype=torch.float64)
    ours = KernelDensity.fit(X, generator=torch.Generator().manual_seed(1))
    scaled = KernelDensity.fit(X * scale, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(scaled(X * scale) * scale.prod(), ours(X))


def test_a_large_sample_is_thinned_and_a_seed_repeats_it() -> None:
    X = torch.arange(LARGEST_SAMPLE + 500, dtype=torch.float64)[:, None]
    first, second = (KernelDensity.fit(X, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert len(first.centres) == LARGEST_SAMPLE
    torch.testing.assert_close(first.centres, second.centres, rtol=0.0, atol=0.0)


def test_a_constant_column_gives_a_finite_density(generator: torch.Generator) -> None:
    X = torch.cat([normal(generator, 30, 1), torch.ones(30, 1, dtype=torch.float64)], dim=1)
    values = KernelDensity.fit(X, generator=generator)(X)
    assert torch.isfinite(values).all()
    assert (values > 0).all()


def test_far_from_the_sample_the_density_is_zero_and_not_nan(generator: torch.Generator) -> None:
    density = KernelDensity.fit(normal(generator, 30, 2), generator=generator)
    assert density(torch.full((1, 2), 1e6, dtype=torch.float64)).item() == 0.0


def test_a_plane_in_ten_dimensions_has_dimension_two(generator: torch.Generator) -> None:
    plane = torch.rand(1500, 2, dtype=torch.float64, generator=generator) @ normal(generator, 2, 10)
    assert intrinsic_dimension(plane, generator=generator) == pytest.approx(2.0, abs=0.2)


def test_a_normal_sample_in_five_dimensions_has_dimension_five(generator: torch.Generator) -> None:
    assert intrinsic_dimension(normal(generator, 2000, 5), generator=generator) == pytest.approx(5.0, abs=0.6)


def test_a_curve_in_three_dimensions_has_dimension_one(generator: torch.Generator) -> None:
    t = 6.0 * torch.rand(1000, dtype=torch.float64, generator=generator)
    curve = torch.stack([t.cos(), t.sin(), 0.3 * t], dim=1)
    assert intrinsic_dimension(curve, generator=generator) == pytest.approx(1.0, abs=0.15)


def test_intrinsic_dimension_does_not_depend_on_units_or_place(generator: torch.Generator) -> None:
    X = normal(generator, 300, 3)
    moved = X * torch.tensor([1e3, 1.0, 1e-3], dtype=torch.float64) + 1e4
    ours, other = (intrinsic_dimension(points, generator=torch.Generator().manual_seed(0)) for points in (X, moved))
    assert other == pytest.approx(ours, rel=1e-3)


def test_duplicates_do_not_change_the_intrinsic_dimension(generator: torch.Generator) -> None:
    X = normal(generator, 300, 4)
    twice = intrinsic_dimension(X.repeat(3, 1), generator=generator)
    assert twice == pytest.approx(intrinsic_dimension(X, generator=generator), rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 9, 10, 50])
def test_intrinsic_dimension_lies_between_one_and_the_columns(n: int, generator: torch.Generator) -> None:
    cases = [normal(generator, n, 3), torch.ones(n, 3, dtype=torch.float64), torch.arange(3.0 * n).reshape(n, 3)]
    for X in cases:
        assert 1.0 <= intrinsic_dimension(X.double(), generator=generator) <= 3.0


def test_one_column_has_dimension_one(generator: torch.Generator) -> None:
    assert intrinsic_dimension(normal(generator, 100, 1), generator=generator) == 1.0


def test_a_regular_grid_has_a_finite_dimension(generator: torch.Generator) -> None:
    side = torch.linspace(0.0, 1.0, 20, dtype=torch.float64)
    assert 1.0 <= intrinsic_dimension(torch.cartesian_prod(side, side), generator=generator) <= 2.0
