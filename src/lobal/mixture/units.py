"""Labels in units of their standard deviation, as the mixture is fitted to them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import as_column
from lobal.core.dataset import LabelledSet

NoiseFunction: TypeAlias = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]


class LabelUnits(NamedTuple):
    """Mean and standard deviation of the labels; a standard deviation of one if they are constant."""

    mean: float
    scale: float

    @classmethod
    def of(cls, y: Float[ndarray, " n"]) -> "LabelUnits":
        """Those of the given labels."""
        spread = float(y.std())
        return cls(float(y.mean()), spread if spread > 1e-12 * np.abs(y).max() else 1.0)

    def labelled(
        self,
        X: Float[ndarray, "n d"],
        y: Float[ndarray, " n"],
        weight: Any,  # noqa: ANN401 - any array-like, or None
        noise: Any,  # noqa: ANN401 - as above, or a function of the inputs
        *,
        inducing_weight: Any = None,  # noqa: ANN401 - as above
        device: torch.device,
    ) -> LabelledSet:
        """The labels of positive weight as tensors, labels and noise variances in these units."""

        def tensor(values: Float[ndarray, "..."]) -> Float[Tensor, "..."]:
            return as_tensor(values[rows], device)

        weights = as_column(1.0 if weight is None else weight, name="sample_weight", length=len(y))
        rows = weights > 0
        spread = None
        if inducing_weight is not None:
            spread = as_column(inducing_weight, name="inducing_weight", length=len(y), positive=True)
        return LabelledSet(
            X=tensor(X),
            y=tensor((y - self.mean) / self.scale),
            weight=tensor(weights),
            noise=None if noise is None else tensor(known_noise(noise, X) / self.scale**2),
            spread=None if spread is None else tensor(spread),
        )


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
