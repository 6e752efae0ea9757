import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import gaussian, gram_matrices, squared_distances
from lobal.mixture import noise as module
from lobal.mixture.leave_one_out import SquaredResiduals, squared_residuals
from lobal.mixture.noise import (
    SMALLEST_SHARE,
    NoiseModel,
    constant_log_variance,
    derivatives,
    estimate_noise,
    log_likelihood,
    log_variance_parameters,
)

WIDTH = torch.tensor(0.1).double()


def noisy(n: int, *, d: int = 1, slope: float = 0.0, seed: int = 0) -> SquaredResiduals:
    """Residuals of variance 4 exp(slope (x_1 - 1/2)) and nothing else."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, dtype=torch.float64, generator=generator)
    deviation = 2.0 * (0.5 * slope * (X[:, 0] - 0.5)).exp()
    return squares(X, deviation * torch.randn(n, dtype=torch.float64, generator=generator))


def squares(X: Tensor, residual: Tensor, labels: Tensor | None = None) -> SquaredResiduals:
    """Squared residuals that are noise alone."""
    y = residual if labels is None else labels
    return squared_residuals(LabelledSet(X=X, y=y, weight=torch.ones_like(y)), residual, torch.zeros_like(y))


@pytest.fixture(autouse=True)
def few_inducing_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "N_INDUCING", 32)


def estimated(
    errors: SquaredResiduals, *, shared_bandwidth: Tensor = WIDTH, seed: int = 0, smallest: float = 0.0
) -> NoiseModel:
    generator = torch.Generator().manual_seed(seed)
    return estimate_noise(errors, shared_bandwidth=shared_bandwidth, generator=generator, smallest=smallest)


def test_constant_noise_is_the_mean_square() -> None:
    errors = noisy(300)
    assert constant_log_variance(errors).exp().item() == pytest.approx(errors.total.mean().item())


def test_homoscedastic_residuals_give_a_constant_almost_always() -> None:
    models = [estimated(noisy(200, seed=seed), seed=seed) for seed in range(5)]
    assert sum(model.is_constant for model in models) >= 4
    X = torch.linspace(-1, 2, 50).double()[:, None]
    assert all((model(X) - 4.0).abs().max() < 2.0 for model in models)


def test_degrees_of_freedom_count_like_as_many_squares() -> None:
    errors = noisy(40)
    pooled = SquaredResiduals(
        errors.X[::2], errors.total[::2] + errors.total[1::2], torch.full((20,), 2.0).double(), torch.zeros(20).double()
    )
    both = SquaredResiduals(*(part[::2].repeat_interleave(2, dim=0) for part in errors))._replace(total=errors.total)
    design = torch.rand(20, 3).double()
    level = constant_log_variance(pooled)
    found = log_variance_parameters(design, pooled, level)
    assert torch.allclose(found, log_variance_parameters(design.repeat_interleave(2, dim=0), both, level))


def test_known_model_variance_is_not_taken_for_noise() -> None:
    generator = torch.Generator().manual_seed(1)
    X, u = (torch.rand(4000, 1, dtype=torch.float64, generator=generator) for _ in range(2))
    residual = (1.0 + 5.0 * u[:, 0]).sqrt() * torch.randn(4000, dtype=torch.float64, generator=generator)
    errors = squares(X, residual)._replace(model_variance=5.0 * u[:, 0])
    assert constant_log_variance(errors).exp().item() == pytest.approx(1.0, abs=0.2)


def test_derivatives_agree_with_autograd() -> None:
    g = torch.randn(6, dtype=torch.float64, requires_grad=True)
    errors = noisy(6)._replace(freedom=torch.arange(1.0, 7.0).double(), model_variance=torch.rand(6).double())
    slope, curvature = derivatives(g.detach(), errors)
    (first,) = torch.autograd.grad(log_likelihood(g, errors).sum(), g, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), g)
    assert torch.allclose(slope, first)
    assert torch.allclose(curvature, -second)


def test_newtons_method_ends_where_the_posterior_is_flat() -> None:
    errors = noisy(50)._replace(model_variance=torch.rand(50).double())
    design, level = torch.randn(50, 5).double(), constant_log_variance(errors)
    theta = log_variance_parameters(design, errors, level).requires_grad_()
    posterior = log_likelihood(level + design @ theta, errors).sum() - 0.5 * theta.square().sum()
    (gradient,) = torch.autograd.grad(posterior, theta)
    assert gradient.abs().max() < 1e-3


def test_with_every_point_inducing_it_is_the_dense_gaussian_process(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = noisy(40, slope=8.0)
    for name, value in {"N_INDUCING": 40, "WIDTHS": (3.0,), "SCALES": (2.0,)}.items():
        monkeypatch.setattr(module, name, value)
    model = estimated(errors)
    K = 1.0 + 2.0 * gram_matrices(squared_distances(errors.X, errors.X), 3.0 * WIDTH[None], gaussian)[0]
    root = torch.linalg.cholesky(K + 1e-8 * torch.eye(40))
    level = constant_log_variance(errors)

    def negative(z: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.tensor(z, requires_grad=True)
        value = 0.5 * leaf.square().sum() - log_likelihood(level + root @ leaf, errors).sum()
        return value.item(), torch.autograd.grad(value, leaf)[0].numpy()

    z = minimize(negative, np.zeros(40), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15}).x
    assert not model.is_constant
    assert torch.allclose(model(errors.X).log(), level + root @ torch.tensor(z), atol=1e-3)


def test_other_units_of_the_labels_scale_the_variance() -> None:
    errors = noisy(200, slope=6.0)
    larger = errors._replace(total=1e6 * errors.total, model_variance=1e6 * errors.model_variance)
    X = torch.linspace(0, 1, 20).double()[:, None]
    model = estimated(errors)
    assert not model.is_constant
    assert torch.allclose(estimated(larger)(X), 1e6 * model(X), rtol=1e-6)
    assert torch.allclose(model.scaled(1e6)(X), 1e6 * model(X))


@pytest.mark.parametrize("shared", [[1.0, 100.0], [[1.0, 0.5], [0.5, 100.0]]])
def test_units_of_the_columns_are_those_of_the_shared_bandwidth(shared: list) -> None:
    width = 0.5 * torch.tensor(shared).double()
    unit = noisy(200, d=2, slope=6.0)
    X = unit.X @ (width.mT if width.ndim == 2 else width.diag())
    found = estimated(unit._replace(X=X), shared_bandwidth=width)(X)
    assert torch.allclose(found, estimated(unit, shared_bandwidth=torch.ones(2).double())(unit.X), rtol=1e-6)


def test_far_from_the_labels_the_variance_is_an_ordinary_one() -> None:
    model = estimated(noisy(500, slope=6.0))
    X = torch.tensor([[-100.0], [100.0]]).double()
    assert torch.allclose(model(X), model.mean.exp().expand(2))
    inside = model(torch.linspace(0, 1, 100).double()[:, None])
    assert inside.min() <= model(X).min() <= inside.max()


def test_no_residual_at_all_gives_the_smallest_noise_there_is() -> None:
    X = torch.linspace(0, 1, 30).double()[:, None]
    variance = estimated(squares(X, torch.zeros(30).double()))(X)
    assert (variance > 0).all()
    assert variance.max() < 1e-100


def test_residuals_that_the_model_explains_leave_little_noise_but_some() -> None:
    errors = noisy(200)._replace(model_variance=torch.full((200,), 10.0).double())
    variance = estimated(errors)(errors.X)
    assert (variance >= 0.99 * SMALLEST_SHARE * errors.total.mean()).all()
    assert variance.max() < 0.1 * errors.total.mean()


def test_no_variance_is_below_the_least_allowed() -> None:
    errors = noisy(500, slope=6.0)
    free, bounded, constant = (estimated(errors, smallest=smallest) for smallest in (0.0, 4.0, 1e9))
    assert torch.allclose(bounded(errors.X), free(errors.X).clamp_min(4.0))
    assert constant.is_constant
    assert not bounded.is_constant


def test_replicates_tell_the_noise_whatever_the_residuals_say() -> None:
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(400, 1, dtype=torch.float64, generator=generator).repeat(2, 1)
    truth = (4.0 * X[:, 0]).exp()
    labels = 50.0 * X[:, 0] + truth.sqrt() * torch.randn(800, dtype=torch.float64, generator=generator)
    variance = estimated(squares(X, torch.full((800,), 99.0).double(), labels))(X)
    assert (variance / truth).log().abs().mean() < 0.2
