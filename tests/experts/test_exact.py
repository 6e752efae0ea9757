import gpytorch
import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from lobal.experts.exact import exact_experts, log_marginal_likelihood
from tests.experts.setting import CLOSE, OracleGP, Setting

every_expert = pytest.mark.parametrize("expert", [0, 1, 2])


@every_expert
def test_posterior_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    oracle = OracleGP(setting, setting.oracle_kernel(expert), setting.oracle_likelihood())
    mean, variance = oracle.predict(setting.X_new)
    ours = exact_experts(setting.X, setting.y, setting.hyperparameters, **setting.kernels).posterior(setting.X_new)
    torch.testing.assert_close(ours.mean[expert], mean, **CLOSE)
    torch.testing.assert_close(ours.variance[expert], variance, **CLOSE)


@every_expert
def test_posterior_with_noise_per_label_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(setting.noises)
    mean, variance = OracleGP(setting, setting.oracle_kernel(expert), likelihood).predict(setting.X_new)
    ours = exact_experts(setting.X, setting.y, setting.heteroscedastic, **setting.kernels).posterior(setting.X_new)
    torch.testing.assert_close(ours.mean[expert], mean, **CLOSE)
    torch.testing.assert_close(ours.variance[expert], variance, **CLOSE)


@every_expert
def test_marginal_likelihood_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    oracle = OracleGP(setting, setting.oracle_kernel(expert), setting.oracle_likelihood())
    ours = log_marginal_likelihood(setting.X, setting.y, setting.hyperparameters, **setting.kernels)
    torch.testing.assert_close(ours[expert], oracle.evidence(), **CLOSE)


@every_expert
def test_marginal_likelihood_with_noise_per_label_agrees_with_gpytorch(expert: int, setting: Setting) -> None:
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(setting.noises)
    oracle = OracleGP(setting, setting.oracle_kernel(expert), likelihood)
    ours = log_marginal_likelihood(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    torch.testing.assert_close(ours[expert], oracle.evidence(), **CLOSE)


@every_expert
@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_experts_agree_with_scikit_learn(expert: int, heteroscedastic: bool, setting: Setting) -> None:
    hyperparameters = setting.heteroscedastic if heteroscedastic else setting.hyperparameters
    mean, scale, noise = (value.numpy() for value in hyperparameters)
    widths = (setting.bandwidths[expert] * setting.shared_bandwidth).numpy()
    kernel = ConstantKernel(float(scale), "fixed") * RBF(widths, "fixed")
    oracle = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(setting.X, setting.y.numpy() - mean)
    expected, deviation = oracle.predict(setting.X_new, return_std=True)
    ours = exact_experts(setting.X, setting.y, hyperparameters, **setting.kernels).posterior(setting.X_new)
    evidence = log_marginal_likelihood(setting.X, setting.y, hyperparameters, **setting.kernels)
    np.testing.assert_allclose(ours.mean[expert], mean + expected, rtol=1e-6)
    np.testing.assert_allclose(ours.variance[expert], deviation**2, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(evidence[expert], oracle.log_marginal_likelihood_value_, rtol=1e-6)


def test_leave_one_out_by_formula_equals_refitting(setting: Setting) -> None:
    formula = exact_experts(setting.X, setting.y, setting.heteroscedastic, **setting.kernels).leave_one_out()
    for i in range(len(setting.y)):
        rest = torch.arange(len(setting.y)) != i
        without = setting.hyperparameters._replace(noise=setting.noises[rest])
        refitted = exact_experts(setting.X[rest], setting.y[rest], without, **setting.kernels)
        mean, variance = refitted.posterior(setting.X[i : i + 1])
        torch.testing.assert_close(formula.mean[:, i], mean[:, 0], **CLOSE)
        torch.testing.assert_close(formula.variance[:, i], variance[:, 0] + setting.noises[i], **CLOSE)


def test_marginal_likelihood_is_the_sum_of_conditional_ones(setting: Setting) -> None:
    expected = torch.zeros(3, dtype=torch.float64)
    for i in range(1, len(setting.y)):
        earlier = setting.hyperparameters._replace(noise=setting.noises[:i])
        mean, variance = exact_experts(setting.X[:i], setting.y[:i], earlier, **setting.kernels).posterior(
            setting.X[i : i + 1]
        )
        deviation = (variance[:, 0] + setting.noises[i]).sqrt()
        expected += torch.distributions.Normal(mean[:, 0], deviation).log_prob(setting.y[i])
    first = setting.hyperparameters._replace(noise=setting.noises[:1])
    expected += log_marginal_likelihood(setting.X[:1], setting.y[:1], first, **setting.kernels)
    whole = log_marginal_likelihood(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    torch.testing.assert_close(whole, expected, **CLOSE)


def test_marginal_likelihood_is_differentiable_in_all_hyperparameters(setting: Setting) -> None:
    def evidence(bandwidths: torch.Tensor, shared_bandwidth: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        hyperparameters = type(setting.hyperparameters)(*values)
        kernels = {**setting.kernels, "bandwidths": bandwidths, "shared_bandwidth": shared_bandwidth}
        return log_marginal_likelihood(setting.X[:6], setting.y[:6], hyperparameters, **kernels)

    inputs = (setting.bandwidths, setting.shared_bandwidth, *setting.hyperparameters)
    assert torch.autograd.gradcheck(evidence, tuple(value.clone().requires_grad_() for value in inputs))


def test_vanishing_noise_interpolates_the_labels(setting: Setting) -> None:
    quiet = setting.hyperparameters._replace(noise=torch.tensor(1e-9, dtype=torch.float64))
    narrow = {**setting.kernels, "bandwidths": setting.bandwidths[:1]}
    mean, variance = exact_experts(setting.X, setting.y, quiet, **narrow).posterior(setting.X)
    torch.testing.assert_close(mean[0], setting.y, rtol=0.0, atol=1e-5)
    assert variance.max() < 1e-8


def test_constant_noise_equals_the_same_noise_per_label(setting: Setting) -> None:
    per_label = setting.hyperparameters._replace(noise=setting.hyperparameters.noise.expand(len(setting.y)))
    number = exact_experts(setting.X, setting.y, setting.hyperparameters, **setting.kernels)
    vector = exact_experts(setting.X, setting.y, per_label, **setting.kernels)
    torch.testing.assert_close(number.leave_one_out(), vector.leave_one_out(), rtol=0.0, atol=0.0)
