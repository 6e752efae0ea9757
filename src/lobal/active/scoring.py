"""A model's verdict on every candidate: complexity, noise and the superior density, a part at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.designs import Candidates
from lobal.core.arrays import row_parts, rows_at
from lobal.core.complexity import attainable_sample_size, superior_density
from lobal.core.density import normalised
from lobal.mixture.estimator import MixtureRegressor

# Candidates scored at a time: they may be more than the memory holds, and 4 MiB of kernels are done in half the time
# per candidate of 128 MiB.
CHUNK = 2**12


@final
@dataclass(frozen=True, kw_only=True)
class Scores:
    """The formulas of Sec. 4.1 at all candidates."""

    candidates: Candidates
    smoothness: float
    dimension: float

    def complexity(self, model: MixtureRegressor, density: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """LFC from the model's LOB and the training density, Eq. (eq:approxLFC)."""
        values = np.empty(len(self.candidates))
        for rows, part in self._parts():
            values[rows] = model.local_complexity(part, density=positive(density[rows]).numpy())
        return torch.from_numpy(values)

    def noise(self, model: MixtureRegressor) -> Float[Tensor, " N"]:
        """The variance of a label's noise."""
        if model.has_constant_noise:
            # One number, shown at all candidates: it takes no memory.
            constant = model.noise_variance(rows_at(self.candidates.X, slice(0, 1)))
            return torch.from_numpy(constant).expand(len(self.candidates))
        values = np.empty(len(self.candidates))
        for rows, part in self._parts():
            values[rows] = model.noise_variance(part)
        return torch.from_numpy(values)

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
        """The relative sample size that the superior density could reach, as far as complexity and noise bear it out.

        The formula also promises something from evening out the test density, even where the complexity is constant.
        That holds only if bandwidths are small against the density's own structure, which in many dimensions they are
        not. So the promise is the lesser of two: with the test density as it is, and with that part taken away.
        """
        q, p = self.candidates.test_density, self.candidates.pool_density
        orders = {"smoothness": self.smoothness, "dimension": self.dimension}
        whole = attainable_sample_size(complexity, q, noise, p, **orders)
        # Relative to the test density itself, which is then constant: means over the pool become means over it.
        relative = attainable_sample_size(complexity, torch.ones_like(q), noise, p / positive(q), **orders)
        return max(whole, relative)

    def _parts(self) -> Iterator[tuple[slice, Float[ndarray, "m d"]]]:
        for rows, part in row_parts(self.candidates.X):
            for start in range(0, len(part), CHUNK):
                points = part[start : start + CHUNK]
                yield slice(rows.start + start, rows.start + start + len(points)), points


def positive(density: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The density, no smaller than the smallest positive number: it is divided by."""
    return density.clamp_min(torch.finfo(density.dtype).tiny)
