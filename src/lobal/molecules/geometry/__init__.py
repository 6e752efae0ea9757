"""Configurations of a molecule: files, descriptors and symmetries.

- `trajectory.py`, `units.py`: configurations and labels from files; computed frames found in a pool
- `descriptor.py`: inverse distances and their Jacobian
- `permutations.py`: groups of permutations and the symmetrised distance; `symmetry.py`: the group found from the data
- `clustering.py`: inducing configurations by that distance
"""
