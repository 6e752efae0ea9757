from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core import kernels
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels, split_labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.radial import RadialKernel, gaussian
from lobal.molecules.geometry.descriptor import describe
from tests.molecules.setting import (
    ANISOTROPIC,
    GROUP,
    SIGMAS,
    covariance,
    every_bandwidth,
    every_label,
    every_radial,
    random_molecules,
    rotation,
)

CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}


def random_predictor(
    generator: torch.Generator,
    labels: Labels = Labels.BOTH,
    radial: RadialKernel = gaussian,
    shared: Tensor = ANISOTROPIC,
) -> tuple[Predictor, MolecularKernel, Tensor, Tensor]:
    R = random_molecules(generator, 6)
    weights = torch.randn(3, 6 * labels.width(4), dtype=torch.float64, generator=generator)
    kernel = MolecularKernel(radial=radial, shared_bandwidth=shared, permutations=GROUP)
    return Predictor.of(kernel, describe(R), weights, bandwidths=SIGMAS, labels=labels), kernel, R, weights


@every_bandwidth
@every_radial
@every_label
def test_predictions_are_covariances_times_weights(
    labels: Labels, radial: RadialKernel, shared: Tensor, generator: torch.Generator
) -> None:
    predictor, kernel, R, weights = random_predictor(generator, labels, radial, shared)
    R_new = torch.cat([random_molecules(generator, 5), R[:2]])  # training configurations among them
    K = covariance(kernel, describe(R_new), describe(R), bandwidths=SIGMAS, columns=labels)
    energies, forces = split_labels((K @ weights[:, :, None])[..., 0], Labels.BOTH, 4)
    ours = predictor.at(describe(R_new))
    torch.testing.assert_close(ours.energies, energies, **CLOSE)
    torch.testing.assert_close(ours.forces, forces, **CLOSE)


def test_energies_do_not_change_and_forces_go_along_when_a_molecule_is_permuted_and_turned(
    generator: torch.Generator,
) -> None:
    predictor, *_ = random_predictor(generator)
    R, turn = random_molecules(generator, 3), rotation(generator)
    expected = predictor.at(describe(R))
    for pi in GROUP:
        moved = predictor.at(describe(R[:, pi] @ turn + 1.0))
        torch.testing.assert_close(moved.energies, expected.energies, **CLOSE)
        torch.testing.assert_close(moved.forces, expected.forces[:, :, pi] @ turn, **CLOSE)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_configurations_are_answered_one_by_one(
    n: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, *_ = random_predictor(generator)
    R = random_molecules(generator, n)
    together = predictor.at(describe(R))
    assert together.forces.shape == (3, n, 4, 3)
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", 1)
    torch.testing.assert_close(predictor.at(describe(R)).energies, together.energies, **CLOSE)
    torch.testing.assert_close(predictor.at(describe(R)).forces, together.forces, **CLOSE)
