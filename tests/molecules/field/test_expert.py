from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.experts.interface import Hyperparameters
from lobal.molecules.field import expert as module
from lobal.molecules.field.expert import Ladder, experts_and_left_out, factored, molecular_experts, precision_blocks
from lobal.molecules.field.kernel import MolecularKernel, covariance
from lobal.molecules.field.labels import LabelledMolecules, Labels, split_labels
from lobal.molecules.field.radial import gaussian, matern52
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import closure
from tests.molecules.setting import pair_potential, random_molecules, rmd17_malonaldehyde

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-7}
GROUP = closure(torch.tensor([[1, 2, 0, 3], [1, 0, 2, 3]]))
SHARED = torch.tensor([0.3, 0.5, 0.7, 0.4, 0.6, 0.9], dtype=torch.float64)
KERNEL = MolecularKernel(radial=gaussian, shared=SHARED, permutations=GROUP)
SIGMAS = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
SHARED_PARAMETERS = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (7.0, 10.0, 1e-4)))

every_label = pytest.mark.parametrize("labels", list(Labels))
with_forces = pytest.mark.parametrize("labels", [Labels.FORCES, Labels.BOTH])


def labelled(R: Tensor) -> LabelledMolecules:
    energies, forces = pair_potential(R)
    return LabelledMolecules.at(R, energies=energies, forces=forces)


def ladder(labels: Labels, bandwidths: Tensor = SIGMAS) -> Ladder:
    return Ladder(kernel=KERNEL, bandwidths=bandwidths, labels=labels)


@every_label
def test_predictions_are_those_of_the_dense_formula(labels: Labels, generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 8), random_molecules(generator, 5)
    data = labelled(R)
    K = 10.0 * covariance(KERNEL, data.geometry, bandwidths=SIGMAS, rows=labels)
    K_new = 10.0 * covariance(KERNEL, describe(R_new), data.geometry, bandwidths=SIGMAS, columns=labels)
    y = data.residual(labels, SHARED_PARAMETERS.mean).flatten()
    alpha = torch.linalg.solve(K + 1e-4 * torch.eye(len(y), dtype=torch.float64), y)
    energies, forces = split_labels((K_new @ alpha[:, :, None])[..., 0], Labels.BOTH, 4)
    experts = molecular_experts(data, ladder(labels), SHARED_PARAMETERS)
    ours = experts.predict(R_new)
    torch.testing.assert_close(ours.forces, forces, **CLOSE)
    torch.testing.assert_close(ours.energies - experts.constants[:, None], energies, **CLOSE)
    torch.testing.assert_close(experts.mean(R_new.flatten(1)), ours.energies)


@every_label
def test_configurations_left_out_are_predicted_as_by_refitting(labels: Labels, generator: torch.Generator) -> None:
    R = random_molecules(generator, 7)
    data = labelled(R)
    _, left_out = experts_and_left_out(data, ladder(labels), SHARED_PARAMETERS)
    for i in range(7):
        rest = torch.arange(7) != i
        without = molecular_experts(labelled(R[rest]), ladder(labels), SHARED_PARAMETERS)
        energies, forces = without.predict(R[i : i + 1])
        ours = split_labels(left_out.mean[:, i], labels, 4)
        if labels.energies:
            torch.testing.assert_close(ours.energies, energies, **CLOSE)
        if labels.forces:
            torch.testing.assert_close(ours.forces, forces, **CLOSE)


@every_label
def test_covariances_of_what_is_left_out_are_those_of_refitting(labels: Labels, generator: torch.Generator) -> None:
    data = labelled(random_molecules(generator, 5))
    _, left_out = experts_and_left_out(data, ladder(labels), SHARED_PARAMETERS)
    w = labels.width(4)
    C = 10.0 * covariance(KERNEL, data.geometry, bandwidths=SIGMAS, rows=labels)
    C = C + 1e-4 * torch.eye(5 * w, dtype=torch.float64)
    own, rest = slice(2 * w, 3 * w), [k for k in range(5 * w) if k // w != 2]
    expected = C[:, own, own] - C[:, own, rest] @ torch.linalg.solve(C[:, rest][:, :, rest], C[:, rest, own])
    torch.testing.assert_close(left_out.covariance[:, 2], expected, **CLOSE)


def test_experts_and_what_they_leave_out_are_the_experts(generator: torch.Generator) -> None:
    data, R_new = labelled(random_molecules(generator, 5)), random_molecules(generator, 3)
    experts, _ = experts_and_left_out(data, ladder(Labels.BOTH), SHARED_PARAMETERS)
    expected = molecular_experts(data, ladder(Labels.BOTH), SHARED_PARAMETERS)
    torch.testing.assert_close(experts.predict(R_new), expected.predict(R_new))


@with_forces
def test_forces_teach_the_energy(labels: Labels, generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 40), random_molecules(generator, 50)
    energies, forces = pair_potential(R_new)
    experts = molecular_experts(labelled(R), ladder(labels), SHARED_PARAMETERS._replace(noise=SIGMAS.new_tensor(1e-8)))
    ours = experts.predict(R_new)
    assert (ours.energies[2] - energies).std() < 0.02 * energies.std()
    assert (ours.energies[2] - energies).mean().abs() < 0.02 * energies.std()
    assert (ours.forces[2] - forces).std() < 0.05 * forces.std()


def test_the_zero_of_energy_does_not_matter_to_forces(generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 10), random_molecules(generator, 3)
    energies, forces = pair_potential(R)
    shifted = LabelledMolecules.at(R, energies=energies + 1e3, forces=forces)
    for labels in (Labels.FORCES, Labels.BOTH):
        parameters = SHARED_PARAMETERS._replace(mean=SHARED_PARAMETERS.mean + 1e3)
        ours = molecular_experts(shifted, ladder(labels), parameters).predict(R_new)
        expected = molecular_experts(labelled(R), ladder(labels), SHARED_PARAMETERS).predict(R_new)
        torch.testing.assert_close(ours.forces, expected.forces, **CLOSE)
        torch.testing.assert_close(ours.energies, expected.energies + 1e3, **CLOSE)


def test_forces_without_energies_have_the_mean_for_their_energy(generator: torch.Generator) -> None:
    R = random_molecules(generator, 5)
    data = LabelledMolecules.at(R, forces=pair_potential(R)[1])
    experts = molecular_experts(data, ladder(Labels.FORCES), SHARED_PARAMETERS)
    torch.testing.assert_close(experts.predict(R).energies.mean(1), torch.full((3,), 7.0, dtype=torch.float64))


@pytest.mark.parametrize("expert", [0, 1, 2])
@pytest.mark.parametrize("entries", [1, 2**27])
def test_each_expert_equals_the_one_with_its_bandwidth_alone(
    expert: int, entries: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MATRIX_ENTRIES", entries)  # matrices one by one, or all at once
    data, R_new = labelled(random_molecules(generator, 5)), random_molecules(generator, 3)
    together = molecular_experts(data, ladder(Labels.BOTH), SHARED_PARAMETERS).predict(R_new)
    alone = molecular_experts(data, ladder(Labels.BOTH, SIGMAS[expert : expert + 1]), SHARED_PARAMETERS).predict(R_new)
    torch.testing.assert_close(together.energies[expert], alone.energies[0], **CLOSE)
    torch.testing.assert_close(together.forces[expert], alone.forces[0], **CLOSE)


@every_label
def test_posterior_variances_are_those_of_the_dense_formula(labels: Labels, generator: torch.Generator) -> None:
    data, R_new = labelled(random_molecules(generator, 5)), random_molecules(generator, 3)
    experts = molecular_experts(data, ladder(labels), SHARED_PARAMETERS, keep_factors=True)
    C = 10.0 * covariance(KERNEL, data.geometry, bandwidths=SIGMAS, rows=labels)
    C = C + 1e-4 * torch.eye(C.shape[1], dtype=torch.float64)
    new = describe(R_new)
    C_nx = 10.0 * covariance(KERNEL, data.geometry, new, bandwidths=SIGMAS, rows=labels, columns=Labels.ENERGIES)
    prior = 10.0 * covariance(KERNEL, new, bandwidths=SIGMAS, rows=Labels.ENERGIES)
    expected = (prior - C_nx.mT @ torch.linalg.solve(C, C_nx)).diagonal(dim1=1, dim2=2)
    mean, variance = experts.posterior(R_new.flatten(1))
    torch.testing.assert_close(variance, expected, **CLOSE)
    torch.testing.assert_close(mean, experts.mean(R_new.flatten(1)))
    assert experts.posterior(R_new[:0].flatten(1)).variance.shape == (3, 0)


def test_variances_need_factors(generator: torch.Generator) -> None:
    data = labelled(random_molecules(generator, 5))
    experts = molecular_experts(data, ladder(Labels.BOTH), SHARED_PARAMETERS)
    with pytest.raises(ValueError, match="variances need keep_factors=True"):
        experts.posterior(torch.ones(1, 12, dtype=torch.float64))


def test_labels_with_huge_noise_are_ignored(generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 6), random_molecules(generator, 3)
    noise = torch.full((6, 13), 1e-4, dtype=torch.float64)
    noise[4] = 1e12
    parameters = SHARED_PARAMETERS._replace(noise=noise.flatten())
    ours = molecular_experts(labelled(R), ladder(Labels.BOTH), parameters).predict(R_new)
    rest = torch.arange(6) != 4
    without = molecular_experts(labelled(R[rest]), ladder(Labels.BOTH), SHARED_PARAMETERS).predict(R_new)
    torch.testing.assert_close(ours, without, **CLOSE)


@pytest.mark.parametrize("panel", [1, 8, 1024])
def test_blocks_of_the_precision_are_those_of_the_inverse(
    panel: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PANEL", panel)
    root = torch.randn(21, 30, dtype=torch.float64, generator=generator)
    C = root @ root.T
    inverse = torch.linalg.inv(C).view(7, 3, 7, 3)
    expected = torch.stack([inverse[i, :, i] for i in range(7)])
    torch.testing.assert_close(precision_blocks(torch.linalg.cholesky(C), 3), expected, **CLOSE)


def test_a_matrix_is_factored_as_it_is_where_that_is_possible() -> None:
    C = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    factor = factored(C.clone())
    torch.testing.assert_close(factor @ factor.T, C, rtol=1e-15, atol=0.0)


def test_a_singular_matrix_gets_jitter_and_an_indefinite_one_is_refused() -> None:
    one = torch.ones(3, 3, dtype=torch.float64)
    factor = factored(one.clone() - 1e-9 * torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(factor @ factor.T, one, rtol=0.0, atol=1e-7)
    for wrong in (-torch.eye(3, dtype=torch.float64), torch.nan * one):
        with pytest.raises(ValueError, match=r"covariance of 3 labels is not positive definite with jitter 0\.01"):
            factored(wrong)


@pytest.mark.filterwarnings("default")
def test_forces_are_those_of_the_sgdml_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "in1d", np.isin, raising=False)  # the package is older than NumPy 2.4
    train = pytest.importorskip("sgdml.train", reason="the sgdml package is not installed")
    predict = pytest.importorskip("sgdml.predict")
    data = rmd17_malonaldehyde()
    rows, new = data["split_train"][0][:20], data["split_test"][0][:50]
    R, E, F = (torch.from_numpy(data[name]) for name in "REF")
    group = closure(torch.tensor([[0, 1, 2, 3, 4, 5, 7, 6, 8], [2, 1, 0, 4, 3, 8, 6, 7, 5]]))
    model = train_sgdml(train, data, rows, group.numpy(), sigma=15)
    _, expected = predict.GDMLPredict(model, max_processes=1).predict(data["R"][new].reshape(50, -1))

    kernel = MolecularKernel(radial=matern52, shared=torch.ones(36, dtype=torch.float64), permutations=group)
    labels = Ladder(kernel=kernel, bandwidths=torch.tensor([15.0], dtype=torch.float64), labels=Labels.FORCES)
    parameters = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.0, 1.0, 1e-10)))
    experts = molecular_experts(LabelledMolecules.at(R[rows], energies=E[rows], forces=F[rows]), labels, parameters)
    ours = experts.predict(R[new]).forces[0].flatten(1).numpy()
    assert np.linalg.norm(ours - expected) <= 1e-4 * np.linalg.norm(expected)


def train_sgdml(train: Any, data: dict[str, np.ndarray], rows: np.ndarray, group: np.ndarray, sigma: int) -> Any:
    """The package's model of the same rows, its permutations replaced by ours."""
    dataset = {"type": "d", "name": np.array("malonaldehyde"), "theory": np.array("PBE"), "z": data["z"]}
    dataset |= {name: data[name] for name in "REF"}
    trainer = train.GDMLTrain(max_processes=1)
    task = trainer.create_task(dataset, len(rows), dataset, 10, sig=sigma, lam=1e-10, use_sym=False)
    task |= {"R_train": data["R"][rows], "F_train": data["F"][rows], "E_train": data["E"][rows]}
    return trainer.train(task | {"perms": group})
