"""Milliseconds of a step of molecular dynamics through ASE, with an expert and with a mixture of eight, one thread.

Weights are random: the time does not depend on them.

python benchmarks/md_step.py $LOBAL_DATA/rmd17_malonaldehyde_9633.npz
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from ase import Atoms

from lobal.mixture.analytic.ordinal import Channel
from lobal.molecules.field.calculator import ForceFieldCalculator
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.gate import GateFeatures, MolecularGate
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.radial import gaussian
from lobal.molecules.field.settings import BANDWIDTHS
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory

N, INDUCING, STEPS = 500, 256, 300


def mixture(trajectory: Trajectory) -> ForceField:
    """Eight experts on the first configurations, with a gate."""
    generator = torch.Generator().manual_seed(0)
    R, L = trajectory.R[:N], len(BANDWIDTHS)
    values, group = describe(R).values, permutation_group(trajectory.R, trajectory.species)
    isotropic = torch.ones_like(values[0])
    gate = MolecularGate(
        features=GateFeatures(points=values[:INDUCING], width=values.new_tensor(0.4), permutations=group),
        scale=values.new_tensor(1.0),
        channel=Channel(values.new_tensor(3.5), 0.1 * torch.randn(INDUCING, dtype=values.dtype, generator=generator)),
        n_experts=L,
    )
    labels = N * Labels.BOTH.width(R.shape[1])
    return ForceField(
        species=trajectory.species,
        kernel=MolecularKernel(radial=gaussian, shared_bandwidth=isotropic, permutations=group),
        bandwidths=values.new_tensor(BANDWIDTHS),
        labels=Labels.BOTH,
        positions=R,
        weights=1e-3 * torch.randn(L, labels, dtype=values.dtype, generator=generator),
        constants=values.new_zeros(L),
        about={},
        gate=gate,
    )


def milliseconds(force_field: ForceField, trajectory: Trajectory) -> float:
    """The median over steps that move the atoms a little."""
    random = np.random.default_rng(0)
    atoms = Atoms(trajectory.species.numpy(), trajectory.R[N].numpy())
    atoms.calc = ForceFieldCalculator(force_field)
    times = []
    for _ in range(STEPS):
        atoms.positions += 1e-4 * random.standard_normal(atoms.positions.shape)
        begun = time.perf_counter()
        atoms.get_forces()  # type: ignore[no-untyped-call]  # ase
        times.append(time.perf_counter() - begun)
    return 1e3 * float(np.median(times[STEPS // 6 :]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    data = read_trajectory(Path(sys.argv[1]))
    eight = mixture(data)
    forces_alone = replace(
        eight.expert(3), labels=Labels.FORCES, weights=eight.weights[3:4, : N * Labels.FORCES.width(len(data.species))]
    )
    for name, field in (("one expert, of forces", forces_alone), ("mixture of eight", eight)):
        print(f"{name}: {milliseconds(field, data):.2f} ms")
