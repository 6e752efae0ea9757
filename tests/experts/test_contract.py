"""What every expert promises, whatever its kind."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from lobal.experts.exact import exact_experts
from lobal.experts.interface import Experts, Hyperparameters
from lobal.experts.svgp import COVARIANCES, InducingCovariance
from tests.experts.setting import Setting, fitc_experts

Make = Callable[[Setting, Hyperparameters], Experts]


def exact(setting: Setting, hyperparameters: Hyperparameters) -> Experts:
    return exact_experts(setting.X, setting.y, hyperparameters, **setting.kernels)


def sparse(setting: Setting, hyperparameters: Hyperparameters, *, covariance: type[InducingCovariance]) -> Experts:
    return fitc_experts(setting.features, setting.X, setting.y, hyperparameters, covariance=covariance)


EXPERTS: dict[str, Make] = {
    "exact": exact,
    **{name: partial(sparse, covariance=kind) for name, kind in COVARIANCES.items()},
}
every_kind = pytest.mark.parametrize("make", EXPERTS.values(), ids=EXPERTS.keys())


def everywhere(setting: Setting) -> Tensor:
    """Training, inducing, new and distant inputs."""
    return torch.cat([setting.X, setting.Z, setting.X_new, 1e4 * setting.X_new])


@every_kind
@pytest.mark.parametrize("n", [0, 1, 11])
def test_posterior_has_a_row_per_expert_and_a_column_per_input(make: Make, n: int, setting: Setting) -> None:
    mean, variance = make(setting, setting.heteroscedastic).posterior(setting.X_new[:n])
    assert mean.shape == variance.shape == (3, n)


@every_kind
def test_far_from_the_data_the_prior_returns(make: Make, setting: Setting) -> None:
    mean, variance = make(setting, setting.heteroscedastic).posterior(setting.X_new + 100.0)
    torch.testing.assert_close(mean, torch.full_like(mean, 0.3))
    torch.testing.assert_close(variance, torch.full_like(variance, 1.7))


@every_kind
def test_variance_lies_between_zero_and_the_scale(make: Make, setting: Setting) -> None:
    for noise in (1e-6, 0.05, 1e6):
        hyperparameters = setting.hyperparameters._replace(noise=torch.full_like(setting.noises, noise))
        variance = make(setting, hyperparameters).posterior(everywhere(setting)).variance
        assert variance.min() >= 0.0
        assert variance.max() <= 1.7 * (1.0 + 1e-12)


@every_kind
def test_a_label_with_huge_noise_is_ignored(make: Make, setting: Setting) -> None:
    noises = setting.noises.clone()
    noises[7] = 1e12
    rest = torch.arange(30) != 7
    with_it = make(setting, setting.hyperparameters._replace(noise=noises))
    without = make(
        setting._replace(X=setting.X[rest], y=setting.y[rest]),
        setting.hyperparameters._replace(noise=noises[rest]),
    )
    torch.testing.assert_close(with_it.posterior(setting.X_new), without.posterior(setting.X_new), rtol=1e-8, atol=1e-8)


@every_kind
def test_noise_per_label_is_respected(make: Make, setting: Setting) -> None:
    """A label moved up pulls the mean at its input up, the more the less noise it has."""
    y = setting.y.clone()
    y[7] += 1.0
    pulls = []
    for noise in (0.01, 0.1, 1.0):
        noises = setting.noises.clone()
        noises[7] = noise
        hyperparameters, at = setting.hyperparameters._replace(noise=noises), setting.X[7:8]
        pulls.append(
            make(setting._replace(y=y), hyperparameters).posterior(at).mean
            - make(setting, hyperparameters).posterior(at).mean
        )
    assert (pulls[0] > pulls[1]).all()
    assert (pulls[1] > pulls[2]).all()
    assert (pulls[2] > 0.0).all()


@every_kind
def test_constant_noise_equals_the_same_noise_per_label(make: Make, setting: Setting) -> None:
    number = make(setting, setting.hyperparameters)
    per_label = make(setting, setting.hyperparameters._replace(noise=torch.full_like(setting.noises, 0.05)))
    torch.testing.assert_close(number.posterior(setting.X_new), per_label.posterior(setting.X_new))


@every_kind
@pytest.mark.parametrize("expert", [0, 1, 2])
def test_each_expert_equals_the_model_with_its_bandwidth_alone(make: Make, expert: int, setting: Setting) -> None:
    together = make(setting, setting.heteroscedastic).posterior(setting.X_new)
    single = setting._replace(bandwidths=setting.bandwidths[expert : expert + 1])
    alone = make(single, setting.heteroscedastic).posterior(setting.X_new)
    torch.testing.assert_close(together.mean[expert], alone.mean[0])
    torch.testing.assert_close(together.variance[expert], alone.variance[0])


@every_kind
def test_inputs_are_answered_one_by_one(make: Make, setting: Setting) -> None:
    experts = make(setting, setting.heteroscedastic)
    together = experts.posterior(setting.X_new)
    for i in range(len(setting.X_new)):
        alone = experts.posterior(setting.X_new[i : i + 1])
        torch.testing.assert_close(alone.mean[:, 0], together.mean[:, i])
        torch.testing.assert_close(alone.variance[:, 0], together.variance[:, i])


@every_kind
def test_the_mean_alone_is_the_mean_of_the_posterior(make: Make, setting: Setting) -> None:
    experts = make(setting, setting.heteroscedastic)
    torch.testing.assert_close(experts.mean(setting.X_new), experts.posterior(setting.X_new).mean)


@every_kind
@pytest.mark.parametrize("expert", [0, 1, 2])
def test_the_joint_covariance_is_a_covariance_with_the_variances_of_the_posterior(
    make: Make, expert: int, setting: Setting
) -> None:
    experts, X = make(setting, setting.heteroscedastic), torch.cat([setting.X, setting.Z, setting.X_new, setting.X])
    C = experts.joint_covariance(X, expert)
    torch.testing.assert_close(C.diagonal(), experts.posterior(X).variance[expert], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(C, C.mT, rtol=1e-9, atol=1e-12)
    assert torch.linalg.eigvalsh(C).min() > -1e-12


@every_kind
def test_two_inputs_have_the_same_covariance_whatever_else_is_asked(make: Make, setting: Setting) -> None:
    experts = make(setting, setting.heteroscedastic)
    rows = torch.tensor([7, 2])
    together, alone = (experts.joint_covariance(X, 1) for X in (setting.X_new, setting.X_new[rows]))
    torch.testing.assert_close(together[rows[:, None], rows], alone)


@every_kind
def test_far_from_the_data_the_covariance_is_that_of_the_prior(make: Make, setting: Setting) -> None:
    X = setting.X_new + 100.0
    C = make(setting, setting.heteroscedastic).joint_covariance(X, 2)
    scaled = X / (setting.bandwidths[2] * setting.shared_bandwidth)
    torch.testing.assert_close(C, 1.7 * torch.exp(-0.5 * torch.cdist(scaled, scaled).square()), rtol=1e-6, atol=1e-9)


@every_kind
def test_the_order_of_the_labels_does_not_matter(make: Make, setting: Setting, generator: torch.Generator) -> None:
    order = torch.randperm(30, generator=generator)
    shuffled = setting._replace(X=setting.X[order], y=setting.y[order])
    ours = make(shuffled, setting.hyperparameters._replace(noise=setting.noises[order]))
    expected = make(setting, setting.heteroscedastic)
    torch.testing.assert_close(ours.posterior(setting.X_new), expected.posterior(setting.X_new), rtol=1e-6, atol=1e-8)


@every_kind
def test_labels_in_other_units_give_the_same_model_in_those_units(make: Make, setting: Setting) -> None:
    mean, scale, noise = setting.heteroscedastic
    ours = make(setting, setting.heteroscedastic).posterior(setting.X_new)
    scaled = make(
        setting._replace(y=5.0 + 100.0 * setting.y), Hyperparameters(5.0 + 100.0 * mean, 1e4 * scale, 1e4 * noise)
    ).posterior(setting.X_new)
    torch.testing.assert_close(scaled.mean, 5.0 + 100.0 * ours.mean)
    torch.testing.assert_close(scaled.variance, 1e4 * ours.variance)


@every_kind
def test_a_full_bandwidth_matrix_equals_whitened_inputs(make: Make, setting: Setting) -> None:
    Sigma = torch.tensor([[0.9, 0.3], [0.3, 1.2]], dtype=torch.float64)
    full = make(setting._replace(shared_bandwidth=Sigma), setting.heteroscedastic)
    inverse = torch.linalg.inv(Sigma)
    one = torch.ones((), dtype=torch.float64)
    by_hand = make(
        setting._replace(X=setting.X @ inverse, Z=setting.Z @ inverse, shared_bandwidth=one), setting.heteroscedastic
    )
    torch.testing.assert_close(full.posterior(setting.X_new), by_hand.posterior(setting.X_new @ inverse))


@every_kind
def test_single_precision_in_is_single_precision_out(make: Make, setting: Setting) -> None:
    single = Setting(*(value if isinstance(value, Hyperparameters) else value.float() for value in setting))._replace(
        hyperparameters=Hyperparameters(*(value.float() for value in setting.hyperparameters))
    )
    mean, variance = make(single, single.heteroscedastic).posterior(single.X_new)
    expected = make(setting, setting.heteroscedastic).posterior(setting.X_new)
    assert mean.dtype == variance.dtype == torch.float32
    torch.testing.assert_close(mean.double(), expected.mean, rtol=1e-2, atol=1e-2)


@every_kind
def test_experts_are_immutable(make: Make, setting: Setting) -> None:
    experts = make(setting, setting.hyperparameters)
    with pytest.raises(AttributeError):
        experts.hyperparameters = setting.heteroscedastic
    assert replace(experts, hyperparameters=setting.heteroscedastic).hyperparameters.noise.shape == (30,)
