import gpytorch
import pytest
import torch
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures
from lobal.experts.exact import exact_experts
from lobal.experts.fitc import conditioned, fitc_variance, moments
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import (
    COVARIANCES,
    InducingCovariance,
    expected_log_likelihood,
    kl_divergence,
    nystroem_diagonal,
    predictive_mean,
)
from tests.experts.setting import CLOSE, OracleGP, Setting, fitc_experts

every_expert = pytest.mark.parametrize("expert", [0, 1, 2])


def dense_prior(setting: Setting, A: Tensor, B: Tensor) -> Tensor:
    """lambda Q between two sets of inputs, (L, n, m)."""
    return setting.hyperparameters.scale * setting.features(A) @ setting.features(B).mT


def oracle_model(setting: Setting, expert: int, likelihood: gpytorch.likelihoods.Likelihood) -> OracleGP:
    kernel = setting.oracle_kernel(expert)
    return OracleGP(setting, gpytorch.kernels.InducingPointKernel(kernel, setting.Z, likelihood), likelihood)


def objective(setting: Setting, b: Tensor, covariance: InducingCovariance) -> Tensor:
    """sum_b P_b - KL of every expert, Eq. (eq:elbo) with the sum in the place of the average."""
    hyperparameters, phi = setting.heteroscedastic, setting.features(setting.X)
    residual = setting.y - predictive_mean(phi, b, hyperparameters.mean, hyperparameters.scale)
    s = fitc_variance(nystroem_diagonal(phi), hyperparameters)
    fit = expected_log_likelihood(residual, s, hyperparameters.scale * covariance.quadratic(phi))
    return fit.sum(-1) - kl_divergence(b, covariance)


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_posterior_agrees_with_the_dense_formula(heteroscedastic: bool, setting: Setting) -> None:
    hyperparameters = setting.heteroscedastic if heteroscedastic else setting.hyperparameters
    Q_nn, Q_xn = dense_prior(setting, setting.X, setting.X), dense_prior(setting, setting.X_new, setting.X)
    missed = hyperparameters.scale - Q_nn.diagonal(dim1=-2, dim2=-1)
    C = Q_nn + torch.diag_embed((missed + hyperparameters.noise).expand(3, 30))
    solved = torch.linalg.solve(C, Q_xn.mT).mT
    ours = fitc_experts(setting.features, setting.X, setting.y, hyperparameters)
    mean, variance = ours.posterior(setting.X_new)
    torch.testing.assert_close(mean, hyperparameters.mean + solved @ (setting.y - hyperparameters.mean), **CLOSE)
    torch.testing.assert_close(variance, hyperparameters.scale - (solved * Q_xn).sum(-1), **CLOSE)


@every_expert
def test_fitc_posterior_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    oracle = oracle_model(setting, expert, setting.oracle_likelihood())
    with gpytorch.settings.sgpr_diagonal_correction(True):
        mean, variance = oracle.predict(setting.X_new)
    ours = fitc_experts(setting.features, setting.X, setting.y, setting.hyperparameters)
    torch.testing.assert_close(ours.posterior(setting.X_new).mean[expert], mean, **CLOSE)
    torch.testing.assert_close(ours.posterior(setting.X_new).variance[expert], variance, **CLOSE)


def test_every_point_inducing_equals_the_exact_posterior(setting: Setting) -> None:
    features = WhitenedFeatures.at(setting.X, **setting.kernels)
    sparse = fitc_experts(features, setting.X, setting.y, setting.heteroscedastic)
    exact = exact_experts(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    torch.testing.assert_close(sparse.posterior(setting.X_new), exact.posterior(setting.X_new), **CLOSE)


@pytest.mark.parametrize("kind", COVARIANCES.values())
def test_the_objective_is_flat_at_the_analytic_solution(kind: type[InducingCovariance], setting: Setting) -> None:
    best = fitc_experts(setting.features, setting.X, setting.y, setting.heteroscedastic, covariance=kind)
    leaves = [best.whitened_mean, *best.covariance.parameters.values()]
    for leaf in leaves:
        leaf.requires_grad_()
    objective(setting, best.whitened_mean, best.covariance).sum().backward()
    for leaf in leaves:
        torch.testing.assert_close(leaf.grad, torch.zeros_like(leaf), rtol=0.0, atol=1e-8)


def test_the_posterior_of_parts_equals_that_of_the_whole(setting: Setting) -> None:
    phi, y, noise = setting.features(setting.X), setting.y, setting.noises

    def part(rows: slice) -> tuple[Tensor, Tensor]:
        hyperparameters = setting.hyperparameters._replace(noise=noise[rows])
        s = fitc_variance(nystroem_diagonal(phi[:, rows]), hyperparameters)
        return moments(phi[:, rows], y[rows], hyperparameters, precision=1.0 / s)

    whole = conditioned([part(slice(None))])
    parts = conditioned(part(slice(start, start + 7)) for start in range(0, 30, 7))
    torch.testing.assert_close(parts, whole)


def test_a_weight_of_zero_removes_a_label(setting: Setting) -> None:
    weights = torch.ones(3, 30, dtype=torch.float64)
    weights[:, 20:] = 0.0
    some = setting.hyperparameters._replace(noise=setting.noises[:20])
    weighted = fitc_experts(setting.features, setting.X, setting.y, setting.heteroscedastic, weights=weights)
    without = fitc_experts(setting.features, setting.X[:20], setting.y[:20], some)
    torch.testing.assert_close(weighted.posterior(setting.X_new), without.posterior(setting.X_new))


def test_a_weight_of_two_equals_the_label_twice(setting: Setting) -> None:
    doubled = fitc_experts(
        setting.features,
        setting.X,
        setting.y,
        setting.hyperparameters,
        weights=setting.X.new_full((3, 30), 2.0),
    )
    twice = fitc_experts(setting.features, setting.X.repeat(2, 1), setting.y.repeat(2), setting.hyperparameters)
    torch.testing.assert_close(doubled.posterior(setting.X_new), twice.posterior(setting.X_new))


def test_the_label_variance_is_that_of_the_docstring() -> None:
    q = torch.tensor([[0.0, 0.4, 1.0]], dtype=torch.float64)
    hyperparameters = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.0, 2.0, 0.5)))
    torch.testing.assert_close(fitc_variance(q, hyperparameters), q.new_tensor([[2.5, 1.7, 0.5]]))
