import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lobal.baselines.slice_sampling import elliptical_slice, metropolis
from tests.core.setting import seeded

CHAINS, STEPS = 500, 60
# Prior N(0, I) times N(label; A f, 0.2): a Gaussian with correlated entries.
A = torch.tensor([[1.0, 0.5], [0.0, 2.0]], dtype=torch.float64)
LABEL = torch.tensor([1.0, -2.0], dtype=torch.float64)
PRECISION = torch.eye(2, dtype=torch.float64) + A.mT @ A / 0.2
MEAN = torch.linalg.solve(PRECISION, A.mT @ LABEL / 0.2)


def log_likelihood(f: Tensor) -> Tensor:
    return -0.5 * (f @ A.mT - LABEL).square().sum(1) / 0.2


def exact_draws(generator: torch.Generator) -> Tensor:
    noise = torch.randn(CHAINS, 2, dtype=torch.float64, generator=generator)
    return MEAN + noise @ torch.linalg.cholesky(torch.linalg.inv(PRECISION)).mT


def samples(start: Tensor, moving: Callable[[], Tensor | None], generator: torch.Generator) -> Tensor:
    f, level = start, log_likelihood(start)
    for _ in range(STEPS):
        f, level = elliptical_slice(f, level, log_likelihood, generator, moving=moving())
        torch.testing.assert_close(level, log_likelihood(f))
    return f


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("settled", [True, False])
def test_a_gaussian_prior_times_a_gaussian_likelihood_is_left_as_it_is(settled: bool, some: bool) -> None:
    generator = seeded(0)
    start = exact_draws(generator) if settled else torch.zeros(CHAINS, 2, dtype=torch.float64)

    def moving() -> Tensor | None:
        return torch.rand(CHAINS, 2, generator=generator) < 0.6 if some else None

    f = samples(start, moving, generator)
    covariance = torch.linalg.inv(PRECISION)
    error = covariance.diagonal().sqrt() / math.sqrt(CHAINS)
    assert ((f.mean(0) - MEAN).abs() < 4.0 * error).all()
    relative = torch.linalg.solve(covariance, f.T.cov())
    assert (relative - torch.eye(2)).abs().max() < 8.0 / math.sqrt(CHAINS) * 1.5


def test_values_that_do_not_move_stay() -> None:
    start = torch.randn(CHAINS, 2, dtype=torch.float64, generator=seeded(1))
    moving = torch.tensor([True, False]).expand(CHAINS, 2)
    f = samples(start, lambda: moving, seeded(2))
    assert (f[:, 1] == start[:, 1]).all()
    assert (f[:, 0] != start[:, 0]).all()


def test_impossible_values_are_never_taken() -> None:
    def positive(f: Tensor) -> Tensor:
        return torch.where(f[:, 0] > 0.0, 0.0, -math.inf)

    f, level = torch.ones(CHAINS, 1, dtype=torch.float64), torch.zeros(CHAINS, dtype=torch.float64)
    generator = seeded(3)
    for _ in range(STEPS):
        f, level = elliptical_slice(f, level, positive, generator)
    assert (f > 0.0).all()
    assert f.mean().item() == pytest.approx(math.sqrt(2.0 / math.pi), abs=0.12)  # of a half normal distribution


def test_metropolis_leaves_its_target_as_it_is() -> None:
    def prior(value: Tensor) -> Tensor:  # uniform on [-1, 3]
        return torch.where((value > -1.0) & (value < 3.0), 0.0, -math.inf)

    def likelihood(value: Tensor) -> Tensor:
        assert ((value > -1.0) & (value < 3.0)).all()
        return -0.5 * (value - 1.0).square() / 0.25

    value, generator = torch.zeros(CHAINS, dtype=torch.float64), seeded(4)
    level = likelihood(value)
    for _ in range(200):
        value, level = metropolis(value, level, likelihood, prior, generator)
    assert value.mean().item() == pytest.approx(1.0, abs=0.1)
    assert value.std().item() == pytest.approx(0.5, abs=0.07)
