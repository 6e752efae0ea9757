"""Milliseconds of a step of molecular dynamics through ASE, with a force field of `lobal forcefield train`; one thread.

python benchmarks/md_step.py malonaldehyde.lobal $LOBAL_DATA/rmd17_malonaldehyde_9633.npz
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from ase import Atoms

from lobal.molecules.field.calculator import ForceFieldCalculator
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory

STEPS = 300


def milliseconds(force_field: ForceField, trajectory: Trajectory) -> float:
    """The median over steps that move the atoms of the last configuration a little."""
    random = np.random.default_rng(0)
    atoms = Atoms(trajectory.species.numpy(), trajectory.R[-1].numpy())
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
    print(f"{milliseconds(ForceField.load(sys.argv[1]), read_trajectory(Path(sys.argv[2]))):.2f} ms")
