import logging
import math

import pytest
import torch

from lobal.molecules.field import expert, solver
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.expert import dense_experts
from lobal.molecules.field.kernel import MolecularKernel, covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.radial import matern52
from lobal.molecules.field.solver import Elimination, conjugate_gradients, number_of_landmarks, solved
from lobal.molecules.geometry.permutations import closure
from tests.molecules.setting import every_label, labelled, problem, random_molecules, rmd17_malonaldehyde

SWAP = closure(torch.tensor([[1, 0, 2, 3]]))
KERNEL = MolecularKernel(radial=matern52, shared_bandwidth=torch.ones(6, dtype=torch.float64), permutations=SWAP)
SIGMA = torch.tensor([5.0], dtype=torch.float64)


def posed(data: LabelledMolecules, labels: Labels = Labels.FORCES) -> Problem:
    return problem(data, labels, kernel=KERNEL, bandwidths=SIGMA, parameters=(7.0, 2.0, 1e-10))


@every_label
@pytest.mark.parametrize("group", [1, 60, 10**6])
def test_weights_predict_what_those_of_a_factor_do(
    labels: Labels, group: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "GROUP", group)
    data, new = labelled(random_molecules(generator, 40)), random_molecules(generator, 20)
    monkeypatch.setattr(expert, "FEWEST_ITERATED", 10**9)
    expected = dense_experts(posed(data, labels)).predict(new)
    monkeypatch.setattr(expert, "FEWEST_ITERATED", 1)
    ours = dense_experts(posed(data, labels)).predict(new)
    torch.testing.assert_close(ours.forces, expected.forces, rtol=0.0, atol=1e-3 * expected.forces.std().item())
    torch.testing.assert_close(ours.energies, expected.energies, rtol=0.0, atol=1e-3 * expected.energies.std().item())


def test_malonaldehyde_gets_the_forces_of_a_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    data, rows = rmd17_malonaldehyde(), slice(100)
    R, E, F = (torch.from_numpy(data[name])[data["split_train"][0]] for name in "REF")
    group = closure(torch.tensor([[0, 1, 2, 3, 4, 5, 7, 6, 8], [2, 1, 0, 4, 3, 8, 6, 7, 5]]))
    kernel = MolecularKernel(radial=matern52, shared_bandwidth=torch.ones(36, dtype=torch.float64), permutations=group)
    known = LabelledMolecules.at(R[rows], energies=E[rows], forces=F[rows])
    same = problem(known, Labels.FORCES, kernel=kernel, bandwidths=3.0 * SIGMA, parameters=(7.0, 1.0, 1e-10))
    expected = dense_experts(same).predict(R[100:200])
    monkeypatch.setattr(expert, "FEWEST_ITERATED", 1)
    ours = dense_experts(same).predict(R[100:200])
    assert (ours.forces - expected.forces).abs().max() < 1e-3  # eV/A, where errors are 0.087
    assert (ours.energies - expected.energies).abs().max() < 1e-3


@every_label
def test_the_residual_is_below_the_tolerance(labels: Labels, generator: torch.Generator) -> None:
    posed_problem = posed(labelled(random_molecules(generator, 40)), labels)
    for tolerance in (1e-3, 1e-6):
        weights, residual, _ = solved(posed_problem, tolerance=tolerance)
        assert residual <= 2.0 * tolerance
        assert weights.shape == (40 * labels.width(4),)


def test_the_preconditioner_is_the_matrix_but_for_couplings_between_groups(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "GROUP", 10**6)
    moves = ShapeDirections.of(labelled(random_molecules(generator, 16)).geometry, Labels.BOTH).moves
    sigma, scale, noise = torch.tensor([1.0, 2.0, 1e-2], dtype=torch.float64)
    C = scale * covariance_along(KERNEL, moves, bandwidths=sigma[None])[0]
    C.diagonal().add_(noise)
    r = torch.randn(16, moves.width, dtype=torch.float64, generator=generator)
    P = Elimination.of(KERNEL, moves, bandwidth=sigma, scale=scale, noise=noise)
    torch.testing.assert_close(P((C @ r.flatten()).view_as(r)), r, rtol=1e-3, atol=1e-3)


def test_where_iterations_do_not_get_there_a_factor_does(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(expert, "FEWEST_ITERATED", 1)
    monkeypatch.setattr(solver, "solved", None)
    monkeypatch.setattr(expert, "solved", lambda *_, **__: (torch.zeros(240), math.nan, 1000))
    data = labelled(random_molecules(generator, 20))
    with caplog.at_level(logging.WARNING):
        ours = dense_experts(posed(data))
    assert "using a Cholesky factor" in caplog.text
    monkeypatch.setattr(expert, "FEWEST_ITERATED", 10**9)
    expected = dense_experts(posed(data))
    torch.testing.assert_close(ours.predictor.slopes, expected.predictor.slopes)


def test_labels_that_are_zero_have_weights_of_zero(generator: torch.Generator) -> None:
    R = random_molecules(generator, 10)
    weights, *rest = solved(posed(LabelledMolecules.at(R, forces=torch.zeros_like(R))))
    assert weights.abs().max() == 0.0
    assert rest == [0.0, 0]


def test_conjugate_gradients_solve_n_equations_in_n_steps(generator: torch.Generator) -> None:
    root = torch.randn(6, 6, dtype=torch.float64, generator=generator)
    C, y = root @ root.T + torch.eye(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    alpha, residual, iterations = conjugate_gradients(lambda w: C @ w, lambda r: r, y, tolerance=1e-10)
    torch.testing.assert_close(C @ alpha, y)
    assert iterations <= 7
    assert residual < 1e-9


@pytest.mark.parametrize(("n", "width", "number"), [(4, 21, 1), (80, 21, 16), (10**4, 21, 30), (10**7, 100, 1)])
def test_landmarks_are_few(n: int, width: int, number: int) -> None:
    assert number_of_landmarks(n, width) == number
