"""Small molecules for all tests of force fields, and the data that some need."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.experts.interface import Hyperparameters
from lobal.molecules.field.kernel import MolecularKernel, Moves, covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.radial import RADIAL_KERNELS, gaussian
from lobal.molecules.geometry.descriptor import Geometry, dense_jacobian
from lobal.molecules.geometry.permutations import closure
from lobal.molecules.geometry.trajectory import Trajectory

# The experiments' data sets are no part of the repository; their folder is named in the environment.
DATA = Path(os.environ.get("LOBAL_DATA", "no data"))
EXACT: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}
GROUP = closure(torch.tensor([[1, 2, 0, 3], [1, 0, 2, 3]]))  # all orders of the first three of four atoms
ISOTROPIC = torch.full((6,), 0.4, dtype=torch.float64)
ANISOTROPIC = torch.tensor([0.3, 0.5, 0.7, 0.4, 0.6, 0.9], dtype=torch.float64)
KERNEL = MolecularKernel(radial=gaussian, shared_bandwidth=ANISOTROPIC, permutations=GROUP)
SIGMAS = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)

every_label = pytest.mark.parametrize("labels", list(Labels))
every_radial = pytest.mark.parametrize("radial", RADIAL_KERNELS.values(), ids=RADIAL_KERNELS.keys())
every_bandwidth = pytest.mark.parametrize("shared", [ISOTROPIC, ANISOTROPIC], ids=["isotropic", "anisotropic"])


def problem(
    data: LabelledMolecules,
    labels: Labels = Labels.BOTH,
    *,
    kernel: MolecularKernel = KERNEL,
    bandwidths: Tensor = SIGMAS,
    parameters: tuple[float, float, float] = (7.0, 10.0, 1e-4),  # mu, lambda and v
) -> Problem:
    """A problem with given hyperparameters."""
    given = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in parameters))
    return Problem(data=data, labels=labels, kernel=kernel, bandwidths=bandwidths, hyperparameters=given)


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


def water(n: int, seed: int = 0) -> Trajectory:
    """Configurations of a molecule of three atoms whose pairs attract each other by Morse potentials."""
    generator = torch.Generator().manual_seed(seed)
    rest = torch.tensor([[0.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.8, 0.6, 0.0]], dtype=torch.float64)
    R = rest + 0.08 * torch.randn(n, 3, 3, dtype=torch.float64, generator=generator)
    energies, forces = morse_potential(R)
    species = torch.tensor([8, 1, 1])
    return Trajectory(source="water", units="eV and Ang", species=species, R=R, energies=energies, forces=forces)


def morse_potential(R: Tensor) -> tuple[Tensor, Tensor]:
    """Energies and forces of D (1 - exp(-a (r - r_0)))^2 for the pairs OH, OH and HH, about -2000 eV."""
    R = R.clone().requires_grad_()
    depth, rate, rest = torch.tensor([[4.0, 4.0, 1.0], [2.0, 2.0, 1.5], [1.0, 1.0, 1.6]], dtype=torch.float64)
    distance = (R[:, [0, 0, 1]] - R[:, [1, 2, 2]]).norm(dim=-1)
    energies = -2000.0 + (depth * (1.0 - torch.exp(-rate * (distance - rest))).square()).sum(1)
    (gradient,) = torch.autograd.grad(energies.sum(), R)
    return energies.detach(), -gradient


def labelled(R: Tensor) -> LabelledMolecules:
    """Configurations with energies and forces of springs."""
    energies, forces = pair_potential(R)
    return LabelledMolecules.at(R, energies=energies, forces=forces)


def along_coordinates(geometry: Geometry, labels: Labels) -> Moves:
    """Directions of force labels: each atom along each axis."""
    none = geometry.values.new_zeros(0, *geometry.values.shape)
    J = dense_jacobian(geometry).permute(2, 0, 1).contiguous() if labels.forces else none
    return Moves(geometry.values, J, labels.energies)


def covariance(
    kernel: MolecularKernel,
    left: Geometry,
    right: Geometry | None = None,
    *,
    bandwidths: Tensor,
    rows: Labels = Labels.BOTH,
    columns: Labels | None = None,
) -> Tensor:
    """Covariances of all labels on the left with all on the right, or with themselves, forces along coordinates."""
    mirrored = right is None and columns in (None, rows)
    far = None if mirrored else along_coordinates(right or left, columns or rows)
    return covariance_along(kernel, along_coordinates(left, rows), far, bandwidths=bandwidths)


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
