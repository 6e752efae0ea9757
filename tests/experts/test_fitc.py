import math

import gpytorch
import pytest
import torch
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures
from lobal.experts.exact import exact_experts, log_marginal_likelihood
from lobal.experts.fitc import (
    LabelVariance,
    analytic_experts,
    fitc_variance,
    inducing_covariance,
    inducing_mean,
    log_evidence,
    moments,
    normal_equations,
    titsias_variance,
)
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import (
    DiagonalCovariance,
    FullCovariance,
    InducingCovariance,
    ZeroCovariance,
    expected_log_likelihood,
    kl_divergence,
    nystroem_diagonal,
    predictive_mean,
)
from tests.experts.setting import CLOSE, OracleGP, Setting

LABEL_VARIANCES = {"fitc": fitc_variance, "titsias": titsias_variance}
every_expert = pytest.mark.parametrize("expert", [0, 1, 2])
every_variance = pytest.mark.parametrize("label_variance", LABEL_VARIANCES.values(), ids=LABEL_VARIANCES.keys())


def dense_prior(setting: Setting, A: Tensor, B: Tensor) -> Tensor:
    """lambda Q between two sets of inputs, (L, n, m)."""
    return setting.hyperparameters.scale * setting.features(A) @ setting.features(B).mT


def oracle_model(setting: Setting, expert: int, likelihood: gpytorch.likelihoods.Likelihood) -> OracleGP:
    kernel = setting.oracle_kernel(expert)
    return OracleGP(setting, gpytorch.kernels.InducingPointKernel(kernel, setting.Z, likelihood), likelihood)


def objective(setting: Setting, b: Tensor, covariance: InducingCovariance, label_variance: LabelVariance) -> Tensor:
    """sum_b P_b - KL of every expert, Eq. (eq:elbo) with the sum in the place of the average."""
    shared, phi = setting.heteroscedastic, setting.features(setting.X)
    residual = setting.y - predictive_mean(phi, b, shared.mean, shared.scale)
    s = label_variance(nystroem_diagonal(phi), shared)
    fit = expected_log_likelihood(residual, s, shared.scale * covariance.quadratic(phi))
    return fit.sum(-1) - kl_divergence(b, covariance)


@every_variance
@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_posterior_agrees_with_the_dense_formula(
    heteroscedastic: bool, label_variance: LabelVariance, setting: Setting
) -> None:
    shared = setting.heteroscedastic if heteroscedastic else setting.hyperparameters
    Q_nn, Q_xn = dense_prior(setting, setting.X, setting.X), dense_prior(setting, setting.X_new, setting.X)
    missed = shared.scale - Q_nn.diagonal(dim1=-2, dim2=-1) if label_variance is fitc_variance else 0.0
    C = Q_nn + torch.diag_embed((missed + shared.noise).expand(3, 30))
    solved = torch.linalg.solve(C, Q_xn.mT).mT
    ours = analytic_experts(setting.features, setting.X, setting.y, shared, label_variance=label_variance)
    mean, variance = ours.posterior(setting.X_new)
    torch.testing.assert_close(mean, shared.mean + solved @ (setting.y - shared.mean), **CLOSE)
    torch.testing.assert_close(variance, shared.scale - (solved * Q_xn).sum(-1), **CLOSE)


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_fitc_evidence_agrees_with_the_dense_formula(heteroscedastic: bool, setting: Setting) -> None:
    shared = setting.heteroscedastic if heteroscedastic else setting.hyperparameters
    Q = dense_prior(setting, setting.X, setting.X)
    C = Q + torch.diag_embed(shared.scale - Q.diagonal(dim1=-2, dim2=-1) + shared.noise)
    prior = torch.distributions.MultivariateNormal(shared.mean.expand(3, len(setting.y)), C)
    ours = log_evidence(setting.features(setting.X), setting.y, shared, label_variance=fitc_variance)
    torch.testing.assert_close(ours, prior.log_prob(setting.y), **CLOSE)


@every_expert
def test_fitc_posterior_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    oracle = oracle_model(setting, expert, setting.oracle_likelihood())
    with gpytorch.settings.sgpr_diagonal_correction(True):
        mean, variance = oracle.predict(setting.X_new)
    ours = analytic_experts(setting.features, setting.X, setting.y, setting.hyperparameters)
    torch.testing.assert_close(ours.posterior(setting.X_new).mean[expert], mean, **CLOSE)
    torch.testing.assert_close(ours.posterior(setting.X_new).variance[expert], variance, **CLOSE)


@every_expert
def test_titsias_posterior_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    oracle = oracle_model(setting, expert, setting.oracle_likelihood())
    with gpytorch.settings.sgpr_diagonal_correction(False):
        mean, variance = oracle.predict(setting.X_new)
    ours = analytic_experts(
        setting.features, setting.X, setting.y, setting.hyperparameters, label_variance=titsias_variance
    )
    unexplained = 1.7 * (1.0 - nystroem_diagonal(setting.features(setting.X_new)))  # which GPyTorch leaves out
    torch.testing.assert_close(ours.posterior(setting.X_new).mean[expert], mean, **CLOSE)
    torch.testing.assert_close((ours.posterior(setting.X_new).variance - unexplained)[expert], variance, **CLOSE)


@every_expert
def test_titsias_bound_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    oracle = oracle_model(setting, expert, setting.oracle_likelihood())
    phi = setting.features(setting.X)
    ours = log_evidence(phi, setting.y, setting.hyperparameters, label_variance=titsias_variance)
    torch.testing.assert_close(ours[expert], oracle.evidence(), **CLOSE)


def test_titsias_bound_with_noise_per_label_agrees_with_the_dense_formula(setting: Setting) -> None:
    shared = setting.heteroscedastic
    Q = dense_prior(setting, setting.X, setting.X)
    prior = torch.distributions.MultivariateNormal(
        shared.mean.expand(3, len(setting.y)), Q + torch.diag_embed(shared.noise)
    )
    trace = ((shared.scale - Q.diagonal(dim1=-2, dim2=-1)) / shared.noise).sum(-1)
    ours = log_evidence(setting.features(setting.X), setting.y, shared, label_variance=titsias_variance)
    torch.testing.assert_close(ours, prior.log_prob(setting.y) - 0.5 * trace, **CLOSE)


def test_titsias_bound_never_exceeds_the_exact_marginal_likelihood(setting: Setting) -> None:
    exact = log_marginal_likelihood(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    bounds = [
        log_evidence(
            WhitenedFeatures.at(setting.X[:m], **setting.kernels)(setting.X),
            setting.y,
            setting.heteroscedastic,
            label_variance=titsias_variance,
        )
        for m in (1, 5, 15, 30)
    ]
    assert (torch.stack([*bounds, exact]).diff(dim=0) > -1e-6).all()
    torch.testing.assert_close(bounds[-1], exact, **CLOSE)


@every_variance
def test_every_point_inducing_equals_the_exact_posterior(label_variance: LabelVariance, setting: Setting) -> None:
    features = WhitenedFeatures.at(setting.X, **setting.kernels)
    sparse = analytic_experts(features, setting.X, setting.y, setting.heteroscedastic, label_variance=label_variance)
    exact = exact_experts(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    torch.testing.assert_close(sparse.posterior(setting.X_new), exact.posterior(setting.X_new), **CLOSE)


@every_variance
def test_every_point_inducing_gives_the_exact_evidence(label_variance: LabelVariance, setting: Setting) -> None:
    phi = WhitenedFeatures.at(setting.X, **setting.kernels)(setting.X)
    sparse = log_evidence(phi, setting.y, setting.heteroscedastic, label_variance=label_variance)
    exact = log_marginal_likelihood(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    torch.testing.assert_close(sparse, exact, **CLOSE)


@every_variance
@pytest.mark.parametrize("kind", ["zero", "diagonal", "full"])
def test_the_objective_is_flat_at_the_analytic_solution(
    kind: str, label_variance: LabelVariance, setting: Setting
) -> None:
    phi = setting.features(setting.X)
    s = label_variance(nystroem_diagonal(phi), setting.heteroscedastic)
    equations = normal_equations([moments(phi, setting.y, setting.heteroscedastic, precision=1.0 / s)])
    precision = equations.factor @ equations.factor.mT
    covariance = {
        "zero": ZeroCovariance(),
        "diagonal": DiagonalCovariance(-precision.diagonal(dim1=-2, dim2=-1).log().clone()),
        "full": inducing_covariance(equations),
    }[kind]
    leaves = [inducing_mean(equations), *covariance.parameters.values()]
    for leaf in leaves:
        leaf.requires_grad_()
    objective(setting, leaves[0], covariance, label_variance).sum().backward()
    for leaf in leaves:
        torch.testing.assert_close(leaf.grad, torch.zeros_like(leaf), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("kind", ["mean", "root"])
def test_the_objective_falls_away_from_the_analytic_solution(kind: str, setting: Setting) -> None:
    best = analytic_experts(setting.features, setting.X, setting.y, setting.heteroscedastic)
    b, root = best.whitened_mean, best.covariance.parameters["root"]
    moved = (b + 0.01, root) if kind == "mean" else (b, 1.01 * root)
    at_best = objective(setting, b, FullCovariance(root), fitc_variance)
    assert (objective(setting, moved[0], FullCovariance(moved[1]), fitc_variance) < at_best - 1e-6).all()


def test_the_objective_at_its_optimum_is_the_log_evidence(setting: Setting) -> None:
    best = analytic_experts(setting.features, setting.X, setting.y, setting.heteroscedastic)
    at_best = objective(setting, best.whitened_mean, best.covariance, fitc_variance)
    phi = setting.features(setting.X)
    evidence = log_evidence(phi, setting.y, setting.heteroscedastic, label_variance=fitc_variance)
    torch.testing.assert_close(at_best - 0.5 * len(setting.y) * math.log(2.0 * math.pi), evidence, **CLOSE)


def test_inducing_covariance_is_the_inverse_of_the_normal_matrix(setting: Setting) -> None:
    phi = setting.features(setting.X)
    s = fitc_variance(nystroem_diagonal(phi), setting.heteroscedastic)
    equations = normal_equations([moments(phi, setting.y, setting.heteroscedastic, precision=1.0 / s)])
    root = inducing_covariance(equations).root
    A = equations.factor @ equations.factor.mT
    identity = torch.eye(9, dtype=torch.float64).expand(3, -1, -1)
    torch.testing.assert_close(root @ root.mT @ A, identity)


@every_variance
def test_normal_equations_of_parts_equal_those_of_the_whole(label_variance: LabelVariance, setting: Setting) -> None:
    phi, y, noise = setting.features(setting.X), setting.y, setting.noises

    def part(rows: slice) -> tuple[Tensor, Tensor]:
        shared = setting.hyperparameters._replace(noise=noise[rows])
        s = label_variance(nystroem_diagonal(phi[:, rows]), shared)
        return moments(phi[:, rows], y[rows], shared, precision=1.0 / s)

    whole = normal_equations([part(slice(None))])
    parts = normal_equations(part(slice(start, start + 7)) for start in range(0, 30, 7))
    torch.testing.assert_close(parts, whole)


def test_a_weight_of_zero_removes_a_label(setting: Setting) -> None:
    weights = torch.ones(3, 30, dtype=torch.float64)
    weights[:, 20:] = 0.0
    some = setting.hyperparameters._replace(noise=setting.noises[:20])
    weighted = analytic_experts(setting.features, setting.X, setting.y, setting.heteroscedastic, weights=weights)
    without = analytic_experts(setting.features, setting.X[:20], setting.y[:20], some)
    torch.testing.assert_close(weighted.posterior(setting.X_new), without.posterior(setting.X_new))


@every_variance
def test_a_weight_of_two_equals_the_label_twice(label_variance: LabelVariance, setting: Setting) -> None:
    options = {"label_variance": label_variance}
    doubled = analytic_experts(
        setting.features,
        setting.X,
        setting.y,
        setting.hyperparameters,
        weights=setting.X.new_full((3, 30), 2.0),
        **options,
    )
    twice = analytic_experts(
        setting.features, setting.X.repeat(2, 1), setting.y.repeat(2), setting.hyperparameters, **options
    )
    torch.testing.assert_close(doubled.posterior(setting.X_new), twice.posterior(setting.X_new))


def test_label_variances_are_those_of_the_docstring() -> None:
    q = torch.tensor([[0.0, 0.4, 1.0]], dtype=torch.float64)
    shared = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.0, 2.0, 0.5)))
    torch.testing.assert_close(fitc_variance(q, shared), q.new_tensor([[2.5, 1.7, 0.5]]))
    torch.testing.assert_close(titsias_variance(q, shared), q.new_tensor([[0.5, 0.5, 0.5]]))
