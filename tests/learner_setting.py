"""A small problem and a quick model, for the tests of the learner."""

import math
from typing import Any

import numpy as np
import torch

from lobal import ActiveLearner, Box, MixtureRegressor, Pool

MODEL = MixtureRegressor(n_inducing=40, n_gate_inducing=10)

# Random draws from a pool are as they were recorded only where torch draws the same exponential numbers from a seed;
# torch 2.4 does not, 2.13 does.
_DRAWN = torch.empty(1, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(0)).item()
DRAWS_AS_RECORDED = math.isclose(_DRAWN, 3.508326186707642, rel_tol=1e-12)


def bumpy(X: np.ndarray) -> np.ndarray:
    """Complex on the left, simple on the right, with a little reproducible noise."""
    noise = np.sin(1e5 * X[:, 0])
    return np.sin(3.0 / (X[:, 0] + 0.05)) + 0.05 * noise


def pool(n: int = 500, seed: int = 0) -> Pool:
    return Pool(np.random.default_rng(seed).random((n, 1)))


def learner(space: Pool | Box | None = None, **changes: Any) -> ActiveLearner:
    return ActiveLearner(pool() if space is None else space, **{"seed": 0, "model": MODEL, **changes})
