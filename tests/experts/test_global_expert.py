import math

import numpy as np
import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, gaussian, gram_matrices, squared_distances
from lobal.experts import global_expert as module
from lobal.experts.global_expert import SMALLEST_NOISE, Search, Units, fit_global_expert


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


def test_the_gradient_of_the_evidence_is_that_of_finite_differences() -> None:
    points = gp_draw(30, bandwidth=0.1, noise=0.1, d=2)
    search = search_on(points)
    steps = 1e-5 * np.eye(len(THETA))
    slope = [(search.loss(THETA + step) - search.loss(THETA - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(search.loss_and_slope(THETA)[1], slope, rtol=1e-5)


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
