import math
from pathlib import Path

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.stats import gaussian_kde
from torch import Tensor

from experiments.density_edges import CHOSEN_ON, REPORTED, errors
from lobal.core import arrays, density
from lobal.core.density import (
    LARGEST_SAMPLE,
    RELATIVE_WIDTHS,
    AdaptiveDensity,
    KernelDensity,
    capped,
    density_at,
    importance_weights,
    intrinsic_dimension,
    norm,
    normalised,
    pool_density,
    silverman_widths,
)
from tests.core.setting import normal, seeded, tensor, uniform

columns = npst.arrays(np.float64, st.integers(1, 30), elements=st.floats(1e-3, 1e3))
UNITS = tensor(1e3, 1.0, 1e-3, 7.0)


def two_clusters(generator: torch.Generator, n: int) -> Tensor:
    centres = tensor(-5.0, 5.0).repeat_interleave(n // 2)
    return (centres + 0.05 * normal(generator, n))[:, None]


@pytest.mark.parametrize("d", [1, 2])
def test_density_integrates_to_one(d: int, generator: torch.Generator) -> None:
    density = KernelDensity.fit(
        two_clusters(generator, 100) if d == 1 else normal(generator, 60, 2), generator=generator
    )
    x = torch.linspace(-8.0, 8.0, 20_001 if d == 1 else 301, dtype=torch.float64)
    values = density(torch.cartesian_prod(*[x] * d).reshape(-1, d)).reshape([len(x)] * d)
    for _ in range(d):
        values = torch.trapezoid(values, x)
    assert values.item() == pytest.approx(1.0, abs=1e-4)


def test_density_with_given_widths_agrees_with_scipy(generator: torch.Generator) -> None:
    X, X_new = normal(generator, 40, 2), normal(generator, 10, 2)
    X = X @ torch.linalg.inv(torch.linalg.cholesky(X.T.cov())).mT  # uncorrelated columns: scipy's widths are diagonal
    for bandwidth, widths in ((0.4, 0.4 * X.std(0)), ("silverman", silverman_widths(X))):
        oracle = gaussian_kde(X.numpy().T, bw_method=bandwidth)
        np.testing.assert_allclose(KernelDensity(centres=X, widths=widths)(X_new), oracle(X_new.numpy().T), rtol=1e-10)


def test_a_normal_density_is_recovered(generator: torch.Generator) -> None:
    density = KernelDensity.fit(normal(generator, 2000, 1), generator=generator)
    x = torch.linspace(-2.0, 2.0, 50, dtype=torch.float64)
    truth = torch.exp(-0.5 * x.square()) / math.sqrt(2.0 * math.pi)
    assert (density(x[:, None]) - truth).abs().max() < 0.05


def test_two_tight_clusters_get_narrow_widths_by_the_best_likelihood(generator: torch.Generator) -> None:
    X = two_clusters(generator, 200)
    density = KernelDensity.fit(X, generator=generator)
    between, at_cluster = density(tensor(0.0, 5.0)[:, None])
    assert between < 1e-6 * at_cluster
    likelihoods = [
        KernelDensity(centres=X, widths=factor * silverman_widths(X)).leave_one_out_likelihood()
        for factor in RELATIVE_WIDTHS
    ]
    assert density.leave_one_out_likelihood() == pytest.approx(max(likelihoods))
    assert density.widths.item() < 0.1 * silverman_widths(X).item()


def test_leave_one_out_likelihood_agrees_with_leaving_each_centre_out(generator: torch.Generator) -> None:
    X, width = normal(generator, 12, 2), tensor(0.5, 0.8)
    rest = [torch.arange(12) != i for i in range(12)]
    left_out = [KernelDensity(centres=X[rest[i]], widths=width)(X[i : i + 1]).log().item() for i in range(12)]
    ours = KernelDensity(centres=X, widths=width).leave_one_out_likelihood()
    assert ours == pytest.approx(np.mean(left_out))


def test_density_scales_with_the_inputs(generator: torch.Generator) -> None:
    X, scale = normal(generator, 50, 2), tensor(100.0, 0.01)
    ours, scaled = (KernelDensity.fit(Z, generator=seeded(1))(Z) for Z in (X, X * scale))
    torch.testing.assert_close(scaled * scale.prod(), ours)


def test_a_large_sample_is_thinned_and_a_seed_repeats_it() -> None:
    X = torch.arange(LARGEST_SAMPLE + 500, dtype=torch.float64)[:, None]
    first, second = (KernelDensity.fit(X, generator=seeded(3)).centres for _ in range(2))
    assert len(first.unique()) == 2000
    assert torch.equal(first, second)


def test_a_constant_column_gives_a_finite_density_and_zero_far_from_the_sample(generator: torch.Generator) -> None:
    X = torch.cat([normal(generator, 30, 1), torch.ones(30, 1, dtype=torch.float64)], dim=1)
    density = KernelDensity.fit(X, generator=generator)
    assert ((density(X) > 0) & torch.isfinite(density(X))).all()
    assert density(tensor(1e6, 1e6)[None]).item() == 0.0


@pytest.mark.parametrize("d", [1, 2, 3])
def test_kernel_density_is_the_mean_of_all_kernels(d: int, generator: torch.Generator) -> None:
    """Computed in parts and by sums of exponentials."""
    centres, points = normal(generator, 300, d), 3.0 * normal(generator, 3000, d)
    density = KernelDensity(centres=centres, widths=0.1 + normal(generator, d).abs())
    log_kernels = torch.distributions.Normal(centres, density.widths).log_prob(points[:, None]).sum(-1)
    torch.testing.assert_close(density(points), log_kernels.logsumexp(-1).exp() / 300, rtol=1e-10, atol=0.0)


def test_kernels_are_computed_two_mebibytes_at_a_time(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    squared, bytes_at_once = density.squared_distances, []
    monkeypatch.setattr(
        density, "squared_distances", lambda A, B: bytes_at_once.append(8 * len(A) * len(B)) or squared(A, B)
    )
    KernelDensity(centres=normal(generator, 1024, 1), widths=tensor(1.0))(normal(generator, 1000, 1))
    assert max(bytes_at_once) == 2**21


def manifold(name: str, generator: torch.Generator) -> Tensor:
    t = 6.0 * uniform(generator, 1000)
    return {
        "curve": torch.stack([t.cos(), t.sin(), 0.3 * t], dim=1),
        "plane": uniform(generator, 1500, 2) @ normal(generator, 2, 10),
        "space": normal(generator, 2000, 5),
        "column": normal(generator, 100, 1),
    }[name]


@pytest.mark.parametrize(
    ("name", "dimension", "error"), [("curve", 1, 0.15), ("plane", 2, 0.2), ("space", 5, 0.6), ("column", 1, 0.0)]
)
def test_the_intrinsic_dimension_is_that_of_the_manifold(
    name: str, dimension: int, error: float, generator: torch.Generator
) -> None:
    found = intrinsic_dimension(manifold(name, generator), generator=generator)
    assert found == pytest.approx(dimension, abs=error)


def test_intrinsic_dimension_does_not_depend_on_units_place_or_duplicates(generator: torch.Generator) -> None:
    X = normal(generator, 300, 4)
    ours, moved, twice = (intrinsic_dimension(Z, generator=seeded()) for Z in (X, X * UNITS + 1e4, X.repeat(3, 1)))
    assert moved == pytest.approx(ours, rel=1e-3)
    assert twice == pytest.approx(ours, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 9, 10, 50])
def test_intrinsic_dimension_lies_between_one_and_the_columns(n: int, generator: torch.Generator) -> None:
    grid = torch.cartesian_prod(*[torch.arange(n, dtype=torch.float64)] * 3)
    for X in (normal(generator, n, 3), torch.ones(n, 3).double(), grid, torch.arange(3.0 * n).reshape(n, 3).double()):
        assert 1.0 <= intrinsic_dimension(X, generator=generator) <= 3.0


def test_the_intrinsic_dimension_of_few_points_is_the_number_of_columns(generator: torch.Generator) -> None:
    line = uniform(generator, 10, 1) * tensor(1.0, 2.0, 3.0)
    assert intrinsic_dimension(line[1:], generator=generator) == 3.0
    assert intrinsic_dimension(line, generator=generator) < 3.0


def fitted(X: Tensor, seed: int = 0) -> AdaptiveDensity:
    return AdaptiveDensity.fit(X, bounds=torch.stack(X.aminmax(dim=0)), generator=seeded(seed))


@pytest.mark.parametrize("n", [300, 1200])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 10])
def test_a_uniform_pool_has_the_same_density_at_borders_and_in_corners(
    n: int, d: int, rng: np.random.Generator
) -> None:
    X = rng.random((n, d))
    near = rng.random((2, 200, d))
    near[0, :, 0] *= 0.03
    near[1] = np.where(near[1] < 0.5, 0.06 * near[1], 1.0 - 0.06 * (1.0 - near[1]))
    p = density_at(np.concatenate([X, *near]), of=X, generator=seeded())
    assert p[:n].log().std() < 0.15
    border, corner = p[n:].reshape(2, -1).mean(1) / p[:n].mean()
    assert 0.9 < border < 1.1
    assert 0.75 < corner < 1.25


KNOWN = CHOSEN_ON | {name: REPORTED[name] for name in ("exponential_6", "normal_8", "heavy_tails_2", "plane", "helix")}


@pytest.mark.parametrize("name", KNOWN)
def test_known_densities_are_estimated_no_worse_than_by_fixed_kernels_and_neighbours(name: str) -> None:
    results = [errors(name, KNOWN[name], 400, seed) for seed in range(2)]
    before, now = (sum(result[f"{prefix}{name}"] for result in results) for prefix in ("before_", ""))
    assert now < 1.05 * before


def test_a_curved_sheet_has_the_density_on_the_sheet() -> None:
    assert errors("sheet", CHOSEN_ON["sheet"], 2000, 0)["sheet"] < 0.3


def test_pool_density_tells_two_clusters_of_different_size_apart(generator: torch.Generator) -> None:
    """Nine of ten points in one of two equal clusters: the density there is nine times the other."""
    X = normal(generator, 2000, 4)
    X[:200] += 100.0
    density = pool_density(X.numpy(), generator=generator).log()
    assert (density[200:].mean() - density[:200].mean()).exp().item() == pytest.approx(9.0, rel=0.5)


def test_adaptive_density_uses_the_intrinsic_dimension(generator: torch.Generator) -> None:
    """On a plane in ten dimensions half the distances mean four times the density, not 2^10 times."""
    plane = normal(generator, 1500, 2) @ normal(generator, 2, 10)
    density = fitted(plane)
    assert density.dimension == pytest.approx(2.0, abs=0.2)
    dense, sparse = density(torch.stack([0.0 * plane[0], plane[plane.norm(dim=1).argmax()]])).exp()
    assert 10.0 < dense / sparse < 1e4


def test_adaptive_density_is_the_sum_of_the_other_kernels_times_the_corrections(generator: torch.Generator) -> None:
    X, points = normal(generator, 200, 4), 0.5 * normal(generator, 30, 4)
    density = fitted(X)
    exact = "donot_use_mm_for_euclid_dist"
    squared = torch.cdist(torch.cat([X, points]) / density.spread, density.centres, compute_mode=exact).square()
    log_kernels = -0.5 * squared / density.widths**2 - 4.0 * (density.widths / density.widths.median()).log()
    log_kernels[squared < 1e-20] = -math.inf
    ours = density(torch.cat([X, points])) - sum(
        torch.from_numpy(np.interp(torch.cat([X, points])[:, j] / density.spread[j], x, y))
        for j, (x, y) in enumerate(zip(density.nodes, density.corrections, strict=True))
    )
    torch.testing.assert_close(
        ours, log_kernels.logsumexp(1).clamp_min(-4.0 * (density.widths.max() / density.widths.median()).log())
    )


def test_columns_that_depend_on_each_other_get_narrow_kernels(generator: torch.Generator) -> None:
    independent = normal(generator, 1000, 2)
    circle = independent / independent.norm(dim=1, keepdim=True) * (1.0 + 0.2 * normal(generator, 1000, 1))
    wide, narrow = fitted(independent), fitted(circle)
    assert wide.dimension == narrow.dimension == 2.0
    assert wide.widths.median() > 3.0 * narrow.widths.median()


def test_pool_density_does_not_depend_on_units(generator: torch.Generator) -> None:
    X = normal(generator, 300, 4)
    ours, scaled = (pool_density(Z.numpy(), generator=seeded(1)) for Z in (X, X * UNITS))
    torch.testing.assert_close(scaled, ours, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_the_density_of_few_points_is_defined_everywhere(n: int, d: int, rng: np.random.Generator) -> None:
    X = rng.standard_normal((500, d))
    p = density_at(X, of=X[:n], generator=seeded())
    assert ((p > 0) & torch.isfinite(p)).all()


UNIT = uniform(seeded(), 60, 4)
DEGENERATE = {
    "one point": torch.ones(1, 4).double(),
    "two points": torch.eye(2, 4).double(),
    "one point repeated": torch.ones(50, 4).double(),
    "two points repeated": torch.eye(2, 4).double().repeat(40, 1),
    "an outlier": torch.cat([UNIT, torch.full((1, 4), 1e9).double()]),
    "a constant column": torch.cat([UNIT, torch.ones(60, 1).double()], dim=1),
}


@pytest.mark.parametrize("X", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_pool_density_is_never_zero_or_infinite(X: Tensor) -> None:
    for points in (X, X + 1e12, 0.0 * X):
        values = density_at(points.numpy(), of=X.numpy(), generator=seeded())
        assert ((values >= 0.999e-12) & (values <= 1.001e12)).all()


@pytest.mark.parametrize("name", ["one point", "one point repeated"])
def test_the_density_of_a_single_point_is_one(name: str) -> None:
    assert (pool_density(DEGENERATE[name].numpy(), generator=seeded()) == 1.0).all()


@pytest.mark.parametrize("d", [1, 3, 4, 6])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_pool_density_is_positive_and_higher_in_the_middle(d: int, dtype: type, rng: np.random.Generator) -> None:
    X = (1000.0 * rng.standard_normal((600, d))).astype(dtype)
    density = pool_density(X, generator=seeded())
    assert density.dtype == torch.float64
    assert ((density > 0) & torch.isfinite(density)).all()
    radius = np.argsort((X.astype(float) ** 2).sum(1))
    assert density[radius[:60]].mean() > 3.0 * density[radius[-60:]].mean()


@pytest.mark.parametrize("d", [2, 5])
def test_pool_density_does_not_depend_on_how_the_rows_are_sliced(
    d: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    X = rng.standard_normal((300, d))
    whole = pool_density(X, generator=seeded())
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 7 * d)
    sliced = pool_density(np.load(tmp_path / "X.npy", mmap_mode="r"), generator=seeded())
    torch.testing.assert_close(sliced, whole)


def test_a_point_far_from_the_pool_counts_as_one_of_its_points(rng: np.random.Generator) -> None:
    """Not a centre, it would have a kernel density of zero."""
    X = rng.standard_normal((4 * LARGEST_SAMPLE, 1))
    X[:5] = 1e6 * np.arange(1, 6)[:, None]
    density = pool_density(X, generator=seeded())
    assert 1e-11 < density[:5].min() / density.median() < 0.1


@given(p_X=columns, factor=st.floats(1e-3, 1e3))
def test_the_norm_of_the_pool_density_is_one_and_norms_scale(p_X: np.ndarray, factor: float) -> None:
    p = torch.from_numpy(p_X)
    assert norm(p, p) == pytest.approx(1.0)
    assert norm(factor * p, p) == pytest.approx(factor)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_norm_is_the_integral_over_the_pool(power: float, generator: torch.Generator) -> None:
    """x = u^power has the density x^(1/power - 1) / power; p = 3x^2 integrates to one like it."""
    x = uniform(generator, 200_000).pow(power)
    assert norm(3.0 * x.square(), x.pow(1.0 / power - 1.0) / power) == pytest.approx(1.0, abs=0.01)


@given(values=columns)
def test_normalised_densities_have_norm_one(values: np.ndarray) -> None:
    p, p_X = torch.from_numpy(values), torch.from_numpy(values[::-1].copy())
    assert norm(normalised(p, p_X), p_X) == pytest.approx(1.0)
    torch.testing.assert_close(normalised(1e5 * p, p_X), normalised(p, p_X))


@pytest.mark.parametrize("bad", [0.0, math.inf, math.nan])
def test_a_density_without_a_norm_is_refused_and_shown(bad: float) -> None:
    with pytest.raises(ValueError, match=f"positive somewhere and finite everywhere on the pool, got norm {bad}"):
        normalised(tensor(bad, bad), tensor(1.0, 1.0))


@given(q=columns)
def test_importance_weights_have_mean_one_and_a_bounded_share(q: np.ndarray) -> None:
    weights = importance_weights(torch.from_numpy(q), torch.from_numpy(q[::-1].copy()) ** 3)
    assert weights.mean().item() == pytest.approx(1.0)
    assert weights.max() / weights.sum() <= len(q) ** -0.5 * (1.0 + 1e-9)


def test_moderate_importance_weights_are_the_ratio(generator: torch.Generator) -> None:
    p, q = (0.5 + uniform(generator, 100) for _ in range(2))
    torch.testing.assert_close(importance_weights(q, p), (q / p) / (q / p).mean())


@pytest.mark.parametrize("tiny", [1e-12, 1e-300, 0.0])
def test_a_vanishing_density_does_not_outweigh_everything(tiny: float) -> None:
    p = torch.ones(100, dtype=torch.float64)
    p[7] = tiny
    weights = importance_weights(torch.ones_like(p), p)
    assert weights[7].item() == pytest.approx(10.0)
    torch.testing.assert_close(weights[:7], tensor(*[90.0 / 99.0] * 7))


def test_where_nothing_is_predicted_the_weight_is_zero() -> None:
    assert importance_weights(tensor(0.0, 0.0, 1.0, 2.0), tensor(0.0, 1.0, 1.0, 2.0)).tolist() == [0.0, 0.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="q must be positive at one of the 3 points at least"):
        importance_weights(tensor(0.0, 0.0, 0.0), tensor(1.0, 1.0, 1.0))


@given(values=columns, share=st.floats(0.0, 1.0))
def test_capped_weights_stay_below_their_share_and_change_no_more_than_needed(values: np.ndarray, share: float) -> None:
    weights, parts = torch.from_numpy(values), 1.0 + share * (len(values) - 1)
    cut = capped(weights, parts)
    assert cut.max() <= cut.sum() / parts * (1.0 + 1e-9)
    changed = cut < weights
    assert (cut[changed] == cut.max()).all()
    if changed.any():
        assert cut.max().item() == pytest.approx((cut.sum() / parts).item())
