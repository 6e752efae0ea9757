from typing import Any

import numpy as np
import pytest
import torch

from lobal.molecules.field import expert as module
from lobal.molecules.field.expert import dense_experts, dense_experts_and_left_out, label_factor, precision_blocks
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels, split_labels
from lobal.molecules.field.radial import matern52
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import closure
from tests.molecules.setting import (
    KERNEL,
    SIGMAS,
    covariance,
    every_label,
    labelled,
    pair_potential,
    problem,
    random_molecules,
    rmd17_malonaldehyde,
)

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-7}
with_forces = pytest.mark.parametrize("labels", [Labels.FORCES, Labels.BOTH])


@every_label
def test_predictions_are_those_of_the_dense_formula(labels: Labels, generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 8), random_molecules(generator, 5)
    data = labelled(R)
    K = 10.0 * covariance(KERNEL, data.geometry, bandwidths=SIGMAS, rows=labels)
    K_new = 10.0 * covariance(KERNEL, describe(R_new), data.geometry, bandwidths=SIGMAS, columns=labels)
    y = data.residual(labels, SIGMAS.new_tensor(7.0)).flatten()
    alpha = torch.linalg.solve(K + 1e-4 * torch.eye(len(y), dtype=torch.float64), y)
    energies, forces = split_labels((K_new @ alpha[:, :, None])[..., 0], Labels.BOTH, 4)
    experts = dense_experts(problem(data, labels))
    ours = experts.predict(R_new)
    torch.testing.assert_close(ours.forces, forces, **CLOSE)
    torch.testing.assert_close(ours.energies - experts.constants[:, None], energies, **CLOSE)


@every_label
def test_configurations_left_out_are_predicted_as_by_refitting(labels: Labels, generator: torch.Generator) -> None:
    R = random_molecules(generator, 7)
    data = labelled(R)
    _, left_out = dense_experts_and_left_out(problem(data, labels))
    for i in range(7):
        rest = torch.arange(7) != i
        without = dense_experts(problem(labelled(R[rest]), labels))
        energies, forces = without.predict(R[i : i + 1])
        ours = split_labels(left_out[:, i], labels, 4)
        if labels.energies:
            torch.testing.assert_close(ours.energies, energies, **CLOSE)
        if labels.forces:
            torch.testing.assert_close(ours.forces, forces, **CLOSE)


@with_forces
def test_forces_teach_the_energy(labels: Labels, generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 40), random_molecules(generator, 50)
    energies, forces = pair_potential(R_new)
    experts = dense_experts(problem(labelled(R), labels, parameters=(7.0, 10.0, 1e-8)))
    ours = experts.predict(R_new)
    assert (ours.energies[2] - energies).std() < 0.02 * energies.std()
    assert (ours.energies[2] - energies).mean().abs() < 0.02 * energies.std()
    assert (ours.forces[2] - forces).std() < 0.05 * forces.std()


def test_the_zero_of_energy_does_not_matter_to_forces(generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 10), random_molecules(generator, 3)
    energies, forces = pair_potential(R)
    shifted = LabelledMolecules.at(R, energies=energies + 1e3, forces=forces)
    for labels in (Labels.FORCES, Labels.BOTH):
        ours = dense_experts(problem(shifted, labels, parameters=(1007.0, 10.0, 1e-4))).predict(R_new)
        expected = dense_experts(problem(labelled(R), labels)).predict(R_new)
        torch.testing.assert_close(ours.forces, expected.forces, **CLOSE)
        torch.testing.assert_close(ours.energies, expected.energies + 1e3, **CLOSE)


def test_forces_without_energies_have_the_mean_for_their_energy(generator: torch.Generator) -> None:
    R = random_molecules(generator, 5)
    data = LabelledMolecules.at(R, forces=pair_potential(R)[1])
    experts = dense_experts(problem(data, Labels.FORCES))
    torch.testing.assert_close(experts.predict(R).energies.mean(1), torch.full((3,), 7.0, dtype=torch.float64))


@pytest.mark.parametrize("expert", [0, 1, 2])
@pytest.mark.parametrize("entries", [1, 2**27])
def test_each_expert_equals_the_one_with_its_bandwidth_alone(
    expert: int, entries: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MATRIX_ENTRIES", entries)  # matrices one by one, or all at once
    data, R_new = labelled(random_molecules(generator, 5)), random_molecules(generator, 3)
    together = dense_experts(problem(data)).predict(R_new)
    alone = dense_experts(problem(data, bandwidths=SIGMAS[expert : expert + 1])).predict(R_new)
    torch.testing.assert_close(together.energies[expert], alone.energies[0], **CLOSE)
    torch.testing.assert_close(together.forces[expert], alone.forces[0], **CLOSE)


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


def test_a_matrix_gets_no_jitter_that_it_does_not_need() -> None:
    C = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    factor = label_factor(C.clone())
    torch.testing.assert_close(factor @ factor.T, C, rtol=1e-15, atol=0.0)


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

    kernel = MolecularKernel(radial=matern52, shared_bandwidth=torch.ones(36, dtype=torch.float64), permutations=group)
    same: dict[str, Any] = {"kernel": kernel, "bandwidths": 15.0 * SIGMAS[1:2], "parameters": (0.0, 1.0, 1e-10)}
    known = LabelledMolecules.at(R[rows], energies=E[rows], forces=F[rows])
    ours = dense_experts(problem(known, Labels.FORCES, **same)).predict(R[new]).forces[0].flatten(1).numpy()
    assert np.linalg.norm(ours - expected) <= 1e-4 * np.linalg.norm(expected)


def train_sgdml(train: Any, data: dict[str, np.ndarray], rows: np.ndarray, group: np.ndarray, sigma: int) -> Any:
    """The package's model of the same rows, its permutations replaced by ours."""
    dataset = {"type": "d", "name": np.array("malonaldehyde"), "theory": np.array("PBE"), "z": data["z"]}
    dataset |= {name: data[name] for name in "REF"}
    trainer = train.GDMLTrain(max_processes=1)
    task = trainer.create_task(dataset, len(rows), dataset, 10, sig=sigma, lam=1e-10, use_sym=False)
    task |= {"R_train": data["R"][rows], "F_train": data["F"][rows], "E_train": data["E"][rows]}
    return trainer.train(task | {"perms": group})
