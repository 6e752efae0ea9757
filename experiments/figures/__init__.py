"""Figures that only the experiments need; the others are in `lobal.report`.

- `local_polynomials.py`: estimates and learning curves of local polynomials beside the mixture
- `grids.py`: a field, its complexity, grids and their errors
- `models.py`: predictions of several models, and their errors against numbers of labels or inducing points
- `molecules.py`: learning curves, bandwidths and rotor maps of force fields
"""
