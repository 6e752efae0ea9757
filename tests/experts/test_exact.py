from itertools import pairwise

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from lobal.experts.exact import exact_experts, neighbourhoods
from tests.experts.setting import CLOSE, OracleGP, Setting

MOST = 7  # rows of a neighbourhood
every_expert = pytest.mark.parametrize("expert", [0, 1, 2])
every_noise = pytest.mark.parametrize("heteroscedastic", [False, True], ids=["one noise", "noise per label"])


@every_expert
@every_noise
def test_posterior_agrees_with_gpytorch(expert: int, heteroscedastic: bool, setting: Setting) -> None:
    likelihood, hyperparameters = setting.oracle_likelihood(), setting.hyperparameters
    if heteroscedastic:
        likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(setting.noises)
        hyperparameters = setting.heteroscedastic
    oracle = OracleGP(setting, setting.oracle_kernel(expert), likelihood)
    mean, variance = oracle.predict(setting.X_new)
    experts = exact_experts(setting.X, setting.y, hyperparameters, **setting.kernels)
    torch.testing.assert_close(experts.posterior(setting.X_new).mean[expert], mean, **CLOSE)
    torch.testing.assert_close(experts.posterior(setting.X_new).variance[expert], variance, **CLOSE)
    torch.testing.assert_close(experts.log_marginal_likelihood()[expert], oracle.evidence(), **CLOSE)


@every_expert
@every_noise
def test_experts_agree_with_scikit_learn(expert: int, heteroscedastic: bool, setting: Setting) -> None:
    hyperparameters = setting.heteroscedastic if heteroscedastic else setting.hyperparameters
    mean, scale, noise = (value.numpy() for value in hyperparameters)
    widths = (setting.bandwidths[expert] * setting.shared_bandwidth).numpy()
    kernel = ConstantKernel(float(scale), "fixed") * RBF(widths, "fixed")
    oracle = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(setting.X, setting.y.numpy() - mean)
    expected, deviation = oracle.predict(setting.X_new, return_std=True)
    covariance = oracle.predict(setting.X_new, return_cov=True)[1]
    experts = exact_experts(setting.X, setting.y, hyperparameters, **setting.kernels)
    ours, evidence = experts.posterior(setting.X_new), experts.log_marginal_likelihood()
    np.testing.assert_allclose(ours.mean[expert], mean + expected, rtol=1e-6)
    np.testing.assert_allclose(ours.variance[expert], deviation**2, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(experts.joint_covariance(setting.X_new, expert), covariance, rtol=1e-6, atol=1e-7)
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


def test_vanishing_noise_interpolates_the_labels(setting: Setting) -> None:
    quiet = setting.hyperparameters._replace(noise=torch.tensor(1e-9, dtype=torch.float64))
    narrow = {**setting.kernels, "bandwidths": setting.bandwidths[:1]}
    mean, variance = exact_experts(setting.X, setting.y, quiet, **narrow).posterior(setting.X)
    torch.testing.assert_close(mean[0], setting.y, rtol=0.0, atol=1e-5)
    assert variance.max() < 1e-8


@pytest.fixture
def inputs(generator: torch.Generator) -> torch.Tensor:
    return torch.rand(50, 2, dtype=torch.float64, generator=generator) * torch.tensor([100.0, 1.0])


def test_every_row_is_in_one_group_and_none_is_too_large(inputs: torch.Tensor) -> None:
    groups = neighbourhoods(inputs, MOST)
    assert torch.equal(torch.cat(groups).sort().values, torch.arange(50))
    assert max(len(rows) for rows in groups) <= MOST


def test_groups_are_alike_in_size(inputs: torch.Tensor) -> None:
    sizes = [len(rows) for rows in neighbourhoods(inputs, MOST)]
    assert max(sizes) - min(sizes) <= 1


def test_the_widest_column_is_divided(inputs: torch.Tensor) -> None:
    groups = [inputs[rows, 0] for rows in neighbourhoods(inputs, MOST)]
    assert all(left.max() <= right.min() for left, right in pairwise(groups))


def test_few_points_stay_together(inputs: torch.Tensor) -> None:
    (rows,) = neighbourhoods(inputs, 50)
    assert torch.equal(rows, torch.arange(50))


def test_equal_points_can_be_divided_too() -> None:
    assert len(neighbourhoods(torch.zeros(8, 2).double(), 2)) == 4
