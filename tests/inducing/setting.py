"""Samples and generators that the tests of this folder share."""

import math

import numpy as np
import torch
from scipy.stats import kstest
from torch import Tensor


def uniform(generator: torch.Generator, n: int, d: int = 2) -> Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=generator)


def falling(generator: torch.Generator, n: int, d: int) -> Tensor:
    """A sample from p ~ exp(-2 x_1) on the unit box."""
    X = uniform(generator, n, d)
    X[:, 0] = -torch.log1p(-X[:, 0] * (1.0 - math.exp(-2.0))) / 2.0
    return X


def deviation(points: np.ndarray, rate: float) -> float:
    """The largest difference between the distribution functions of the first column and of exp(-rate x_1)."""
    return float(kstest(np.expm1(-rate * points[:, 0]) / math.expm1(-rate), "uniform").statistic)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
