"""Grids of a field in the unit square: where cells are worth having, by local complexity and as flow solvers decide it.

Start with `comparison.py`; the worked example is docs/mesh.md.

- `field.py`: a field given at the cells of a simulation, and the interpolation error of a grid
- `quad_tree.py`: grids of squares of different sizes, refined under a budget of cells
- `indicators.py`: which cells to split: density, gradient, second derivatives, the error itself
- `densities.py`: densities of cells from labels of the field, by the default learner
- `settings.py`: budgets, labels and levels
- `comparison.py`: the experiment
- `picture.py`: what its figure shows
"""
