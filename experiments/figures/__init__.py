"""Figures that only the experiments need; the others are in `lobal.report`.

- `local_polynomials.py`: estimates and learning curves of local polynomials beside the mixture
- `grids.py`: a field, its complexity, grids and their errors
- `errors.py`: learning curves with error bars, one panel per kind of error
- `greedy_points.py`, `heteroscedastic.py`, `mogpu.py`, `no_penalty.py`: the figures of the experiments of that name
- `models.py`: predictions of several models, and their errors against numbers of labels or inducing points
- `molecules.py`: bandwidths and rotor maps of force fields
"""
