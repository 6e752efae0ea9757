"""A fitted model at the points of a grid: the numbers behind the figures."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from lobal.core.complexity import superior_density
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.model import bandwidth_volume


class Grid(NamedTuple):
    """Points over the range of the data, and the length of the cell around each."""

    points: Float[ndarray, "n 1"]
    cells: Float[ndarray, " n"]


@final
@dataclass(frozen=True, kw_only=True)
class Profile:
    """A fitted model at the points of a grid; the two densities integrate to one over its cells."""

    points: Float[ndarray, "n 1"]
    mean: Float[ndarray, " n"]
    std: Float[ndarray, " n"]  # of a new label, noise included
    gate: Float[ndarray, "n L"]
    bandwidths: Float[ndarray, " L"]  # of the experts, sigma_l |Sigma_E|^(1/d)
    local_bandwidth: Float[ndarray, " n"]  # LOB
    complexity: Float[ndarray, " n"]  # LFC, as a density
    superior_density: Float[ndarray, " n"]


def profile(model: MixtureRegressor, grid: Grid) -> Profile:
    """The fitted model at the points of the grid; the test density is taken to be uniform there."""
    mean, std = model.predict(grid.points, return_std=True)
    return Profile(
        points=grid.points,
        mean=mean,
        std=std,
        gate=model.gate(grid.points),
        bandwidths=expert_bandwidths(model),
        local_bandwidth=model.local_bandwidth(grid.points),
        complexity=_normalised(model.local_complexity(grid.points), grid.cells),
        superior_density=_normalised(_superior_density(model, grid.points), grid.cells),
    )


def expert_bandwidths(model: MixtureRegressor) -> Float[ndarray, " L"]:
    """The bandwidth of every expert in units of the inputs; their geometric mean if these have several columns."""
    return (model.mixture_.bandwidths * bandwidth_volume(model.mixture_.shared_bandwidth)).cpu().numpy()


def line_grid(X: Float[ndarray, "n 1"], count: int = 1000) -> Grid:
    """Points from the smallest to the largest input: evenly spaced and, if all are positive, also geometrically."""
    lower, upper = X.min(), X.max()
    if lower == upper:
        raise ValueError(f"the input column must vary, got {lower} everywhere")
    x = np.linspace(lower, upper, count)
    if lower > 0.0:
        x = np.union1d(x, np.geomspace(lower, upper, count).clip(lower, upper))
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2.0, x[-1:]])  # the trapezoidal rule
    return Grid(x[:, None], np.diff(edges))


def _superior_density(model: MixtureRegressor, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Eq. (eq:GeneralizedOptimalSampling) for uniform test inputs, up to a constant factor."""
    density = superior_density(
        torch.from_numpy(model.local_complexity(points)),
        torch.ones(len(points), dtype=torch.float64),
        torch.from_numpy(model.noise_variance(points)),
        smoothness=model.smoothness_,
        dimension=model.intrinsic_dimension_,
    )
    return density.numpy()


def _normalised(values: Float[ndarray, " n"], cells: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return np.asarray(values / (values @ cells))
