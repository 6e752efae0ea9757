"""Inducing points in any number of columns: cells of equal mass, evened out by a few steps of Lloyd's algorithm."""

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.core.density import capped
from lobal.core.kernels import squared_distances
from lobal.inducing.random_points import merged
from lobal.inducing.spacing import assignment, euclidean, local_spacing

# Steps of power iteration towards the first principal axis. With exact eigenvectors the points were neither more even
# nor closer to the target.
POWER_STEPS = 3
# Masses below this share of the largest are raised to it when the direction is chosen, to prevent underflow.
SMALLEST_MASS = 1e-12
# Without these steps cells are long in many columns: on uci_pol (26) the error of a mixture was 14 percent larger.
LLOYD_STEPS = 3


def cell_points(
    X: Inputs, m: int, *, generator: torch.Generator, weight: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "m d"]:
    """m evenly spread points that follow the density t of the weighted sample, which has at least m distinct rows.

    The sample is halved across its longest direction, and each part again, until there are m cells of equal mass. Their
    means follow t in any number of columns. Lloyd's algorithm then evens out the distances. By itself it leads to the
    density t^(d / (d + 2)) (Graf and Luschgy); with the further weight t^(2 / d), which is found from the distances to
    neighbours with d the intrinsic dimension, it leads to t.
    """
    rows, mass = merged(X, weight)
    points = cell_means(rows, mass, m)
    spacing = local_spacing(rows, euclidean, generator=generator)
    matched = (mass / mass.mean()).pow(1.0 + 2.0 / spacing.dimension) / spacing.radius.square()
    # Rows that almost coincide have next to no spacing and would attract all points.
    matched = capped(matched / matched.mean(), float(m))
    for _ in range(LLOYD_STEPS):
        points = _lloyd_step(rows, matched, points)
    return points


def cell_means(X: Inputs, mass: Float[Tensor, " n"], m: int) -> Float[Tensor, "m d"]:
    """The means of m cells that hold equal shares of the mass. Costs O(n d log m)."""
    rows, share = X.cpu().double().numpy(), mass.cpu().double().numpy()
    means = [share[cell] @ rows[cell] / share[cell].sum() for cell in equal_cells(rows, share, m)]
    return torch.as_tensor(np.array(means)).to(X)


def equal_cells(X: Float[ndarray, "n d"], mass: Float[ndarray, " n"], m: int) -> list[Int[ndarray, " k"]]:
    """The rows of each of m cells of almost equal mass, none empty."""
    cells, remaining = [], [(np.arange(len(X)), m)]
    while remaining:
        rows, parts = remaining.pop()
        if parts == 1:
            cells.append(rows)
            continue
        order = rows[np.argsort(longest_coordinate(X[rows], mass[rows]), kind="stable")]
        left = parts // 2
        middle = mass[order].cumsum() - 0.5 * mass[order]
        cut = np.searchsorted(middle, mass[order].sum() * left / parts)
        # Each side needs a row for each of its cells, however large the mass of a single row.
        cut = np.clip(cut, left, len(rows) - (parts - left))
        remaining += [(order[:cut], left), (order[cut:], parts - left)]
    return cells


def longest_coordinate(X: Float[ndarray, "n d"], mass: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Coordinates of the rows along, approximately, the first principal axis of the weighted sample."""
    centred = X - mass @ X / mass.sum()
    centred /= np.abs(centred).max()
    weighted = np.maximum(mass / mass.max(), SMALLEST_MASS)[:, None] * centred
    axis = np.zeros_like(X[0])
    axis[(weighted * centred).sum(0).argmax()] = 1.0
    for _ in range(POWER_STEPS):
        axis = weighted.T @ (centred @ axis)
        axis /= np.linalg.norm(axis)
    return np.asarray(centred @ axis)


def _lloyd_step(X: Inputs, weight: Float[Tensor, " n"], points: Float[Tensor, "m d"]) -> Float[Tensor, "m d"]:
    """Every point moved to the mean of the rows that it is nearest to; a point without rows stays."""
    nearest = assignment(X, points, squared_distances).centre
    total = torch.zeros_like(points[:, 0]).index_add_(0, nearest, weight)
    means = torch.zeros_like(points).index_add_(0, nearest, weight[:, None] * X) / total[:, None]
    return torch.where(total[:, None] > 0.0, means, points)
