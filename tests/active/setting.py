"""Inputs and densities that the tests of candidates and draws share."""

import numpy as np
import torch
from torch import Tensor


def sample(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(1).random((n, d))


def ones(n: int) -> Tensor:
    return torch.ones(n, dtype=torch.float64)
