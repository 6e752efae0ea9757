from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from lobal.molecules.field import anisotropy as module
from lobal.molecules.field.anisotropy import (
    LOSSES,
    drawn_folds,
    isotropic_bandwidth,
    prediction_error,
    trained_bandwidth,
)
from lobal.molecules.field.expert import dense_experts
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.radial import RadialKernel, gaussian
from lobal.molecules.geometry.permutations import closure, identity, orbits, typical_distance
from tests.molecules.setting import every_label, every_radial, labelled, problem, random_molecules

GROUP = closure(torch.tensor([[1, 0, 2, 3]]))
TIED = torch.tensor([1.3, 1.5, 1.7, 1.5, 1.7, 1.9], dtype=torch.float64)  # pairs 01, 02, 03, 12, 13, 23
FREE = torch.tensor([1.3, 1.5, 1.7, 1.4, 1.6, 1.9], dtype=torch.float64)
STEP = 1e-4
every_loss = pytest.mark.parametrize("loss", LOSSES)


def of_two_atoms(R: Tensor) -> LabelledMolecules:
    """Energies that only the distances of atom 3 from atoms 0 and 1 matter to."""
    R = R.clone().requires_grad_()
    distance = (R[:, :2] - R[:, 3:]).norm(dim=-1)
    energies = torch.sin(3.0 * distance).sum(1)
    (gradient,) = torch.autograd.grad(energies.sum(), R)
    return LabelledMolecules.at(R.detach(), energies=energies.detach(), forces=-gradient)


def some_error(labels: Labels, radial: RadialKernel = gaussian, loss: str = "mse") -> Callable[[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(0)
    data = labelled(random_molecules(generator, 12))
    return partial(prediction_error, drawn_folds(data, labels, 5, 2, generator), radial, GROUP, loss=LOSSES[loss])


@every_label
def test_the_error_is_that_of_dense_experts(
    labels: Labels, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NOISE", 1e-4)
    monkeypatch.setattr(module, "_prior_variance", lambda *_: FREE.new_tensor(1.0))
    folds = drawn_folds(labelled(random_molecules(generator, 12)), labels, 5, 1, generator)
    known, _, others, _ = folds[0]
    assert known.energies is not None
    mean = known.energies.mean()
    kernel = MolecularKernel(radial=gaussian, shared_bandwidth=FREE, permutations=GROUP)
    posed = problem(known, labels, kernel=kernel, bandwidths=FREE.new_ones(1), parameters=(mean.item(), 1.0, 1e-4))
    energies, forces = dense_experts(posed).predictor.at(others.geometry)
    off = others.residual(Labels.BOTH, mean) - torch.cat([energies[0, :, None], forces[0].flatten(1)], dim=1)
    start, stop = 0 if labels.energies else 1, 13 if labels.forces else 1
    squares = off[:, start:stop].square().mean(1)
    for loss, expected in (("mse", squares.mean()), ("rmse", squares.sqrt().mean())):
        ours = prediction_error(folds, gaussian, GROUP, FREE, loss=LOSSES[loss])
        torch.testing.assert_close(ours, expected, rtol=1e-8, atol=0.0)


@every_label
@every_radial
def test_slopes_along_free_bandwidths_are_those_of_differences(labels: Labels, radial: RadialKernel) -> None:
    error, shared = some_error(labels, radial), FREE.clone().requires_grad_()
    (slope,) = torch.autograd.grad(error(shared), shared)
    steps = STEP * torch.eye(6, dtype=torch.float64)
    expected = torch.stack([(error(FREE + step) - error(FREE - step)) / (2.0 * STEP) for step in steps])
    torch.testing.assert_close(slope, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())


@every_label
@every_loss
def test_slopes_along_tied_bandwidths_are_those_of_differences(labels: Labels, loss: str) -> None:
    error, orbit = some_error(labels, loss=loss), orbits(GROUP)
    theta = TIED[[0, 1, 2, 5]].requires_grad_()
    (slope,) = torch.autograd.grad(error(theta[orbit]), theta)
    steps = STEP * torch.eye(4, dtype=torch.float64)[:, orbit]
    expected = torch.stack([(error(TIED + step) - error(TIED - step)) / (2.0 * STEP) for step in steps])
    torch.testing.assert_close(slope, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())


def test_pairs_that_matter_get_the_smallest_bandwidths(generator: torch.Generator) -> None:
    data = of_two_atoms(random_molecules(generator, 40))
    shared = trained_bandwidth(data, gaussian, GROUP, labels=Labels.BOTH, generator=generator, m=15)
    rest = shared[[0, 1, 3, 5]]
    assert rest.min() > 1.5 * shared[[2, 4]].max()  # atoms 0 and 3, and 1 and 3


def test_by_roots_of_errors_a_few_configurations_far_from_all_others_do_not_decide(generator: torch.Generator) -> None:
    data = of_two_atoms(random_molecules(generator, 40))
    far = torch.where(torch.arange(40) < 3, 30.0, 1.0).to(data.geometry.values)  # labels of three, times 30
    assert data.energies is not None
    assert data.forces is not None
    wild = replace(data, energies=data.energies * far, forces=data.forces * far[:, None, None])
    mse, rmse = (
        trained_bandwidth(wild, gaussian, GROUP, labels=Labels.FORCES, generator=generator, m=15, loss=loss)
        for loss in LOSSES
    )
    new = drawn_folds(of_two_atoms(random_molecules(generator, 50)), Labels.FORCES, 15, 1, generator)
    assert prediction_error(new, gaussian, GROUP, rmse) < 0.8 * prediction_error(new, gaussian, GROUP, mse)


def test_labels_that_are_predicted_exactly_have_a_slope_of_zero(generator: torch.Generator) -> None:
    data = of_two_atoms(random_molecules(generator, 12))
    none = replace(
        data, energies=torch.zeros(12, dtype=torch.float64), forces=torch.zeros(12, 4, 3, dtype=torch.float64)
    )
    folds, shared = drawn_folds(none, Labels.BOTH, 5, 2, generator), FREE.clone().requires_grad_()
    (slope,) = torch.autograd.grad(prediction_error(folds, gaussian, GROUP, shared, loss=LOSSES["rmse"]), shared)
    assert torch.equal(slope, torch.zeros_like(slope))


def test_bandwidths_stay_within_reach_of_the_start(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_BANDWIDTH", 1e-4)
    data = of_two_atoms(random_molecules(generator, 20))
    shared = trained_bandwidth(data, gaussian, GROUP, labels=Labels.BOTH, generator=generator, m=5)
    start = isotropic_bandwidth(data.geometry.values, GROUP)
    assert ((shared.log() - start.log()).abs() <= module.REACH).all()


def test_training_lowers_the_error_at_configurations_never_seen(generator: torch.Generator) -> None:
    data, new = (of_two_atoms(random_molecules(generator, n)) for n in (30, 50))
    shared = trained_bandwidth(data, gaussian, GROUP, labels=Labels.FORCES, generator=generator, m=15, folds=1)
    error = partial(prediction_error, drawn_folds(new, Labels.FORCES, 15, 1, generator), gaussian, identity(4))
    isotropic = torch.tensor([0.25, 0.5, 1.0, 2.0, 4.0, 8.0], dtype=torch.float64)
    assert error(shared) < 0.5 * min(error(each.expand(6)) for each in isotropic)


def test_tied_bandwidths_are_equal_and_free_ones_are_not(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ITERATIONS", 3)
    data = labelled(random_molecules(generator, 10))
    tied, free = (
        trained_bandwidth(data, gaussian, GROUP, labels=Labels.BOTH, generator=generator, m=4, tied=each)
        for each in (True, False)
    )
    assert torch.equal(tied[[1, 2]], tied[[3, 4]])
    assert not torch.equal(free[[1, 2]], free[[3, 4]])


def test_the_generator_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ITERATIONS", 3)
    data = labelled(random_molecules(torch.Generator().manual_seed(1), 9))
    generators = (torch.Generator().manual_seed(seed) for seed in (0, 0, 1))
    first, second, other = (
        trained_bandwidth(data, gaussian, GROUP, labels=Labels.FORCES, generator=each, m=4) for each in generators
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_training_starts_from_the_isotropic_bandwidth(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ITERATIONS", 0)
    data = labelled(random_molecules(generator, 6))
    shared = trained_bandwidth(data, gaussian, GROUP, labels=Labels.BOTH, generator=generator)
    torch.testing.assert_close(shared, isotropic_bandwidth(data.geometry.values, GROUP))
    torch.testing.assert_close(shared, 8.0 * typical_distance(data.geometry.values, GROUP).expand(6))


@pytest.mark.parametrize(
    ("n", "m", "folds", "sizes"), [(9, 4, 3, [4, 4]), (9, 8, 2, [4, 4]), (9, 4, 1, [4]), (2, 9, 9, [1, 1])]
)
def test_folds_are_disjoint_and_predict_all_others(
    n: int, m: int, folds: int, sizes: list[int], generator: torch.Generator
) -> None:
    data = labelled(random_molecules(generator, n))
    drawn = drawn_folds(data, Labels.BOTH, m, folds, generator)
    assert [len(fold.known.geometry.values) for fold in drawn] == sizes
    together = torch.cat([fold.known.geometry.values for fold in drawn])
    assert len(together.unique(dim=0)) == sum(sizes)
    for fold in drawn:
        both = torch.cat([fold.known.geometry.values, fold.others.geometry.values])
        assert len(both.unique(dim=0)) == n


def test_what_cannot_be_trained_on_is_refused(generator: torch.Generator) -> None:
    R = random_molecules(generator, 6)
    for data, message in (
        (labelled(R[:1]), "at least 2 configurations, got 1"),
        (LabelledMolecules.at(R, energies=R[:, 0, 0]), "forces are needed as labels, but the configurations have none"),
    ):
        with pytest.raises(ValueError, match=message):
            trained_bandwidth(data, gaussian, GROUP, labels=Labels.BOTH, generator=generator)
