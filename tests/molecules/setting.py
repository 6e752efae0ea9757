"""Small molecules for all tests of force fields, and the data that some need."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

# The experiments' data sets are no part of the repository; their folder is named in the environment.
DATA = Path(os.environ.get("LOBAL_DATA", "no data"))
EXACT: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}


def random_molecules(generator: torch.Generator, n: int, N: int = 4) -> Tensor:
    """Configurations of N atoms that vibrate about the same places, far enough from each other."""
    equilibrium = 1.5 * torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(N))
    return equilibrium + 0.15 * torch.randn(n, N, 3, dtype=torch.float64, generator=generator)


def pair_potential(R: Tensor) -> tuple[Tensor, Tensor]:
    """Energies and forces of springs between all atoms but the last, and of other springs to that."""
    R = R.clone().requires_grad_()
    first, second = torch.triu_indices(R.shape[1], R.shape[1], offset=1)
    distance = (R[:, first] - R[:, second]).norm(dim=-1)
    stiffness = torch.where(second == R.shape[1] - 1, 0.5, 1.0)
    energies = 5.0 + (stiffness * (distance - 2.0).square()).sum(1)
    (gradient,) = torch.autograd.grad(energies.sum(), R)
    return energies.detach(), -gradient


def rotation(generator: torch.Generator) -> Tensor:
    """A random rotation or reflection."""
    Q: Tensor = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator)).Q
    return Q


def rmd17_malonaldehyde() -> dict[str, np.ndarray]:
    """DFT energies and forces of malonaldehyde; skips the test where they are absent."""
    file = DATA / "rmd17_malonaldehyde_9633.npz"
    if not file.exists():
        pytest.skip(f"{file.name} is not in the folder that LOBAL_DATA names ({DATA})")
    with np.load(file) as arrays:
        return dict(arrays)
