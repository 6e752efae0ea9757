import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, gaussian, gram_matrices, matern12, matern32, matern52, squared_distances
from lobal.experts import global_expert as module
from lobal.experts.exact import exact_experts
from lobal.experts.global_expert import (
    SMALLEST_NOISE,
    GlobalExpert,
    Search,
    Units,
    fit_global_expert,
    searched_again,
)
from tests.estimator_setting import PATCH_NOISE, waves_in_a_patch

WITHOUT_PRIOR = 1e6  # a scale of the widths' prior, which is flat then


def gp_draw(n: int, bandwidth: float, noise: float, *, d: int = 1, seed: int = 0) -> LabelledSet:
    """Labels drawn from a Gaussian process in the first column; other columns do not matter."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, dtype=torch.float64, generator=generator)
    K = gram_matrices(squared_distances(X[:, :1], X[:, :1]), torch.tensor([bandwidth]).double(), gaussian)[0]
    root = torch.linalg.cholesky(K + 1e-8 * torch.eye(n))
    f = 3.0 + 2.0 * root @ torch.randn(n, dtype=torch.float64, generator=generator)
    y = f + math.sqrt(noise) * torch.randn(n, dtype=torch.float64, generator=generator)
    return LabelledSet(X=X, y=y, weight=torch.ones(n).double())


def fit(points: LabelledSet, *, anisotropic: bool = False):  # noqa: ANN201 - as imported
    unit = points.X.std(0)
    return fit_global_expert(
        points, unit=unit, kernel=gaussian, anisotropic=anisotropic, generator=torch.Generator().manual_seed(0)
    )


def test_the_hyperparameters_of_a_gaussian_process_are_recovered() -> None:
    expert = fit(gp_draw(300, bandwidth=0.05, noise=0.1))
    assert expert.bandwidth.item() == pytest.approx(0.05, rel=0.2)
    assert expert.hyperparameters.noise.item() == pytest.approx(0.1, rel=0.3)
    assert 1.5 < expert.hyperparameters.scale.item() < 10.0


def test_anisotropic_bandwidths_find_the_column_that_matters() -> None:
    bandwidth = fit(gp_draw(200, bandwidth=0.2, noise=0.05, d=3), anisotropic=True).bandwidth
    assert bandwidth[1:].min() > 5 * bandwidth[0]


def test_isotropic_bandwidths_are_proportional_to_the_columns_widths() -> None:
    points = gp_draw(100, bandwidth=0.2, noise=0.05, d=2)
    stretched = LabelledSet(X=points.X * torch.tensor([1.0, 100.0]), y=points.y, weight=points.weight)
    bandwidth = fit(stretched).bandwidth
    assert torch.allclose(bandwidth / bandwidth[0], stretched.X.std(0) / stretched.X.std(0)[0])


def test_known_noise_stays_as_it_is() -> None:
    points = gp_draw(80, bandwidth=0.1, noise=0.1)
    noise = torch.linspace(0.05, 0.15, 80).double()
    expert = fit(LabelledSet(X=points.X, y=points.y, weight=points.weight, noise=noise))
    assert torch.equal(expert.hyperparameters.noise, noise)


def test_noise_free_labels_get_the_smallest_noise_allowed() -> None:
    x = torch.linspace(0, 1, 60).double()
    expert = fit(LabelledSet(X=x[:, None], y=torch.sin(3 * x), weight=torch.ones(60).double()))
    assert expert.hyperparameters.noise.item() < 100 * SMALLEST_NOISE


def test_constant_labels_do_not_break_the_fit() -> None:
    x = torch.linspace(0, 1, 30).double()
    expert = fit(LabelledSet(X=x[:, None], y=torch.full((30,), 2.5).double(), weight=torch.ones(30).double()))
    assert expert.hyperparameters.mean.item() == pytest.approx(2.5, abs=1e-6)


def test_what_random_labels_do_not_resolve_neighbours_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waves of two directions: labels of a random fifth lie so far apart that they look unrelated."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(1000, 2, dtype=torch.float64, generator=generator)
    y = torch.sin(40 * X[:, 0]) * torch.cos(40 * X[:, 1])
    points = LabelledSet(X=X, y=y, weight=torch.ones(1000).double())
    monkeypatch.setattr(module, "LARGEST_NEIGHBOURHOOD", 200)
    neighbours = fit(points, anisotropic=True)
    monkeypatch.setattr(module, "LARGEST_SUBSET", 200)
    random = fit(points, anisotropic=True)
    assert (neighbours.bandwidth > 2.0 * random.bandwidth).all()


THETA = np.array([0.1, 0.2, -2.0, -1.0, 0.5])


def search_on(points: LabelledSet, *parts: LabelledSet, kernel: Kernel = gaussian) -> Search:
    """The search on these points, or on parts of them in their units."""
    return Search(parts or [points], Units.of(points.y, points.X.std(0)), kernel)


@pytest.mark.parametrize("kernel", [gaussian, matern52, matern32])
@pytest.mark.parametrize("n_widths", [1, 2])
@pytest.mark.parametrize("is_noise_known", [False, True])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(
    kernel: Kernel, n_widths: int, is_noise_known: bool
) -> None:
    points = gp_draw(30, bandwidth=0.1, noise=0.1, d=2)
    if is_noise_known:
        points = replace(points, noise=torch.linspace(0.05, 0.15, 30).double())
    search, theta = search_on(points, kernel=kernel), THETA[: 3 + n_widths]
    steps = 1e-5 * np.eye(len(theta))
    slope = [(search.loss(theta + step) - search.loss(theta - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(search.loss_and_slope(theta)[1], slope, rtol=1e-5, atol=1e-8)


def test_the_evidence_of_samples_is_that_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDTH_SCALE", WITHOUT_PRIOR)  # which counts once, however many samples there are
    points = gp_draw(90, bandwidth=0.1, noise=0.1, d=2)
    parts = [points[torch.arange(30)], points[torch.arange(30, 90)]]
    whole, slope = search_on(points, *parts).loss_and_slope(THETA)
    values, slopes = zip(*(search_on(points, part).loss_and_slope(THETA) for part in parts), strict=True)
    assert whole == pytest.approx((values[0] + 2 * values[1]) / 3)
    np.testing.assert_allclose(slope, (slopes[0] + 2 * slopes[1]) / 3)


@pytest.mark.parametrize("n", [200, 600], ids=["few labels", "labels to polish with"])
def test_the_evidence_is_flat_at_the_optimum(n: int) -> None:
    points = gp_draw(n, bandwidth=0.1, noise=0.1, d=2)
    search = search_on(points)
    theta = search.units.parameters(fit(points, anisotropic=True))
    _, slope = search.loss_and_slope(theta)
    inside = np.abs(theta) < 7.9  # a column that does not matter has the largest bandwidth allowed
    assert np.abs(slope[inside]).max() < 2e-3


def rough_and_smooth(name: str, n: int = 200) -> LabelledSet:
    """Labels without noise at random places of a line."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, dtype=torch.float64, generator=generator).sort().values
    steps = torch.randn(n, dtype=torch.float64, generator=generator) * x.diff(prepend=x[:1] - 0.01).sqrt()
    kinks = (x - 0.37).abs() + (x - 0.71).abs()
    y = {"smooth": torch.sin(6.0 * x), "kinks": kinks, "random walk": steps.cumsum(0)}[name]
    return LabelledSet(X=x[:, None], y=y, weight=torch.ones(n).double())


def with_kernel(points: LabelledSet, kernel: Kernel | None) -> GlobalExpert:
    generator = torch.Generator().manual_seed(0)
    return fit_global_expert(points, unit=points.X.std(0), kernel=kernel, anisotropic=True, generator=generator)


def test_the_gradient_of_the_prior_is_that_of_finite_differences() -> None:
    theta = np.array([0.1, 0.2, -2.0, -1.0, 0.5, 3.0])
    steps = 1e-6 * np.eye(len(theta))
    slope = [
        (module._log_prior_and_slope(theta + step)[0] - module._log_prior_and_slope(theta - step)[0]) / 2e-6
        for step in steps
    ]
    np.testing.assert_allclose(module._log_prior_and_slope(theta)[1], slope, atol=1e-8)


def with_usual_noise(*widths: float) -> np.ndarray:
    """Parameters of the given widths, with the noise that the prior prefers."""
    return np.array([0.0, 0.0, module.NOISE_CENTRE, *widths])


def test_the_prior_is_greatest_for_equal_widths_whatever_they_are() -> None:
    equal, uneven = with_usual_noise(-1.3, -1.3, -1.3, -1.3), with_usual_noise(-1.3, -1.3, -1.3, -1.0)
    value, slope = module._log_prior_and_slope(equal)
    assert (value, np.abs(slope).max()) == (0.0, 0.0)
    assert module._log_prior_and_slope(uneven)[0] < 0.0
    shifted = uneven + np.concatenate([[1.0, 1.0, 0.0], np.full(4, 2.0)])
    assert module._log_prior_and_slope(shifted)[0] == pytest.approx(module._log_prior_and_slope(uneven)[0])


def test_the_prior_does_not_concern_a_single_width() -> None:
    assert module._log_prior_and_slope(with_usual_noise(-1.0))[0] == 0.0
    assert not module._log_prior_and_slope(with_usual_noise(-1.0))[1].any()


@pytest.mark.parametrize("seed", range(3))
def test_labels_far_apart_are_not_taken_for_a_rapid_function(seed: int) -> None:
    """Noise on a coarse grid: without the prior a function that is rapid everywhere explains it as well."""
    side = torch.linspace(0, 1, 7).double()
    y = torch.randn(49, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    points = LabelledSet(X=torch.cartesian_prod(side, side), y=y, weight=torch.ones(49).double())
    assert fit(points, anisotropic=True).hyperparameters.noise.item() > 0.02


def two_of_ten(X: Tensor) -> Tensor:
    """A function of the first two columns."""
    return torch.sin(3.0 * X[:, 0]) + X[:, 1]


def few_labels_in_many_columns(noise: float, seed: int) -> LabelledSet:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(40, 10, dtype=torch.float64, generator=generator)
    y = two_of_ten(X) + noise * torch.randn(40, dtype=torch.float64, generator=generator)
    return LabelledSet(X=X, y=y, weight=torch.ones(40).double())


def error_on_new_points(points: LabelledSet) -> float:
    """The error of the process with the expert's values, given the points."""
    new = torch.rand(500, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(99))
    hyperparameters, width, kernel, _ = fit(points, anisotropic=True)
    settings = {"shared_bandwidth": width, "bandwidths": torch.ones(1).double(), "kernel": kernel}
    mean = exact_experts(points.X, points.y, hyperparameters, **settings).posterior(new).mean[0]
    return (mean - two_of_ten(new)).square().mean().sqrt().item()


def test_few_labels_in_many_columns_find_those_that_matter() -> None:
    bandwidth = fit(few_labels_in_many_columns(noise=0.1, seed=0), anisotropic=True).bandwidth
    assert bandwidth[:2].max() < 0.5 * bandwidth[2:].min()


def test_few_noisy_labels_in_many_columns_are_predicted_better_with_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [few_labels_in_many_columns(noise=0.4, seed=seed) for seed in range(4)]
    errors = [error_on_new_points(points) for points in draws]
    monkeypatch.setattr(module, "WIDTH_SCALE", WITHOUT_PRIOR)
    by_chance = [error_on_new_points(points) for points in draws]
    assert np.mean(errors) < 0.9 * np.mean(by_chance), (errors, by_chance)


def test_rapid_waves_in_a_small_region_are_not_taken_for_noise() -> None:
    """Wide kernels and five times the noise are a maximum too, and that of coarse grids."""
    X, y = waves_in_a_patch(500)
    points = LabelledSet(X=torch.from_numpy(X), y=torch.from_numpy(y), weight=torch.ones(500).double())
    expert = fit(points, anisotropic=True)
    assert expert.hyperparameters.noise.item() == pytest.approx(PATCH_NOISE**2, rel=0.3)


@pytest.mark.parametrize(
    ("name", "expected"), [("smooth", {gaussian}), ("kinks", {matern32, matern52}), ("random walk", {matern32})]
)
def test_the_kernel_is_as_rough_as_the_function(name: str, expected: set[Kernel]) -> None:
    expert = with_kernel(rough_and_smooth(name), None)
    assert expert.kernel is gaussian
    assert (expert.rougher or expert).kernel in expected


@pytest.mark.parametrize("kernel", [gaussian, matern52, matern32, matern12])
def test_a_kernel_that_is_given_is_kept(kernel: Kernel) -> None:
    assert with_kernel(rough_and_smooth("kinks", 40), kernel).kernel is kernel


def test_left_out_likelihoods_are_those_of_labels_removed_one_by_one() -> None:
    points, total = gp_draw(12, bandwidth=0.1, noise=0.1, d=2), 0.0
    search = search_on(points, kernel=matern52)
    for i in range(12):
        rest = points[torch.arange(12) != i]
        mean, variance = search.expert(THETA, rest).posterior(points.X[i : i + 1])
        variance = variance + search.units.hyperparameters(search.units.tensor(THETA), None).noise
        total -= 0.5 * ((points.y[i] - mean).square() / variance + variance.log()).item()
    assert search.left_out_likelihood(THETA) == pytest.approx(total)


@pytest.mark.parametrize("anisotropic", [False, True])
def test_the_search_with_the_same_points_again_stays_where_it_is(anisotropic: bool) -> None:
    points = gp_draw(150, bandwidth=0.1, noise=0.1, d=2)
    near = fit(points, anisotropic=anisotropic)
    again = searched_again(points, near, unit=points.X.std(0), anisotropic=anisotropic)
    assert again.kernel is near.kernel
    relevant = slice(0, 1 if anisotropic else 2)  # the other width may be as large as it likes
    torch.testing.assert_close(again.bandwidth[relevant], near.bandwidth[relevant], rtol=0.02, atol=0.0)
    torch.testing.assert_close(again.hyperparameters.noise, near.hyperparameters.noise, rtol=0.02, atol=0.0)


def test_the_search_with_other_points_finds_what_a_search_from_the_start_finds() -> None:
    points = gp_draw(200, bandwidth=0.1, noise=0.1)
    half = points[torch.arange(0, 200, 2)]
    again = searched_again(half, fit(points), unit=half.X.std(0), anisotropic=False)
    from_the_start = fit(half)
    torch.testing.assert_close(again.bandwidth, from_the_start.bandwidth, rtol=0.02, atol=0.0)
    noise, expected = (each.hyperparameters.noise for each in (again, from_the_start))
    torch.testing.assert_close(noise, expected, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("anisotropic", [False, True])
def test_one_factor_keeps_the_ratios_of_the_widths(anisotropic: bool) -> None:
    points = gp_draw(100, bandwidth=0.1, noise=0.1, d=3)
    near = fit(points)._replace(bandwidth=torch.tensor([0.1, 1.0, 2.0]).double())
    again = searched_again(points, near, unit=points.X.std(0), anisotropic=anisotropic)
    ratio = again.bandwidth / near.bandwidth
    assert torch.allclose(ratio, ratio[0].expand(3)) == (not anisotropic)
