"""Campaigns of force fields for the tests of their pages, put together by hand: chains of carbon atoms."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lobal.molecules.dynamics.growth import Round
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.radial import gaussian
from lobal.report.grown_campaign import GrownCampaign

BOND, BEND = 1.5, math.radians(110.0)
ROUNDS = (Round(1, 4, 0.3709, 0.0637, 17, 0.62, 1000, 0.0, 2.9), Round(2, 6, 0.0, 1.27e-5))


def chain(degrees: Any) -> Tensor:
    """Chains with these torsions, (n, t): their atoms follow each other by bonds of 1.5 Angstrom."""
    torsions = torch.as_tensor(degrees, dtype=torch.float64).deg2rad()
    bent = [BOND * (1.0 - math.cos(BEND)), BOND * math.sin(BEND), 0.0]
    atoms = [
        torch.tensor(at, dtype=torch.float64).expand(len(torsions), 3) for at in ([0.0] * 3, [BOND, 0.0, 0.0], bent)
    ]
    for torsion in torsions.T[..., None]:
        before, along = atoms[-2] - atoms[-3], (atoms[-1] - atoms[-2]) / BOND
        up = torch.nn.functional.normalize(torch.linalg.cross(before, along), dim=1)
        side = torch.linalg.cross(up, along)
        aside = torsion.cos() * side + torsion.sin() * up
        atoms.append(atoms[-1] + BOND * (math.sin(BEND) * aside - math.cos(BEND) * along))
    return torch.stack(atoms, dim=1)


def free(R: Tensor) -> ForceField:
    """A force field of configurations of carbon that feel no force."""
    n, N, _ = R.shape
    kernel = MolecularKernel(
        radial=gaussian,
        shared_bandwidth=torch.ones(N * (N - 1) // 2, dtype=torch.float64),
        permutations=torch.arange(N)[None],
    )
    return ForceField(
        species=torch.full((N,), 6),
        kernel=kernel,
        bandwidths=torch.ones(1, dtype=torch.float64),
        labels=Labels.BOTH,
        positions=R,
        weights=torch.zeros(1, n * (1 + 3 * N), dtype=torch.float64),
        constants=torch.zeros(1, dtype=torch.float64),
        about={},
    )


def grown_campaign(labelled: Tensor, pool: Tensor | None = None, **parts: Any) -> GrownCampaign:
    """Labelled configurations of which the first has the least energy, four from the start and others from round 1."""
    n, pool = len(labelled), labelled[:0] if pool is None else pool
    given = {
        "energies": np.linspace(-5.0, -4.0, n),
        "round_of": (np.arange(n) >= 4).astype(int),
        "failed": labelled[:0],
        "pool": pool,
        "complexity": np.ones(n),
        "pool_complexity": np.ones(len(pool)),
        "rounds": ROUNDS,
        "temperature": None,
    }
    species = torch.full((labelled.shape[1],), 6)
    return GrownCampaign(model=free(labelled), species=species, R=labelled, **{**given, **parts})
