"""The force field: from labels of configurations to energies and forces of others.

Start with `training.py`, which wires everything else.

- `settings.py`: `ForceFieldSettings`; `labels.py`: energies and forces; `problem.py`: what experts learn from
- `kernel.py`: covariances of energies and forces under an anisotropic bandwidth; `radial.py`: its radial functions
- `anisotropy.py`: training of the bandwidths of pairs of atoms (Sigma_E), tied or free
- `directions.py`: directions in which a molecule changes shape
- `expert.py`, `sparse.py`: dense and sparse experts; `solver.py`: conjugate gradients; `prediction.py`: predictions
- `trials.py`: bandwidth and noise of one expert by validation
- `gate.py`, `mixture.py`: the ordinal gate with the mixture under it, and its fit to leave-one-out errors
- `softmax_gate.py`, `softmax_options.py`, `gate_labels.py`, `softmax_training.py`, `softmax_fit.py`: the paper's gate,
  its options, what it learns from, its training by Adam, and the mixture with it
- `forcefield.py`, `gate_storage.py`: the trained `ForceField`, saved and loaded, and its errors
- `prepared.py`: predictions for dynamics, without what need not be done at every step; `calculator.py`: for ASE
"""
