"""Where inducing points go: `select` with all its methods, for the mixture and for any other sparse model.

Start with `select.py`; every method is a function of inputs, number, generator and weights.

- `select.py`: the methods by name, for arrays and for tensors
- `quantiles.py`: one column, exact
- `cells.py`: several columns, cells of equal mass
- `kmeans.py`: k-means
- `svgd.py`, `target.py`: Stein variational gradient descent, and its target density
- `distributional.py`: distributional clustering, with any distance
- `greedy.py`: one by one, for a known kernel
- `random_points.py`: random draws, the baseline
- `spacing.py`: distances in blocks, nearest centres, local spacing
"""

from lobal.inducing.select import METHODS, select, select_inducing

__all__ = ["METHODS", "select", "select_inducing"]
