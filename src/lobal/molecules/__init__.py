"""Force fields of molecules, and how they enter the learner.

- `space.py`: `MoleculePool`, configurations to choose from: symmetrised distance, densities by it, labels
- `surrogate.py`: `ForceFieldSurrogate`, the model that learns from them
- `density.py`: kernel density, its width and the intrinsic dimension, under the molecule's symmetries
- `geometry/`: files, descriptors, permutations, inducing configurations
- `oracles.py`, `programs.py`, `single_thread.py`: labels from quantum chemistry, one thread each
- `dynamics/`: molecular dynamics, and campaigns that simulate their own pools
- `field/`: the anisotropic kernel, experts, gate, mixture, training, the saved `ForceField` and its ASE calculator
- `earlier_campaigns.py`: campaigns that version 0.1.0 wrote
"""
