import math
from dataclasses import replace

import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.experts.interface import Experts, Posterior
from lobal.experts.leave_one_out import exact_leave_one_out
from lobal.mixture.leave_one_out import (
    left_out_by_expert,
    left_out_prediction,
    left_out_residuals,
    squared_residuals,
)
from lobal.mixture.model import FittedMixture
from tests.mixture.test_fit import ANALYTIC, data, fit


def fitted(**changes: object) -> tuple[FittedMixture, LabelledSet]:
    training = data()
    return fit(training, training=ANALYTIC, **changes), training.for_training()


def test_repeated_inputs_speak_by_their_distances_to_their_own_mean() -> None:
    X = torch.tensor([[1.0], [0.0], [1.0], [1.0]]).double()
    labels = torch.tensor([1.0, 7.0, 2.0, 6.0]).double()
    residual, u = torch.full((4,), 3.0).double(), torch.full((4,), 0.5).double()
    errors = squared_residuals(LabelledSet(X=X, y=labels, weight=torch.ones(4).double()), residual, u)
    assert errors.X[:, 0].tolist() == [0.0, 1.0]
    assert errors.total.tolist() == [9.0, pytest.approx(4.0 + 1.0 + 9.0)]
    assert errors.freedom.tolist() == [1.0, 2.0]
    assert errors.model_variance.tolist() == [0.5, 0.0]


@pytest.mark.parametrize("exact", [False, True])
def test_a_mixture_leaves_what_its_training_said(exact: bool) -> None:
    found, points = fitted(exact=exact)
    errors = left_out_residuals(found.mixture, points)
    assert found.residual is not None
    # The noise has been learned once more since the gate was.
    assert torch.allclose(errors.total.sqrt(), found.residual.abs(), atol=0.05 * found.residual.std().item())
    assert (errors.model_variance >= 0).all()


def test_squares_are_noise_and_model_variance_together() -> None:
    found, points = fitted()
    errors = left_out_residuals(found.mixture, points)
    together = errors.model_variance + found.hyperparameters.noise
    spread = math.sqrt(2.0 / len(points))  # of the mean of squared standard normals
    assert (errors.total / together).mean().item() == pytest.approx(1.0, abs=4.0 * spread)


def test_known_noise_is_no_part_of_the_models_variance() -> None:
    found, points = fitted()
    noise = found.hyperparameters.noise.expand(len(points))
    known = left_out_residuals(found.mixture, replace(points, noise=noise))
    learned = left_out_residuals(found.mixture, points)
    for a, b in zip(known, learned, strict=True):
        assert torch.allclose(a, b)


def test_importance_weights_do_not_count() -> None:
    found, points = fitted()
    weighted = replace(points, weight=torch.rand(len(points)).double() + 0.1)
    for a, b in zip(
        left_out_residuals(found.mixture, points), left_out_residuals(found.mixture, weighted), strict=True
    ):
        assert torch.equal(a, b)


def test_exact_experts_refuse_points_that_are_not_theirs() -> None:
    found, points = fitted(exact=True)
    with pytest.raises(ValueError, match="exactly the training X and y"):
        left_out_residuals(found.mixture, points[torch.arange(3)])


def test_exact_experts_know_their_points_in_any_order() -> None:
    found, points = fitted(exact=True)
    order = torch.randperm(len(points))
    as_fitted, shuffled = (left_out_by_expert(found.mixture, part) for part in (points, points[order]))
    assert torch.equal(as_fitted.mean[:, order], shuffled.mean)
    assert torch.equal(as_fitted.mean, exact_leave_one_out(found.mixture.experts).mean)  # type: ignore[arg-type]  # they are exact


def test_the_noise_of_exact_experts_is_that_of_their_own_labels() -> None:
    training = data()
    noise = 0.01 + 0.2 * torch.rand(len(training.points), generator=torch.Generator().manual_seed(0)).double()
    points = replace(training.points, noise=noise)
    mixture = fit(replace(training, points=points, gate_set=None), training=ANALYTIC, exact=True).mixture
    order = torch.randperm(len(points))
    known, unknown = (left_out_prediction(mixture, part[order]) for part in (points, replace(points, noise=None)))
    assert torch.equal(known.variance, unknown.variance)
    assert known.variance.median() < 0.01


def test_foreign_experts_are_refused_by_name() -> None:
    class Foreign(Experts):
        def mean(self, X: torch.Tensor) -> torch.Tensor:
            raise NotImplementedError

        def posterior(self, X: torch.Tensor) -> Posterior:
            raise NotImplementedError

        def joint_covariance(self, X: torch.Tensor, expert: int) -> torch.Tensor:
            raise NotImplementedError

    found, points = fitted()
    with pytest.raises(TypeError, match="sparse or exact experts, got Foreign"):
        left_out_residuals(replace(found.mixture, experts=Foreign()), points)
