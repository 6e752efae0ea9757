"""What the tests of candidates and designs share."""

import numpy as np
import torch
from torch import Tensor


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(1).random((n, d))


def ones(n: int) -> Tensor:
    return torch.ones(n, dtype=torch.float64)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
