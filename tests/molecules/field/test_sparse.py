from typing import Any

import pytest
import torch

from lobal.core import kernels
from lobal.molecules.field import sparse as module
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.expert import ForceExperts, dense_experts_and_left_out
from lobal.molecules.field.kernel import covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels, split_labels
from lobal.molecules.field.sparse import sparse_experts_and_left_out
from lobal.molecules.geometry.descriptor import Geometry, describe
from tests.molecules.setting import (
    KERNEL,
    SIGMAS,
    along_coordinates,
    every_label,
    labelled,
    pair_potential,
    problem,
    random_molecules,
)

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture
def without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JITTER", 0.0)


def sparse_experts(data: LabelledMolecules, Z: Geometry, labels: Labels) -> ForceExperts:
    return sparse_experts_and_left_out(problem(data, labels), Z)[0]


@every_label
def test_with_every_configuration_inducing_experts_are_dense_ones(
    labels: Labels, without_jitter: None, generator: torch.Generator
) -> None:
    data, R_new = labelled(random_molecules(generator, 8)), random_molecules(generator, 5)
    ours, left_out = sparse_experts_and_left_out(problem(data, labels), data.geometry)
    dense, expected = dense_experts_and_left_out(problem(data, labels))
    torch.testing.assert_close(ours.predict(R_new), dense.predict(R_new), **CLOSE)
    torch.testing.assert_close(left_out, expected, **CLOSE)


def test_predictions_are_those_of_dense_experts_with_next_to_no_noise(generator: torch.Generator) -> None:
    data, R_new = labelled(random_molecules(generator, 30)), random_molecules(generator, 20)
    exact = problem(data, parameters=(7.0, 10.0, 1e-9))
    ours = sparse_experts_and_left_out(exact, data.geometry)[0].predict(R_new)
    dense = dense_experts_and_left_out(exact)[0].predict(R_new)
    missed = (dense.forces - pair_potential(R_new)[1]).square().mean((1, 2, 3)).sqrt()
    assert ((ours.forces - dense.forces).square().mean((1, 2, 3)).sqrt() < 0.02 * missed).all()


@every_label
@pytest.mark.parametrize("n", [3, 12])  # fewer than are inducing, and more
def test_predictions_are_those_of_penalised_least_squares(
    labels: Labels, n: int, without_jitter: None, generator: torch.Generator
) -> None:
    data, Z = labelled(random_molecules(generator, n)), describe(random_molecules(generator, 4))
    new, sigma = describe(random_molecules(generator, 5)), SIGMAS[:1]
    inducing = ShapeDirections.of(Z, Labels.BOTH).moves
    of_labels, of_new = along_coordinates(data.geometry, labels), along_coordinates(new, Labels.BOTH)
    K_nz, K_xz = (covariance_along(KERNEL, each, inducing, bandwidths=sigma)[0] for each in (of_labels, of_new))
    R = torch.linalg.cholesky(covariance_along(KERNEL, inducing, bandwidths=sigma)[0])
    y = data.residual(labels, SIGMAS.new_tensor(7.0)).flatten()
    rows = torch.cat([10.0 / 1e-4**0.5 * K_nz, 10.0**0.5 * R.mT])
    weights = torch.linalg.lstsq(rows, torch.cat([y / 1e-4**0.5, y.new_zeros(len(R))])[:, None]).solution
    expected = split_labels((10.0 * K_xz @ weights).mT, Labels.BOTH, 4)
    ours = sparse_experts(data, Z, labels).predictor.at(new)
    torch.testing.assert_close(ours.energies[:1], expected.energies, **CLOSE)
    torch.testing.assert_close(ours.forces[:1], expected.forces, **CLOSE)


@every_label
def test_configurations_left_out_are_predicted_as_by_refitting(labels: Labels, generator: torch.Generator) -> None:
    R = random_molecules(generator, 7)
    Z = describe(R[:4])
    _, left_out = sparse_experts_and_left_out(problem(labelled(R), labels), Z)
    for i in (0, 6):  # inducing, and not
        rest = labelled(R[torch.arange(7) != i])
        energies, forces = sparse_experts(rest, Z, labels).predict(R[i : i + 1])
        ours = split_labels(left_out[:, i], labels, 4)
        if labels.forces:
            torch.testing.assert_close(ours.forces, forces, **CLOSE)
        if labels.energies:
            torch.testing.assert_close(ours.energies, energies, **CLOSE)


def test_leaving_out_is_stable_with_next_to_no_noise(generator: torch.Generator) -> None:
    R = random_molecules(generator, 25)
    data = labelled(R)
    _, left_out = sparse_experts_and_left_out(problem(data, parameters=(7.0, 10.0, 1e-9)), describe(R[:12]))
    off = left_out - data.residual(Labels.BOTH, SIGMAS.new_zeros(()))
    assert (off.square().mean((1, 2)) < data.residual(Labels.BOTH, SIGMAS.new_tensor(7.0)).square().mean()).all()


def test_the_memory_for_features_does_not_matter(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    data, Z = labelled(random_molecules(generator, 6)), describe(random_molecules(generator, 3))
    experts, left_out = sparse_experts_and_left_out(problem(data), Z)
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", 1)
    ours, ours_left_out = sparse_experts_and_left_out(problem(data), Z)
    torch.testing.assert_close(ours_left_out, left_out, **CLOSE)
    torch.testing.assert_close(ours.predictor.slopes, experts.predictor.slopes, **CLOSE)
