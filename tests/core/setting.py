"""Tensors, generators and tolerances that the tests of this folder share."""

import torch
from torch import Tensor

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=generator)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def covariance(generator: torch.Generator, d: int) -> Tensor:
    A = uniform(generator, d, d)
    return A @ A.mT + 0.3 * torch.eye(d, dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
