"""Densities of cells that follow from labels of the field: how complex it is, and how much it varies, at every place.

Between the corners of a cell of side h, a function that varies by A within the local bandwidth sigma is interpolated
with an error of about |f''| h^2 = A (h / sigma)^2. With p = h^-2 cells a unit area and LFC = sigma^-2, the mean squared
error is the integral of q A^2 LFC^2 p^-2, and least for p ~ (q A^2 LFC^2)^(1/3). That is the density of spread points
(`lobal.active.spread`) with the power s = 4 of bilinear interpolation, a = s / d, and the test density q A^2.

Cells are squares, and h / sigma is the same in all directions only if the bandwidth is. The default model has a shared
bandwidth for every column; where the field varies across a wall only, its local bandwidth, the geometric mean of the
two, is greater than what a square needs, and smaller where the field turns. Hence the isotropic model.
"""

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.ndimage import gaussian_filter
from torch import Tensor

from experiments.mesh.field import Cells, Field, Points, lattice
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Pool
from lobal.active.spread import Shape, spread_density
from lobal.core.superior_density import local_complexity, superior_density
from lobal.mixture.estimator import MixtureRegressor

SIDE = 128  # squares a side at which densities are known
DIMENSION = 2.0
BILINEAR = Shape(power=4.0, emphasis=4.0 / DIMENSION)
FIRST_SIZE = 128  # labels before the model is fitted first
# Widths of the window in which the amplitude is measured, in local bandwidths; the first is the one that is reported.
WINDOWS = (0.5, 1.0)
CURVED = 0.1  # share of the square in which cells are counted: that with the greatest second derivatives
STEPS = 12  # widths between the least and the greatest window for which variances are computed

Raster: TypeAlias = Float[ndarray, "rows columns"]


class Estimate(NamedTuple):
    """What a model says at the squares of a lattice, rows upwards."""

    bandwidth: Raster
    prediction: Raster


class Learned(NamedTuple):
    """What follows from the same labels by two models, and by that of the learner that chose them."""

    default: Estimate  # a shared bandwidth for every column
    isotropic: Estimate  # one for both, as the cells are squares
    learners_bandwidth: Raster
    labelled: Points


def complexity(bandwidth: Raster) -> Raster:
    """Local function complexity, of a function that is smooth without limit."""
    (sigma,) = _columns(bandwidth)
    found = local_complexity(sigma, torch.ones_like(sigma), smoothness=math.inf, dimension=DIMENSION)
    return found.numpy().reshape(bandwidth.shape)


def learned(cells: Cells, field: Field, n: int, seed: int) -> Learned:
    """Models of n labels that the default learner chose among the simulation's cells.

    Errors count by area: the test density is uniform.
    """
    learner = ActiveLearner(Pool(cells.X, density=cells.density, test_density="uniform"), seed=seed)
    for size in sizes_up_to(n):
        rows = learner.ask(size - len(learner.labelled.y))
        learner.tell(rows, cells.y[rows])
    X, scale = field.inputs(lattice(SIDE)), 1.0 - 2.0 * field.margin

    def raster(values: Float[ndarray, " n"]) -> Raster:
        return np.reshape(values, (SIDE, SIDE))

    def estimate(model: MixtureRegressor) -> Estimate:
        model.fit(learner.labelled.X, learner.labelled.y)
        return Estimate(raster(model.local_bandwidth(X) / scale), raster(np.asarray(model.predict(X))))

    assert learner.fitted is not None  # there are enough labels
    return Learned(
        estimate(MixtureRegressor(random_state=seed)),
        estimate(MixtureRegressor(anisotropic=False, random_state=seed)),
        raster(learner.fitted.local_bandwidth(X) / scale),
        (learner.labelled.X - field.margin) / scale,
    )


def sizes_up_to(n: int) -> list[int]:
    """Numbers of labels, doubled from the first fit on."""
    sizes = [n]
    while sizes[0] >= 2 * FIRST_SIZE:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def densities(labels: Learned) -> dict[str, Raster]:
    """Densities of cells by name, each up to a factor: "learner_superior", and those of both models.

    The names of the isotropic model begin with "isotropic_".
    """
    found = {"learner_superior": superior(complexity(labels.learners_bandwidth))}
    for prefix, model in {"": labels.default, "isotropic_": labels.isotropic}.items():
        found |= {f"{prefix}{name}": density for name, density in densities_of(model).items()}
    return found


def densities_of(model: Estimate) -> dict[str, Raster]:
    """The densities of one model.

    "superior" is sqrt(LFC q), "bilinear" is (q LFC^2)^(1/3), both with q = 1; with "amplitude" and the width of its
    window, q is the squared amplitude. "prediction" is |(f_xx, f_yy)|^(2/3) of what the model predicts.
    """
    LFC = complexity(model.bandwidth)
    found = {"superior": superior(LFC), "bilinear": bilinear(LFC)}
    for window in WINDOWS:
        q = squared_amplitude(model, window)
        found[f"superior_amplitude_{window:g}"] = superior(LFC, q)
        found[f"bilinear_amplitude_{window:g}"] = bilinear(LFC, q)
    return found | {"prediction": np.cbrt(squared_curvature(model.prediction))}


def best_density(field: Field) -> Raster:
    """|(f_xx, f_yy)|^(2/3) of the field itself, the density of cells that labels are to find."""
    return np.asarray(np.cbrt(squared_curvature(field(lattice(SIDE)).reshape(SIDE, SIDE))))


def most_curved(density: Raster) -> Bool[ndarray, "rows columns"]:
    """The tenth of the square with the greatest density."""
    return np.asarray(density >= np.quantile(density, 1.0 - CURVED))


def superior(LFC: Raster, test_density: Raster | None = None) -> Raster:
    """The superior density sqrt(LFC q) of labels without noise; q is one by default."""
    structure, q = _columns(LFC, np.ones_like(LFC) if test_density is None else test_density)
    found = superior_density(structure, q, torch.ones_like(q), smoothness=math.inf, dimension=DIMENSION)
    return found.numpy().reshape(LFC.shape)


def bilinear(LFC: Raster, test_density: Raster | None = None) -> Raster:
    """The density (q LFC^2)^(1/3) of cells with the least squared error of bilinear interpolation."""
    given = np.ones_like(LFC) if test_density is None else test_density
    p_sup, q = _columns(superior(LFC, given), given)
    return spread_density(p_sup, q, BILINEAR, dimension=DIMENSION).numpy().reshape(LFC.shape)


def _columns(*rasters: Raster) -> list[Float[Tensor, " n"]]:
    return [torch.from_numpy(np.ravel(raster)) for raster in rasters]


def squared_amplitude(model: Estimate, window: float) -> Raster:
    """The variance of the prediction around every square, in a Gaussian window of some local bandwidths.

    Computed for several widths and interpolated between these; squares outside do not count.
    """
    widths = np.geomspace(model.bandwidth.min(), model.bandwidth.max(), STEPS)
    variances = np.stack([_variance(model.prediction, window * width * len(model.prediction)) for width in widths])
    place = np.interp(np.log(model.bandwidth), np.log(widths), np.arange(STEPS))
    below = np.minimum(place.astype(np.int64), STEPS - 2)
    rows, columns = np.indices(model.bandwidth.shape)
    share = place - below
    return np.asarray((1.0 - share) * variances[below, rows, columns] + share * variances[below + 1, rows, columns])


def _variance(values: Raster, width: float) -> Raster:
    def mean(terms: Raster) -> Raster:
        inside = gaussian_filter(np.ones_like(terms), width, mode="constant")
        return np.asarray(gaussian_filter(terms, width, mode="constant") / inside)

    return np.asarray(np.maximum(mean(np.square(values)) - np.square(mean(values)), 0.0))


def squared_curvature(values: Raster) -> Raster:
    """f_xx^2 + f_yy^2 by differences, at edges that of the neighbours within."""
    inner = [np.diff(values, n=2, axis=axis) * len(values) ** 2 for axis in (0, 1)]
    second = (
        np.pad(part, [(1, 1) if a == axis else (0, 0) for a in (0, 1)], mode="edge") for axis, part in enumerate(inner)
    )
    return sum((np.square(part) for part in second), start=np.zeros_like(values))
