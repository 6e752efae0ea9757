import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from lobal.molecules.field import training as module
from lobal.molecules.field.evaluation import errors_on
from lobal.molecules.field.expert import MolecularExperts, molecular_experts
from lobal.molecules.field.hyperparameters import prior_force_variance
from lobal.molecules.field.kernel import MolecularKernel, covariance
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.radial import gaussian, matern52
from lobal.molecules.field.training import (
    Choice,
    Training,
    Trials,
    chosen,
    climbed,
    fitted,
    is_clearly_better,
    split,
    train,
)
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import identity
from lobal.molecules.geometry.trajectory import read_trajectory
from tests.molecules.setting import DATA, random_molecules, rmd17_malonaldehyde, water

SMALL = Training(n=40, validation=20)


@pytest.mark.parametrize("labels", [None, *Labels])
@pytest.mark.parametrize("kernel", ["gaussian", "matern52"])
def test_a_force_field_is_learned_without_a_hyperparameter(labels: Labels | None, kernel: str) -> None:
    trajectory = water(100)
    field, errors = train(trajectory, replace(SMALL, labels=labels, kernel=kernel))
    assert trajectory.energies is not None
    assert trajectory.forces is not None
    assert field.labels == (labels or Labels.FORCES)
    assert errors.energy_rmse is not None
    assert errors.force_rmse is not None
    assert errors.energy_rmse < 0.05 * trajectory.energies.std().item()
    assert errors.force_rmse < (0.2 if labels is Labels.ENERGIES else 0.05) * trajectory.forces.std().item()


def test_what_was_found_is_written_down() -> None:
    field, errors = train(water(100), SMALL)
    assert field.about["symmetries"] == 2  # the hydrogens change places
    assert field.about["configurations"] == 40
    assert field.about["validation"] == 20
    assert field.about["errors"] == errors._asdict()
    assert field.positions.shape == (40, 3, 3)


def test_training_says_what_it_does_and_repeats_itself() -> None:
    said: list[str] = []
    one, _ = train(water(100), SMALL, said.append)
    two, _ = train(water(100), SMALL)
    assert any("symmetries" in line for line in said)
    assert any("bandwidth" in line for line in said)
    assert torch.equal(one.weights, two.weights)
    other, _ = train(water(100), replace(SMALL, seed=1))
    assert not torch.equal(one.positions, other.positions)


def test_forces_alone_and_energies_alone_are_learned_from() -> None:
    trajectory = water(60)
    field, errors = train(replace(trajectory, energies=None), SMALL)
    assert (field.labels, errors.energy_rmse) == (Labels.FORCES, None)
    field, errors = train(replace(trajectory, forces=None), SMALL)
    assert (field.labels, errors.force_rmse) == (Labels.ENERGIES, None)


def test_labels_that_are_not_there_are_missed() -> None:
    with pytest.raises(ValueError, match="energies are to be learned from, but none were given"):
        train(replace(water(60), energies=None), replace(SMALL, labels=Labels.BOTH))


def test_noisy_labels_are_not_followed() -> None:
    trajectory = water(100)
    assert trajectory.forces is not None
    rough = 0.3 * torch.randn(100, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    field, _ = train(replace(trajectory, forces=trajectory.forces + rough), SMALL)
    errors = errors_on(field, water(50, seed=5))
    assert errors.force_rmse is not None
    assert errors.force_rmse < 0.3


def test_parts_are_disjoint_and_of_the_size_asked_for() -> None:
    trajectory = water(100)
    learned, apart = split(trajectory, Training(n=70, validation=15))
    assert (len(learned), len(apart)) == (70, 15)
    assert not torch.isin(learned.R.flatten(), apart.R.flatten()).any()
    learned, apart = split(trajectory, Training(n=1000, validation=1000))
    assert (len(learned), len(apart)) == (80, 20)  # all there is, a fifth of it set aside


def test_of_several_trajectories_some_are_set_aside() -> None:
    trajectory = replace(water(100), number=torch.arange(100) // 10)
    learned, apart = split(trajectory, Training(n=70, validation=15))
    assert learned.number is not None
    assert apart.number is not None
    assert not torch.isin(learned.number, apart.number).any()
    assert len(apart.number.unique()) == 2
    few = replace(water(100), number=torch.arange(100) // 50)
    assert [len(part) for part in split(few, Training(n=70, validation=15))] == [70, 15]


@pytest.mark.parametrize("setting", [{"n": 1}, {"validation": 0}, {"kernel": "matern12"}])
def test_settings_are_checked(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be at least 2|must be one of"):
        Training(**setting)


def test_nothing_is_chosen_by_copies_of_what_is_learned_from() -> None:
    rows = torch.arange(60) % 20
    learned, held_out = split(water(20).at(torch.cat([rows, torch.arange(20)])), Training(n=20, validation=16))
    assert {row.tobytes() for row in learned.R.numpy()}.isdisjoint({row.tobytes() for row in held_out.R.numpy()})
    with pytest.raises(ValueError, match="of water that were kept to choose by are copies"):
        split(water(1).at(torch.zeros(20, dtype=torch.long)), SMALL)


@pytest.mark.parametrize(("inducing", "most"), [(None, 80), (3, 32), (12, 48), (40, 80)])
def test_trials_for_sparse_experts_are_no_larger_than_these(
    inducing: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spied(_: Trials, n: int) -> Choice:
        asked.append(n)
        return Choice(8.0, module.NOISE, 0.01)

    monkeypatch.setattr(module, "chosen", spied)
    monkeypatch.setattr(module, "FEW", 8)
    train(water(100), Training(n=80, validation=20, inducing=inducing))
    assert asked == [most]


def test_too_few_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 10 configurations are needed, got 9 in water"):
        train(water(9), SMALL)


def distance_to(bandwidth: float, noise: float) -> Trials:
    """Trials whose error is how far a choice is from the best."""

    def trial(_: int, sigma: float, v: float) -> Choice:
        return Choice(sigma, v, math.hypot(math.log(sigma / bandwidth), math.log(v / noise)))

    return trial


@pytest.mark.parametrize("best", [0.5, 1.0, 4.0, 64.0])
def test_the_climb_finds_the_least_error_in_either_direction(best: float) -> None:
    trials = distance_to(best, 1.0)
    assert climbed(trials, 10, trials(10, 4.0, 1.0), 2.0).bandwidth == best


def test_the_best_bandwidth_lies_between_trials() -> None:
    def trial(_: int, sigma: float, v: float) -> Choice:  # a parabola in logarithms
        return Choice(sigma, v, 0.1 * math.exp(0.3 * math.log(sigma / 5.0) ** 2))

    assert climbed(trial, 10, trial(10, 1.0, 1.0), 2.0).bandwidth == pytest.approx(5.0)
    assert climbed(trial, 10, trial(10, 40.0, 1.0), 2.0).bandwidth == pytest.approx(5.0)


def test_the_climb_passes_over_trials_that_failed() -> None:
    def trial(_: int, sigma: float, v: float) -> Choice:
        return Choice(sigma, v, math.nan if sigma > 1.0 else 1.0 / sigma)

    assert climbed(trial, 10, trial(10, 0.25, 1.0), 2.0).bandwidth == 1.0


def test_the_climb_ends() -> None:
    endless = climbed(lambda _, sigma, noise: Choice(sigma, noise, 1.0 / sigma), 10, Choice(1.0, 1.0, 1.0), 2.0)
    assert endless.bandwidth == 2.0**module.MOST_STEPS


def test_bandwidth_and_noise_are_chosen_together() -> None:
    best = chosen(distance_to(2.0, 1e4 * module.NOISE), 100)
    assert best[:2] == pytest.approx((2.0, 1e4 * module.NOISE))
    more = chosen(distance_to(2.0, 1e4 * module.NOISE), 1000)  # tried on a quarter of them
    assert more.bandwidth == pytest.approx(2.0 * 0.25**module.FALL)


@pytest.mark.parametrize(("spread", "is_taken"), [(1e-3, True), (1.0, False)])
def test_more_noise_is_taken_where_it_is_better_beyond_chance(
    spread: float, is_taken: bool, generator: torch.Generator
) -> None:
    common = torch.rand(100, dtype=torch.float64, generator=generator)

    def trial(_: int, sigma: float, v: float) -> Choice:
        own = spread * torch.rand(100, dtype=torch.float64, generator=generator)
        gain = 0.01 if v > module.NOISE else 0.0
        squares = 9.0 + common + own + abs(math.log(sigma / 8.0)) - gain
        return Choice(sigma, v, squares.mean().sqrt().item(), squares)

    noisier, plain = trial(100, 8.0, 1.0), trial(100, 8.0, module.NOISE)
    assert is_clearly_better(noisier, plain) == is_taken
    assert not is_clearly_better(plain, noisier)
    assert not is_clearly_better(plain, plain)


@pytest.mark.parametrize("labels", [Labels.FORCES, Labels.ENERGIES])
def test_labels_that_are_all_the_same_are_refused(labels: Labels) -> None:
    flat = replace(water(30), energies=torch.ones(30, dtype=torch.float64), forces=torch.zeros_like(water(30).R))
    with pytest.raises(ValueError, match="there is nothing to learn from them"):
        train(flat, replace(SMALL, labels=labels))


@pytest.mark.parametrize(("error", "tolerance"), [(1.0, module.TRIED), (1e-3, 5e-5), (0.0, module.LEAST_LEFT)])
def test_the_better_the_force_field_the_better_its_equations_are_solved(
    error: float, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def experts(*arguments: Any, tolerance: float) -> MolecularExperts:
        asked.append(tolerance)
        return molecular_experts(*arguments)

    monkeypatch.setattr(module, "molecular_experts", experts)
    data = water(20).labelled("cpu")
    kernel = MolecularKernel(radial=gaussian, shared=torch.ones(3, dtype=torch.float64), permutations=identity(3))
    deviation = data.residual(Labels.FORCES, torch.zeros((), dtype=torch.float64)).square().mean().sqrt().item()
    fitted(kernel, data, Labels.FORCES, Choice(8.0, 1e-8, error * deviation))
    assert asked == [pytest.approx(tolerance)]


@pytest.mark.parametrize("radial", [gaussian, matern52])
def test_the_prior_variance_of_forces_is_that_of_the_covariance(radial: Any, generator: torch.Generator) -> None:
    shared = torch.tensor([0.3, 0.5, 0.7, 0.4, 0.6, 0.9], dtype=torch.float64)
    kernel = MolecularKernel(radial=radial, shared=shared, permutations=identity(4))
    geometry = describe(random_molecules(generator, 5))
    sigma = torch.tensor(1.5, dtype=torch.float64)
    K = covariance(kernel, geometry, bandwidths=sigma[None], rows=Labels.FORCES)[0]
    torch.testing.assert_close(prior_force_variance(kernel, geometry, sigma), K.diagonal().mean())


def test_malonaldehyde_is_learned_better_than_with_the_kernel_of_sgdml() -> None:
    data = rmd17_malonaldehyde()
    trajectory = read_trajectory(DATA / "rmd17_malonaldehyde_9633.npz")
    pool, new = (trajectory.at(torch.from_numpy(data[name][0])) for name in ("split_train", "split_test"))
    field, _ = train(pool.at(slice(200)), Training(n=100, validation=40))
    errors = errors_on(field, new)
    assert errors.force_rmse is not None
    assert errors.force_rmse < 0.087  # what that kernel comes to at its best bandwidth, with 100 configurations


def test_pairs_may_have_bandwidths_of_their_own() -> None:
    trained = train(water(60), Training(n=20, validation=10, anisotropic=True))
    shared = trained.force_field.kernel.shared
    assert shared[0] == shared[1] != shared[2]
    assert trained.validation.force_rmse is not None
    assert trained.validation.force_rmse < 0.01


def test_mixtures_are_trained_too() -> None:
    trained = train(water(60), Training(n=20, validation=10, labels=Labels.BOTH, mixture=True))
    assert len(trained.force_field.bandwidths) == 8
    assert trained.force_field.local_bandwidth(water(3).R).shape == (3,)
    assert trained.validation.force_rmse is not None
    assert trained.validation.force_rmse < 0.1
