import math
from collections.abc import Callable

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    DeltaVariationalDistribution,
    MeanFieldVariationalDistribution,
    VariationalStrategy,
)
from scipy.integrate import trapezoid
from torch import Tensor

from lobal.core.linalg import SMALLEST_JITTER
from lobal.experts.svgp import (
    DiagonalCovariance,
    FullCovariance,
    InducingCovariance,
    SparseExperts,
    ZeroCovariance,
    expected_log_likelihood,
    kl_divergence,
    nystroem_diagonal,
    predictive_mean,
)
from tests.experts.setting import CLOSE, Setting

COVARIANCES: dict[str, Callable[[torch.Generator], InducingCovariance]] = {
    "zero": lambda _: ZeroCovariance(),
    "diagonal": lambda generator: DiagonalCovariance(-normal(generator, 3, 9).square()),
    "full": lambda generator: FullCovariance(0.2 * normal(generator, 3, 9, 9).triu() + 0.5 * torch.eye(9)),
}
every_covariance = pytest.mark.parametrize("kind", sorted(COVARIANCES))


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def dense(covariance: InducingCovariance) -> Tensor:
    """S as a matrix per expert."""
    match covariance:
        case DiagonalCovariance(log_variance):
            return torch.diag_embed(log_variance.exp())
        case FullCovariance(root):
            return root @ root.mT
    return torch.zeros(3, 9, 9, dtype=torch.float64)


class Oracle(gpytorch.models.ApproximateGP):
    """GPyTorch's whitened sparse Gaussian process of one expert with the given variational distribution."""

    def __init__(self, setting: Setting, expert: int, b: Tensor, covariance: InducingCovariance) -> None:
        jitter = SMALLEST_JITTER * setting.hyperparameters.scale.item()
        distribution = variational_distribution(b[expert], covariance, expert)
        strategy = VariationalStrategy(self, setting.Z, distribution, learn_inducing_locations=False, jitter_val=jitter)
        super().__init__(strategy)
        strategy.variational_params_initialized.fill_(1)
        self.mean_module = setting.oracle_mean()
        self.covar_module = setting.oracle_kernel(expert)
        self.eval()

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def variational_distribution(
    b: Tensor, covariance: InducingCovariance, expert: int
) -> gpytorch.variational._VariationalDistribution:
    match covariance:
        case DiagonalCovariance(log_variance):
            distribution = MeanFieldVariationalDistribution(len(b)).double()
            distribution._variational_stddev.data = (0.5 * log_variance[expert]).exp()
        case FullCovariance(root):
            distribution = CholeskyVariationalDistribution(len(b)).double()
            distribution.chol_variational_covar.data = torch.linalg.cholesky(root[expert] @ root[expert].mT)
        case _:
            distribution = DeltaVariationalDistribution(len(b)).double()
    distribution.variational_mean.data = b
    return distribution


@every_covariance
@pytest.mark.parametrize("expert", [0, 1, 2])
def test_posterior_agrees_with_gpytorch(kind: str, expert: int, setting: Setting, generator: torch.Generator) -> None:
    b, covariance = normal(generator, 3, 9), COVARIANCES[kind](generator)
    experts = SparseExperts(
        features=setting.features, hyperparameters=setting.hyperparameters, whitened_mean=b, covariance=covariance
    )
    with torch.no_grad():
        expected = Oracle(setting, expert, b, covariance)(setting.X_new)
    mean, variance = experts.posterior(setting.X_new)
    torch.testing.assert_close(mean[expert], expected.mean, **CLOSE)
    torch.testing.assert_close(variance[expert], expected.variance, **CLOSE)
    joint = experts.joint_covariance(setting.X_new, expert)
    torch.testing.assert_close(joint, expected.covariance_matrix.detach(), **CLOSE)


@every_covariance
@pytest.mark.parametrize("expert", [0, 1, 2])
def test_divergence_agrees_with_gpytorch(kind: str, expert: int, setting: Setting, generator: torch.Generator) -> None:
    b, covariance = normal(generator, 3, 9), COVARIANCES[kind](generator)
    with torch.no_grad():
        expected = Oracle(setting, expert, b, covariance).variational_strategy.kl_divergence()
    if kind == "zero":
        expected = expected - 0.5 * 9 * math.log(2.0 * math.pi)  # the constant that ours leaves out
    torch.testing.assert_close(kl_divergence(b, covariance)[expert], expected, **CLOSE)


@every_covariance
def test_quadratic_form_agrees_with_the_dense_matrix(kind: str, generator: torch.Generator) -> None:
    covariance, phi = COVARIANCES[kind](generator), normal(generator, 3, 5, 9)
    expected = torch.einsum("lni,lij,lnj->ln", phi, dense(covariance), phi)
    torch.testing.assert_close(covariance.quadratic(phi), expected, rtol=1e-12, atol=1e-12)


def test_what_lies_below_the_diagonal_of_a_root_is_ignored(generator: torch.Generator) -> None:
    phi, root = normal(generator, 3, 5, 9), normal(generator, 3, 9, 9)
    torch.testing.assert_close(FullCovariance(root).quadratic(phi), FullCovariance(root.triu()).quadratic(phi))
    torch.testing.assert_close(FullCovariance(root).divergence(), FullCovariance(root.triu()).divergence())
    torch.testing.assert_close(FullCovariance(root).rooted(phi[1], 1), FullCovariance(root.triu()).rooted(phi[1], 1))


@every_covariance
def test_a_snapshot_does_not_follow_training(kind: str, generator: torch.Generator) -> None:
    covariance = COVARIANCES[kind](generator)
    before, snapshot = dense(covariance), covariance.snapshot()
    for tensor in covariance.parameters.values():
        tensor.add_(1.0)
    torch.testing.assert_close(dense(snapshot), before, rtol=0.0, atol=0.0)


def test_the_prior_is_recovered_from_standard_normal_inducing_values(setting: Setting) -> None:
    identity = torch.eye(9, dtype=torch.float64).repeat(3, 1, 1)
    prior = SparseExperts(
        features=setting.features,
        hyperparameters=setting.hyperparameters,
        whitened_mean=torch.zeros(3, 9, dtype=torch.float64),
        covariance=FullCovariance(identity),
    )
    mean, variance = prior.posterior(setting.X_new)
    torch.testing.assert_close(mean, torch.full_like(mean, setting.hyperparameters.mean.item()))
    torch.testing.assert_close(variance, torch.full_like(variance, setting.hyperparameters.scale.item()))


def test_without_covariance_the_variance_is_what_the_inducing_points_miss(setting: Setting) -> None:
    experts = SparseExperts(
        features=setting.features,
        hyperparameters=setting.hyperparameters,
        whitened_mean=torch.ones(3, 9, dtype=torch.float64),
    )
    q = nystroem_diagonal(setting.features(setting.X_new))
    torch.testing.assert_close(experts.posterior(setting.X_new).variance, 1.7 * (1.0 - q))
    assert experts.posterior(setting.Z).variance.max() < 1e-8


def test_the_mean_interpolates_given_inducing_values(setting: Setting, generator: torch.Generator) -> None:
    u = normal(generator, 3, 9)
    mean, scale, _ = setting.hyperparameters
    b = torch.linalg.solve_triangular(setting.features.factor, (u - mean)[:, :, None], upper=False)[:, :, 0]
    at_points = predictive_mean(setting.features(setting.Z), b / scale.sqrt(), mean, scale)
    torch.testing.assert_close(at_points, u, **CLOSE)


def test_posterior_in_chunks_equals_the_posterior_at_once(
    setting: Setting, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = setting.features
    experts = SparseExperts(
        features=features,
        hyperparameters=setting.hyperparameters,
        whitened_mean=normal(generator, 3, 9),
        covariance=COVARIANCES["full"](generator),
    )
    whole = experts.posterior(setting.X_new)
    monkeypatch.setattr(type(features), "chunks", lambda self, X: (self(part) for part in X.split(4)))
    torch.testing.assert_close(experts.posterior(setting.X_new), whole)


def test_expected_log_likelihood_agrees_with_integration() -> None:
    """E_u log int p(y|f) p(f|u) df: trapezoids inside, Gauss-Hermite outside, less log(2 pi) / 2."""
    y, mean, unexplained, noise, uncertainty = 0.7, 0.2, 0.3, 0.05, 0.4
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    f = np.linspace(-15.0, 15.0, 200_001)
    inner = [
        trapezoid(np.exp(-0.5 * ((y - f) ** 2 / noise + (f - centre) ** 2 / unexplained)), f)
        / (2.0 * np.pi * np.sqrt(noise * unexplained))
        for centre in mean + np.sqrt(uncertainty) * nodes
    ]
    expected = weights @ np.log(inner) / weights.sum() + 0.5 * np.log(2.0 * np.pi)
    arguments = [torch.full((1, 1), value) for value in (y - mean, unexplained + noise, uncertainty)]
    assert expected_log_likelihood(*arguments).item() == pytest.approx(expected, abs=1e-6)


def test_expected_log_likelihood_agrees_with_drawn_inducing_values(
    setting: Setting, generator: torch.Generator
) -> None:
    b, covariance = normal(generator, 3, 9), COVARIANCES["full"](generator)
    mean, scale, noise = setting.hyperparameters
    phi = setting.features(setting.X)
    s = scale * (1.0 - nystroem_diagonal(phi)) + noise
    drawn = b + torch.einsum("lij,klj->kli", covariance.root, normal(generator, 4000, 3, 9))
    drawn_means = mean + scale.sqrt() * torch.einsum("lnm,klm->kln", phi, drawn)
    log_likelihoods = torch.distributions.Normal(drawn_means, s.sqrt()).log_prob(setting.y)
    residual = setting.y - predictive_mean(phi, b, mean, scale)
    ours = expected_log_likelihood(residual, s, scale * covariance.quadratic(phi)) - 0.5 * math.log(2.0 * math.pi)
    standard_error = log_likelihoods.std(0) / math.sqrt(4000)
    assert ((ours - log_likelihoods.mean(0)).abs() < 5.0 * standard_error).all()


def test_nystroem_diagonal_never_exceeds_one() -> None:
    phi = torch.full((1, 1, 4), 0.5 + 1e-9, dtype=torch.float64)
    assert nystroem_diagonal(phi).item() == 1.0
