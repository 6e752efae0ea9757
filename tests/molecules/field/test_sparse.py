from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core import kernels
from lobal.experts.interface import Hyperparameters
from lobal.molecules.field import sparse as module
from lobal.molecules.field.expert import Ladder, experts_and_left_out, molecular_experts
from lobal.molecules.field.kernel import MolecularKernel, along_coordinates, covariance, covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels, split_labels
from lobal.molecules.field.product import Internal
from lobal.molecules.field.radial import gaussian
from lobal.molecules.field.sparse import own_covariances, sparse_experts_and_left_out, sparse_molecular_experts
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import closure
from tests.molecules.setting import pair_potential, random_molecules

CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
GROUP = closure(torch.tensor([[1, 0, 2, 3]]))
SHARED = torch.tensor([0.3, 0.5, 0.7, 0.4, 0.6, 0.9], dtype=torch.float64)
KERNEL = MolecularKernel(radial=gaussian, shared=SHARED, permutations=GROUP)
SIGMAS = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
PARAMETERS = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (7.0, 10.0, 1e-4)))

every_label = pytest.mark.parametrize("labels", list(Labels))


@pytest.fixture
def without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JITTER", 0.0)


def labelled(R: Tensor) -> LabelledMolecules:
    energies, forces = pair_potential(R)
    return LabelledMolecules.at(R, energies=energies, forces=forces)


def ladder(labels: Labels) -> Ladder:
    return Ladder(kernel=KERNEL, bandwidths=SIGMAS, labels=labels)


@every_label
def test_with_every_configuration_inducing_predictions_are_those_of_dense_experts(
    labels: Labels, without_jitter: None, generator: torch.Generator
) -> None:
    data, R_new = labelled(random_molecules(generator, 8)), random_molecules(generator, 5)
    ours = sparse_molecular_experts(data, data.geometry, ladder(labels), PARAMETERS, keep_factors=True)
    dense = molecular_experts(data, ladder(labels), PARAMETERS, keep_factors=True)
    torch.testing.assert_close(ours.predict(R_new), dense.predict(R_new), **CLOSE)
    torch.testing.assert_close(ours.posterior(R_new.flatten(1)), dense.posterior(R_new.flatten(1)), **CLOSE)


@every_label
def test_with_every_configuration_inducing_what_is_left_out_is_that_of_dense_experts(
    labels: Labels, without_jitter: None, generator: torch.Generator
) -> None:
    data = labelled(random_molecules(generator, 6))
    _, ours = sparse_experts_and_left_out(data, data.geometry, ladder(labels), PARAMETERS)
    _, dense = experts_and_left_out(data, ladder(labels), PARAMETERS)
    torch.testing.assert_close(ours, dense, **CLOSE)


def test_predictions_are_those_of_dense_experts_with_next_to_no_noise(generator: torch.Generator) -> None:
    data, R_new = labelled(random_molecules(generator, 30)), random_molecules(generator, 20)
    parameters = PARAMETERS._replace(noise=SIGMAS.new_tensor(1e-9))
    ours = sparse_molecular_experts(data, data.geometry, ladder(Labels.BOTH), parameters).predict(R_new)
    dense = molecular_experts(data, ladder(Labels.BOTH), parameters).predict(R_new)
    missed = (dense.forces - pair_potential(R_new)[1]).square().mean((1, 2, 3)).sqrt()
    assert ((ours.forces - dense.forces).square().mean((1, 2, 3)).sqrt() < 0.02 * missed).all()


@every_label
@pytest.mark.parametrize("n", [3, 12])  # fewer than are inducing, and more
def test_predictions_are_those_of_penalised_least_squares(
    labels: Labels, n: int, without_jitter: None, generator: torch.Generator
) -> None:
    data, Z = labelled(random_molecules(generator, n)), describe(random_molecules(generator, 4))
    new, sigma = describe(random_molecules(generator, 5)), SIGMAS[:1]
    inducing = Internal.of(Z, Labels.BOTH).moves
    of_labels, of_new = along_coordinates(data.geometry, labels), along_coordinates(new, Labels.BOTH)
    K_nz, K_xz = (covariance_along(KERNEL, each, inducing, bandwidths=sigma)[0] for each in (of_labels, of_new))
    R = torch.linalg.cholesky(covariance_along(KERNEL, inducing, bandwidths=sigma)[0])
    y = data.residual(labels, PARAMETERS.mean).flatten()
    rows = torch.cat([10.0 / 1e-4**0.5 * K_nz, 10.0**0.5 * R.mT])
    weights = torch.linalg.lstsq(rows, torch.cat([y / 1e-4**0.5, y.new_zeros(len(R))])[:, None]).solution
    expected = split_labels((10.0 * K_xz @ weights).mT, Labels.BOTH, 4)
    experts = sparse_molecular_experts(data, Z, ladder(labels), PARAMETERS)
    ours = experts.predictor.at(new)
    torch.testing.assert_close(ours.energies[:1], expected.energies, **CLOSE)
    torch.testing.assert_close(ours.forces[:1], expected.forces, **CLOSE)


@every_label
def test_configurations_left_out_are_predicted_as_by_refitting(labels: Labels, generator: torch.Generator) -> None:
    R = random_molecules(generator, 7)
    Z = describe(R[:4])
    _, left_out = sparse_experts_and_left_out(labelled(R), Z, ladder(labels), PARAMETERS)
    for i in (0, 6):  # inducing, and not
        rest = labelled(R[torch.arange(7) != i])
        without = sparse_molecular_experts(rest, Z, ladder(labels), PARAMETERS, keep_factors=True)
        energies, forces = without.predict(R[i : i + 1])
        ours = split_labels(left_out.mean[:, i], labels, 4)
        if labels.forces:
            torch.testing.assert_close(ours.forces, forces, **CLOSE)
        if labels.energies:
            torch.testing.assert_close(ours.energies, energies, **CLOSE)
            variance = without.posterior(R[i : i + 1].flatten(1)).variance[:, 0]
            torch.testing.assert_close(left_out.covariance[:, i, 0, 0] - 1e-4, variance, **CLOSE)


def test_covariances_of_what_is_left_out_are_positive_definite_with_next_to_no_noise(
    generator: torch.Generator,
) -> None:
    R = random_molecules(generator, 25)
    parameters = PARAMETERS._replace(noise=SIGMAS.new_tensor(1e-9))
    _, left_out = sparse_experts_and_left_out(labelled(R), describe(R[:12]), ladder(Labels.BOTH), parameters)
    assert (torch.linalg.eigvalsh(left_out.covariance) > 0.0).all()
    assert torch.isfinite(left_out.mean).all()


def test_experts_and_what_they_leave_out_are_the_experts(generator: torch.Generator) -> None:
    data, Z, R_new = (
        labelled(random_molecules(generator, 6)),
        random_molecules(generator, 3),
        random_molecules(generator, 3),
    )
    experts, _ = sparse_experts_and_left_out(data, describe(Z), ladder(Labels.FORCES), PARAMETERS)
    expected = sparse_molecular_experts(data, describe(Z), ladder(Labels.FORCES), PARAMETERS)
    torch.testing.assert_close(experts.predict(R_new), expected.predict(R_new))


def test_the_memory_for_features_does_not_matter(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    data, Z = labelled(random_molecules(generator, 6)), describe(random_molecules(generator, 3))
    experts, left_out = sparse_experts_and_left_out(data, Z, ladder(Labels.BOTH), PARAMETERS)
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", 1)
    monkeypatch.setattr(module, "BLOCKS_TOGETHER", 1)
    ours, ours_left_out = sparse_experts_and_left_out(data, Z, ladder(Labels.BOTH), PARAMETERS)
    torch.testing.assert_close(ours_left_out, left_out, **CLOSE)
    torch.testing.assert_close(ours.predictor.slopes, experts.predictor.slopes, **CLOSE)


def test_variances_lie_between_zero_and_the_prior_and_fall_with_more_labels(generator: torch.Generator) -> None:
    R, X = random_molecules(generator, 10), random_molecules(generator, 6).flatten(1)
    Z = describe(R[:5])
    few, many = (
        sparse_molecular_experts(labelled(part), Z, ladder(Labels.BOTH), PARAMETERS, keep_factors=True).posterior(X)
        for part in (R[:3], R)
    )
    prior = 10.0 * covariance(KERNEL, describe(X.unflatten(1, (-1, 3))), bandwidths=SIGMAS, rows=Labels.ENERGIES)
    assert (many.variance >= 0.0).all()
    assert (many.variance <= few.variance + 1e-9).all()
    assert (few.variance <= prior.diagonal(dim1=1, dim2=2) + 1e-9).all()


@every_label
def test_permuted_molecules_have_the_same_energy_and_permuted_forces(
    labels: Labels, generator: torch.Generator
) -> None:
    R, R_new = random_molecules(generator, 8), random_molecules(generator, 3)
    experts = sparse_molecular_experts(labelled(R), describe(R[:3]), ladder(labels), PARAMETERS)
    ours, permuted = experts.predict(R_new), experts.predict(R_new[:, GROUP[1]])
    torch.testing.assert_close(permuted.energies, ours.energies)
    torch.testing.assert_close(permuted.forces, ours.forces[:, :, GROUP[1]])


def test_labels_with_huge_noise_are_ignored(generator: torch.Generator) -> None:
    R, R_new = random_molecules(generator, 6), random_molecules(generator, 3)
    noise = torch.full((6, 13), 1e-4, dtype=torch.float64)
    noise[4] = 1e12
    Z, rest = describe(R[:2]), torch.arange(6) != 4
    parameters = PARAMETERS._replace(noise=noise.flatten())
    ours = sparse_molecular_experts(labelled(R), Z, ladder(Labels.BOTH), parameters).predict(R_new)
    without = sparse_molecular_experts(labelled(R[rest]), Z, ladder(Labels.BOTH), PARAMETERS).predict(R_new)
    torch.testing.assert_close(ours, without, **CLOSE)


def test_covariances_of_a_configuration_with_itself_are_blocks_of_the_covariance(generator: torch.Generator) -> None:
    geometry = describe(random_molecules(generator, 11))
    K = covariance(KERNEL, geometry, bandwidths=SIGMAS[:1])[0].view(11, 13, 11, 13)
    expected = torch.stack([K[i, :, i] for i in range(11)])
    ours = own_covariances(KERNEL, along_coordinates(geometry, Labels.BOTH), SIGMAS[0])
    torch.testing.assert_close(ours, expected)


def test_what_does_not_fit_together_is_refused(generator: torch.Generator) -> None:
    data, five = labelled(random_molecules(generator, 3)), random_molecules(generator, 3, N=5)
    both = ladder(Labels.BOTH)
    with pytest.raises(ValueError, match="molecules of 4 atoms, got configurations of 5"):
        sparse_molecular_experts(data, describe(five), both, PARAMETERS)
    with pytest.raises(ValueError, match="molecules of 4 atoms, got configurations of 5"):
        sparse_molecular_experts(labelled(five), data.geometry, both, PARAMETERS)
    with pytest.raises(ValueError, match="at least one inducing configuration"):
        sparse_molecular_experts(data, data.geometry.at(slice(0)), both, PARAMETERS)
    for noise in (SIGMAS.new_tensor(0.0), SIGMAS):
        with pytest.raises(ValueError, match="above zero, one number or one for each of 3 x 13 labels, got shape"):
            sparse_molecular_experts(data, data.geometry, both, PARAMETERS._replace(noise=noise))


def test_variances_need_factors(generator: torch.Generator) -> None:
    data = labelled(random_molecules(generator, 3))
    experts = sparse_molecular_experts(data, data.geometry, ladder(Labels.BOTH), PARAMETERS)
    with pytest.raises(ValueError, match="variances need keep_factors=True"):
        experts.posterior(torch.ones(1, 12, dtype=torch.float64))


def test_one_expert_alone_says_the_same(generator: torch.Generator) -> None:
    data, X = labelled(random_molecules(generator, 6)), random_molecules(generator, 3).flatten(1)
    experts = sparse_molecular_experts(
        data, data.geometry.at(slice(3)), ladder(Labels.BOTH), PARAMETERS, keep_factors=True
    )
    alone, every = experts.only(1).posterior(X), experts.posterior(X)
    torch.testing.assert_close(alone.mean[0], every.mean[1])
    torch.testing.assert_close(alone.variance[0], every.variance[1])
    assert experts.only(2).weights.shape == (1, 3 * 13)
