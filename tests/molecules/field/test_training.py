from dataclasses import replace

import numpy as np
import pytest
import torch

from lobal.molecules.field import training, trials
from lobal.molecules.field.forcefield import Errors, ForceField, errors_on, fingerprints
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field, split, train
from lobal.molecules.field.trials import Choice, Trials
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory
from tests.molecules.setting import DATA, rmd17_malonaldehyde, water

MIXTURE = ForceFieldSettings(anisotropy=None, bandwidths=(0.125, 0.25, 0.5, 1.0), gate_inducing=20)
SPARSE = replace(MIXTURE, inducing=15)
SINGLE = ForceFieldSettings(labels=None, anisotropy=None, mixture=False)
LEARNED = water(30)


def fitted(settings: ForceFieldSettings, learned: Trajectory = LEARNED) -> ForceField:
    return fit_force_field(learned, settings, generator=torch.Generator().manual_seed(0))


def trained(
    settings: ForceFieldSettings = SINGLE, trajectory: Trajectory | None = None, n: int = 40
) -> tuple[ForceField, Errors]:
    return train(trajectory or water(100), settings, n=n, validation=20)


FIELD, FEW = fitted(MIXTURE), fitted(SPARSE)
both_fields = pytest.mark.parametrize("field", [FIELD, FEW], ids=["dense", "sparse"])


# Fits.


def test_a_mixture_predicts_configurations_it_has_not_seen() -> None:
    new = water(100, seed=1)
    assert new.energies is not None
    errors = errors_on(FIELD, new)
    assert errors.energy_rmse is not None
    assert errors.energy_rmse < 0.02 * new.energies.std().item()
    assert FIELD.about["symmetries"] == 2
    assert sum(FIELD.about["shares"]) == pytest.approx(1.0)


def test_bandwidths_of_pairs_are_trained_tied_or_free_or_given() -> None:
    size = {"anisotropy_size": 6, "anisotropy_folds": 1}
    tied, free = (fitted(replace(MIXTURE, anisotropy=how, **size)).kernel.shared_bandwidth for how in ("tied", "free"))  # type: ignore[arg-type]
    assert tied[0] == tied[1]  # both OH
    assert abs(torch.log(tied[0] / tied[2]).item()) > 0.01
    assert abs(torch.log(free[0] / free[1]).item()) > 0.01
    generator = torch.Generator().manual_seed(0)
    given = fit_force_field(LEARNED, MIXTURE, shared_bandwidth=free, generator=generator)
    torch.testing.assert_close(given.kernel.shared_bandwidth, free)
    assert len(given.kernel.scales().weights) == 2


def test_the_loss_of_the_settings_trains_the_bandwidths_of_pairs() -> None:
    tied = replace(MIXTURE, anisotropy="tied", anisotropy_size=6, anisotropy_folds=1)
    mse, rmse = (fitted(replace(tied, anisotropy_loss=loss)).kernel.shared_bandwidth for loss in ("mse", "rmse"))
    assert not torch.allclose(mse, rmse, rtol=1e-3)


@both_fields
def test_the_best_expert_alone_is_that_of_the_mixture(field: ForceField) -> None:
    single, R = fitted(replace(MIXTURE if field is FIELD else SPARSE, mixture=False)), water(4, seed=1).R
    number = field.about["best_expert"]
    assert single.bandwidths.tolist() == [MIXTURE.bandwidths[number]]
    for ours, expected in zip(single.predict(R), field.expert(number).predict(R), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-10)


@pytest.mark.parametrize("settings", [MIXTURE, SPARSE])
def test_copies_and_images_of_configurations_are_counted_once(settings: ForceFieldSettings) -> None:
    assert LEARNED.forces is not None
    more = LEARNED.at(torch.arange(33) % 30)
    assert more.forces is not None
    swapped, forces = more.R.clone(), more.forces.clone()
    swapped[31:], forces[31:] = swapped[31:][:, [0, 2, 1]], forces[31:][:, [0, 2, 1]]
    field = fitted(replace(settings, gate_inducing=100), replace(more, R=swapped, forces=forces))
    assert field.gate is not None
    assert len(field.gate.features.points) == 30
    few = fitted(replace(SPARSE, inducing=100), more)
    assert (few.about["configurations"], few.about["inducing"]) == (33, 30)


@pytest.mark.parametrize("changed", [{"kernel": "matern52"}, {"labels": "energies"}, {"noise": 1e-3}])
def test_settings_make_a_difference(changed: dict[str, object]) -> None:
    R = water(5, seed=3).R
    other = fitted(replace(MIXTURE, **changed))  # type: ignore[arg-type]
    assert np.abs(other.predict(R).forces - FIELD.predict(R).forces).max() > 1e-6


def test_inducing_configurations_alone_are_kept() -> None:
    assert FEW.positions.shape == (15, 3, 3)
    assert torch.isin(fingerprints(FEW.positions), fingerprints(LEARNED.R)).all()
    assert FEW.weights.shape == (4, 15 * 10)
    assert (FEW.about["configurations"], FEW.about["inducing"]) == (30, 15)


def test_all_labels_count_and_not_those_of_inducing_configurations_alone() -> None:
    settings, learned = replace(SPARSE, mixture=False, bandwidths=(0.25, 0.5, 1.0)), water(60).at(slice(40))
    field = fitted(settings, learned)
    inducing = torch.isin(fingerprints(learned.R), fingerprints(field.positions)).nonzero()[:, 0]
    few = fitted(replace(settings, inducing=None), learned.at(inducing))
    ours, without = (errors_on(each, water(100, seed=1)).force_rmse for each in (field, few))
    assert ours is not None
    assert without is not None
    assert ours < 0.8 * without


# Trainings with validation.


@pytest.mark.parametrize("labels", [None, *(each.name.lower() for each in Labels)])
@pytest.mark.parametrize("kernel", ["gaussian", "matern52"])
def test_a_force_field_is_trained_without_a_hyperparameter(labels: str | None, kernel: str) -> None:
    trajectory = water(100)
    field, errors = trained(replace(SINGLE, labels=labels, kernel=kernel), trajectory)
    assert trajectory.energies is not None
    assert trajectory.forces is not None
    assert field.labels == Labels.named(labels or "forces")
    assert errors.energy_rmse is not None
    assert errors.force_rmse is not None
    assert errors.energy_rmse < 0.05 * trajectory.energies.std().item()
    assert errors.force_rmse < (0.2 if labels == "energies" else 0.05) * trajectory.forces.std().item()


def test_the_force_field_says_how_it_was_trained() -> None:
    field, errors = trained()
    expected = {"symmetries": 2, "configurations": 40, "validation": 20, "seed": 0, "source": "water"}
    assert expected.items() <= field.about.items()
    assert field.about["errors"] == errors._asdict()
    assert field.positions.shape == (40, 3, 3)


def test_training_repeats() -> None:
    one, two, other = (train(water(100), SINGLE, n=40, validation=20, seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(one.weights, two.weights)
    assert not torch.equal(one.positions, other.positions)


@pytest.mark.parametrize("settings", [SINGLE, replace(SINGLE, inducing=15)])
def test_forces_alone_and_energies_alone_are_enough(settings: ForceFieldSettings) -> None:
    field, errors = trained(settings, replace(water(60), energies=None))
    assert (field.about["labels"], errors.energy_rmse) == ("FORCES", None)
    field, errors = trained(settings, replace(water(60), forces=None))
    assert (field.about["labels"], errors.force_rmse) == ("ENERGIES", None)


def test_missing_labels_are_an_error() -> None:
    with pytest.raises(ValueError, match="energies are needed as labels, but the configurations have none"):
        trained(replace(SINGLE, labels="both"), replace(water(60), energies=None))


@pytest.mark.parametrize("settings", [SINGLE, replace(SINGLE, mixture=True)])
def test_noisy_labels_are_smoothed(settings: ForceFieldSettings) -> None:
    trajectory = water(100)
    assert trajectory.forces is not None
    noise = 0.3 * torch.randn(100, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    field, _ = trained(settings, replace(trajectory, forces=trajectory.forces + noise))
    errors = errors_on(field, water(50, seed=5))
    assert errors.force_rmse is not None
    assert errors.force_rmse < 0.3


@pytest.mark.parametrize(
    "settings",
    [
        replace(SINGLE, anisotropy="tied"),
        replace(SINGLE, labels="both", mixture=True),
        replace(SINGLE, inducing=20),
        replace(SINGLE, inducing=20, mixture=True),
    ],
    ids=["tied", "mixture", "sparse", "sparse mixture"],
)
def test_other_models_are_trained_too(settings: ForceFieldSettings) -> None:
    field, errors = trained(settings)
    assert (field.gate is not None) == settings.mixture
    assert len(field.positions) == (settings.inducing or 40)
    shared = field.kernel.shared_bandwidth
    assert (shared[0] == shared[1] != shared[2]) == (settings.anisotropy == "tied")
    assert errors.force_rmse is not None
    assert errors.force_rmse < 0.05


@pytest.mark.parametrize(("inducing", "most"), [(None, 80), (3, 32), (12, 48), (40, 80)])
def test_trials_for_sparse_experts_are_no_larger_than_these(
    inducing: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spied(_: Trials, n: int) -> Choice:
        asked.append(n)
        return Choice(1.0, trials.NOISE, 0.01)

    monkeypatch.setattr(training, "best_choice", spied)
    monkeypatch.setattr(training, "FEW", 8)
    trained(replace(SINGLE, inducing=inducing), n=80)
    assert asked == [most]


@pytest.mark.parametrize("labels", ["forces", "energies"])
def test_constant_labels_are_refused(labels: str) -> None:
    flat = replace(water(30), energies=torch.ones(30, dtype=torch.float64), forces=torch.zeros_like(water(30).R))
    with pytest.raises(ValueError, match="there is nothing to learn from them"):
        trained(replace(SINGLE, labels=labels), flat)


def test_malonaldehyde_is_learned_better_than_with_the_kernel_of_sgdml() -> None:
    data = rmd17_malonaldehyde()
    trajectory = read_trajectory(DATA / "rmd17_malonaldehyde_9633.npz")
    pool, new = (trajectory.at(torch.from_numpy(data[name][0])) for name in ("split_train", "split_test"))
    field, _ = train(pool.at(slice(200)), SINGLE, n=100, validation=40)
    errors = errors_on(field, new)
    assert errors.force_rmse is not None
    assert errors.force_rmse < 0.087  # of that kernel at its best bandwidth, with 100 configurations


# Splits.


@pytest.mark.parametrize(("n", "validation", "sizes"), [(70, 15, [70, 15]), (1000, 1000, [80, 20])])
def test_parts_are_disjoint_and_of_the_size_asked_for(n: int, validation: int, sizes: list[int]) -> None:
    learned, held_out = split(water(100), n=n, validation=validation, seed=0)
    assert [len(learned), len(held_out)] == sizes  # at most all there is, a fifth of it set aside
    assert not torch.isin(learned.R.flatten(), held_out.R.flatten()).any()


def test_of_several_trajectories_some_are_set_aside() -> None:
    learned, held_out = split(replace(water(100), number=torch.arange(100) // 10), n=70, validation=15, seed=0)
    assert learned.number is not None
    assert held_out.number is not None
    assert not torch.isin(learned.number, held_out.number).any()
    assert len(held_out.number.unique()) == 2
    few = replace(water(100), number=torch.arange(100) // 50)
    assert [len(part) for part in split(few, n=70, validation=15, seed=0)] == [70, 15]


def test_copies_of_configurations_to_learn_from_are_not_validated_with() -> None:
    copies = water(20).at(torch.arange(80) % 20)
    learned, held_out = split(copies, n=20, validation=16, seed=0)
    assert not torch.isin(fingerprints(held_out.R), fingerprints(learned.R)).any()
    with pytest.raises(ValueError, match="validation configurations of water are copies"):
        split(water(1).at(torch.zeros(20, dtype=torch.long)), n=40, validation=20, seed=0)


def test_too_few_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="need at least 10 configurations, got 9 in water"):
        trained(trajectory=water(9))
    with pytest.raises(ValueError, match="must be at least 2 configurations, got 1 and 20"):
        trained(n=1)
