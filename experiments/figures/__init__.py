"""Figures that only the experiments need; the others are in `lobal.report`.

- `models.py`: predictions and learning curves of several models
- `inducing.py`: errors against the number of inducing points
- `molecules.py`: learning curves, bandwidths and rotor maps of force fields
"""
