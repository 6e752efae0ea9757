"""Labels in units of their standard deviation, as the mixture is fitted to them."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import as_column
from lobal.core.dataset import LabelledSet
from lobal.core.units import column_units

# Variances have to be floating-point numbers, also those of a millionth of the labels' deviation.
SMALLEST_SPREAD, LARGEST_SPREAD = 1e-140, 1e140
NoiseFunction: TypeAlias = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]


def label_units(y: Float[ndarray, " n"]) -> tuple[float, float]:
    """Mean and standard deviation of the labels; a standard deviation of one if they are constant.

    Raises:
        ValueError: the square of the standard deviation, which noise is measured in, is not a number.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of labels too large for their differences to be numbers
        offset, unit = column_units(y)
        if unit == 0.0:
            return offset, 1.0
        shifted = (y - offset) / unit
        spread = unit * float(shifted.std())
    if not SMALLEST_SPREAD < spread < LARGEST_SPREAD:
        spread = spread if math.isfinite(spread) else float(np.abs(y / 2.0).max())
        raise ValueError(
            f"labels must have a standard deviation between {SMALLEST_SPREAD:g} and {LARGEST_SPREAD:g}, so that "
            f"variances are numbers, got {spread:g}; give y / {spread:.1g} instead"
        )
    return offset + unit * float(shifted.mean()), spread


def labelled_set(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    units: tuple[float, float],
    device: torch.device,
    *,
    weight: Float[ndarray, " n"] | None = None,
    noise: Any = None,  # noqa: ANN401 - any array-like, or a function of the inputs
    inducing_weight: Any = None,  # noqa: ANN401 - any array-like
) -> LabelledSet:
    """The labels of positive weight as tensors, labels and noise variances in the given units."""
    weights = np.ones_like(y) if weight is None else weight
    mean, scale = units
    columns = {"X": X, "y": (y - mean) / scale, "weight": weights}
    if noise is not None:
        columns["noise"] = known_noise(noise, X) / scale**2
    if inducing_weight is not None:
        columns["spread"] = as_column(inducing_weight, name="inducing_weight", length=len(y), positive=True)
    return LabelledSet(**{name: as_tensor(values[weights > 0], device) for name, values in columns.items()})


def known_noise(noise: Any, X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:  # noqa: ANN401 - as above
    """Noise variances at X from a number, a column, or a function of the inputs."""
    return as_column(noise(X) if callable(noise) else noise, name="noise variance", length=len(X), positive=True)


def as_tensor(values: Any, device: torch.device) -> Float[Tensor, "..."]:  # noqa: ANN401 - any array-like
    """A copy of the values in double precision."""
    return torch.tensor(np.array(values, order="C"), dtype=torch.float64, device=device)


def as_array(values: Float[Tensor, "..."]) -> Float[ndarray, "..."]:
    """The values as an array on the host."""
    array: Float[ndarray, "..."] = values.detach().cpu().numpy()
    return array
