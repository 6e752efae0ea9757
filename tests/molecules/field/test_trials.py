import math
from typing import Any

import pytest
import torch

from lobal.molecules.field import trials as module
from lobal.molecules.field.expert import ForceExperts, dense_experts
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.problem import Problem, prior_force_variance
from lobal.molecules.field.radial import gaussian
from lobal.molecules.field.trials import Choice, Trial, Trials, best_bandwidth, best_choice, fitted_expert
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import identity
from tests.molecules.setting import ANISOTROPIC, covariance, every_radial, random_molecules, water


def trial_of(bandwidth: float, noise: float, error: float) -> Trial:
    """A trial with the same error everywhere."""
    return Trial(bandwidth, noise, torch.full((2,), error**2, dtype=torch.float64))


def distance_to(bandwidth: float, noise: float) -> Trials:
    """Trials whose error is the distance from the best choice, in logarithms."""

    def trial(_: int, sigma: float, v: float) -> Trial:
        return trial_of(sigma, v, math.hypot(math.log(sigma / bandwidth), math.log(v / noise)))

    return trial


@pytest.mark.parametrize("best", [0.5, 1.0, 4.0, 64.0])
def test_the_search_finds_the_least_error_in_either_direction(best: float) -> None:
    trials = distance_to(best, 1.0)
    assert best_bandwidth(trials, 10, trials(10, 4.0, 1.0), 2.0).bandwidth == best


@pytest.mark.parametrize("first", [1.0, 40.0])
def test_the_best_bandwidth_lies_between_trials(first: float) -> None:
    def trial(_: int, sigma: float, v: float) -> Trial:  # a parabola in logarithms
        return trial_of(sigma, v, 0.1 * math.exp(0.3 * math.log(sigma / 5.0) ** 2))

    assert best_bandwidth(trial, 10, trial(10, first, 1.0), 2.0).bandwidth == pytest.approx(5.0)


def test_the_search_passes_over_trials_that_failed() -> None:
    def trial(_: int, sigma: float, v: float) -> Trial:
        return trial_of(sigma, v, math.nan if sigma > 1.0 else 1.0 / sigma)

    assert best_bandwidth(trial, 10, trial(10, 0.25, 1.0), 2.0).bandwidth == 1.0


def test_the_search_ends() -> None:
    def trial(_: int, sigma: float, v: float) -> Trial:
        return trial_of(sigma, v, 1.0 / sigma)

    assert best_bandwidth(trial, 10, trial(10, 1.0, 1.0), 2.0).bandwidth == 2.0**module.MOST_STEPS


def test_bandwidth_and_noise_are_chosen_together() -> None:
    best = best_choice(distance_to(0.25, 1e4 * module.NOISE), 100)
    assert best[:2] == pytest.approx((0.25, 1e4 * module.NOISE))
    more = best_choice(distance_to(0.25, 1e4 * module.NOISE), 1000)  # tried on a quarter of them
    assert more.bandwidth == pytest.approx(0.25 * 0.25**module.FALL)


@pytest.mark.parametrize(("spread", "is_taken"), [(1e-3, True), (1.0, False)])
def test_more_noise_is_taken_where_it_is_better_beyond_chance(
    spread: float, is_taken: bool, generator: torch.Generator
) -> None:
    squares = 9.0 + torch.rand(100, dtype=torch.float64, generator=generator)
    own = spread * torch.randn(100, dtype=torch.float64, generator=generator)
    own -= own.mean()

    def trial(_: int, sigma: float, v: float) -> Trial:
        is_more = v == pytest.approx(module.MORE_NOISE * module.NOISE)
        return Trial(sigma, v, squares + (own - 0.01 if is_more else 0.0 if v < 1e-6 else 1.0))

    assert (best_choice(trial, 100).noise > module.NOISE) == is_taken


@pytest.mark.parametrize(("error", "tolerance"), [(1.0, module.TRIED), (1e-3, 5e-5), (0.0, module.SMALLEST_RESIDUAL)])
def test_the_better_the_force_field_the_better_its_equations_are_solved(
    error: float, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def experts(problem: Problem, *, tolerance: float) -> ForceExperts:
        asked.append(tolerance)
        return dense_experts(problem)

    monkeypatch.setattr(module, "dense_experts", experts)
    data, ones = water(20).labelled("cpu"), torch.ones(3, dtype=torch.float64)
    kernel = MolecularKernel(radial=gaussian, shared_bandwidth=ones, permutations=identity(3))
    deviation = data.residual(Labels.FORCES, torch.zeros((), dtype=torch.float64)).square().mean().sqrt().item()
    fitted_expert(kernel, data, Labels.FORCES, Choice(8.0, 1e-8, error * deviation))
    assert asked == [pytest.approx(tolerance)]


@every_radial
def test_the_prior_variance_of_forces_is_that_of_the_covariance(radial: Any, generator: torch.Generator) -> None:
    kernel = MolecularKernel(radial=radial, shared_bandwidth=ANISOTROPIC, permutations=identity(4))
    geometry = describe(random_molecules(generator, 5))
    sigma = torch.tensor(1.5, dtype=torch.float64)
    K = covariance(kernel, geometry, bandwidths=sigma[None], rows=Labels.FORCES)[0]
    torch.testing.assert_close(prior_force_variance(kernel, geometry, sigma), K.diagonal().mean())
