"""Configurations of a molecule: files, descriptors and symmetries.

- `trajectory.py`, `units.py`: configurations and labels from files; computed frames found in a pool
- `extended_xyz.py`: frames as text; `elements.py`: symbols, masses and radii
- `bonds.py`: bonds, and whether they are whole; `rotors.py`: groups that turn; `torsions.py`: angles about bonds
- `descriptor.py`: inverse distances and their Jacobian
- `permutations.py`: groups of permutations and the symmetrised distance; `symmetry.py`: the group found from the data
- `clustering.py`: inducing configurations by that distance
"""
