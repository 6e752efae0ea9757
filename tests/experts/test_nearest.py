"""Predictions of labels from their nearest neighbours: as by a process fitted to these alone."""

import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, gaussian, matern52
from lobal.experts.exact import exact_experts
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import LeaveOneOut, exact_leave_one_out
from lobal.experts.nearest import leave_one_out_from_nearest

LADDER = torch.tensor([0.3, 1.0, 4.0], dtype=torch.float64)
WIDTH = torch.tensor([0.4, 0.8], dtype=torch.float64)


@pytest.fixture
def points(generator: torch.Generator) -> LabelledSet:
    X = torch.rand(40, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(6.0 * X[:, 0]) + X[:, 1]
    return LabelledSet(X=X, y=y, weight=torch.ones_like(y))


def hyperparameters(noise: torch.Tensor) -> Hyperparameters:
    return Hyperparameters(noise.new_tensor(0.3), noise.new_tensor(1.5), noise)


def predicted(
    points: LabelledSet, noise: torch.Tensor, rows: torch.Tensor, k: int, kernel: Kernel = gaussian
) -> LeaveOneOut:
    shape = {"bandwidths": LADDER, "shared_bandwidth": WIDTH, "kernel": kernel}
    return leave_one_out_from_nearest(points, rows, hyperparameters(noise), k=k, **shape)


@pytest.mark.parametrize("kernel", [gaussian, matern52])
@pytest.mark.parametrize("k", [39, 500])
def test_from_all_others_they_are_those_of_exact_experts(k: int, kernel: Kernel, points: LabelledSet) -> None:
    noise = torch.linspace(0.01, 0.5, 40, dtype=torch.float64)
    shape = {"bandwidths": LADDER, "shared_bandwidth": WIDTH, "kernel": kernel}
    expected = exact_leave_one_out(exact_experts(points.X, points.y, hyperparameters(noise), **shape))
    for found, wanted in zip(predicted(points, noise, torch.arange(40), k, kernel), expected, strict=True):
        assert torch.allclose(found, wanted, atol=1e-8)


def test_a_label_is_predicted_from_the_nearest_in_units_of_the_bandwidth_alone(points: LabelledSet) -> None:
    noise, row = torch.tensor(0.1, dtype=torch.float64), 7
    distance = ((points.X - points.X[row]) / WIDTH).norm(dim=1)
    near = distance.argsort()[1:6]
    shape = {"bandwidths": LADDER, "shared_bandwidth": WIDTH, "kernel": gaussian}
    fitted = exact_experts(points.X[near], points.y[near], hyperparameters(noise), **shape)
    mean, variance, _ = predicted(points, noise, torch.tensor([row, 3]), k=5)
    posterior = fitted.posterior(points.X[row : row + 1])
    assert torch.allclose(mean[:, 0], posterior.mean[:, 0])
    assert torch.allclose(variance[:, 0], posterior.variance[:, 0] + noise)


def test_of_equal_points_a_label_is_predicted_from_the_others(points: LabelledSet) -> None:
    X = points.X.clone()
    X[:8] = X[0]
    y = torch.where(torch.arange(40) == 3, 5.0, points.y)
    same = LabelledSet(X=X, y=y, weight=points.weight)
    mean, _, _ = predicted(same, torch.tensor(1e-4, dtype=torch.float64), torch.arange(8), k=4)
    assert (mean[:, 3] < 2.0).all()
