"""A model's verdict on every candidate: complexity, noise and the superior density, a part at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.complexity import attainable_sample_size, superior_density
from lobal.density import normalised
from lobal.estimator import MixtureRegressor
from lobal.sampling import Candidates

CHUNK = 2**17  # candidates scored at a time: they may be more than the memory holds


@final
@dataclass(frozen=True, kw_only=True)
class Scores:
    """The formulas of Sec. 4.1 at all candidates."""

    candidates: Candidates
    smoothness: float
    dimension: float

    def complexity(self, model: MixtureRegressor, density: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """LFC from the model's LOB and the training density, Eq. (eq:approxLFC)."""
        p = positive(density).numpy()
        parts = [model.local_complexity(part, density=p[start : start + CHUNK]) for start, part in self._parts()]
        return torch.as_tensor(np.concatenate(parts))

    def noise(self, model: MixtureRegressor) -> Float[Tensor, " N"]:
        """The variance of a label's noise."""
        return torch.as_tensor(np.concatenate([model.noise_variance(part) for _, part in self._parts()]))

    def superior(self, complexity: Float[Tensor, " N"], noise: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """The superior training density, Eq. (eq:approxPOpt), at equal norm with the pool density."""
        density = superior_density(
            complexity,
            self.candidates.test_density,
            noise,
            smoothness=self.smoothness,
            dimension=self.dimension,
        )
        return normalised(density, self.candidates.pool_density)

    def attainable(self, complexity: Float[Tensor, " N"], noise: Float[Tensor, " N"]) -> float:
        """The relative sample size that the superior density could reach."""
        return attainable_sample_size(
            complexity,
            self.candidates.test_density,
            noise,
            self.candidates.pool_density,
            smoothness=self.smoothness,
            dimension=self.dimension,
        )

    def _parts(self) -> Iterator[tuple[int, Float[ndarray, "m d"]]]:
        for start in range(0, len(self.candidates), CHUNK):
            yield start, np.asarray(self.candidates.X[start : start + CHUNK], dtype=np.float64)


def positive(density: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The density, no smaller than the smallest positive number: it is divided by."""
    return density.clamp_min(torch.finfo(density.dtype).tiny)
