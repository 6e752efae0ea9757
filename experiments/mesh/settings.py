"""What the experiment compares: budgets, numbers of labels, and the first and the deepest level of grids."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from experiments.mesh.field import LATTICE
from experiments.mesh.quad_tree import Grid, Indicator, refined, uniform_grid

BUDGETS = "256,362,512,724,1024,1448,2048,2896,4096"
LABELS = "256,512,1024"
FIRST_LEVEL, DEEPEST = 3, 8
UNIFORM_SIDES = np.unique(np.geomspace(8, 256, 56).astype(np.int64)).tolist()  # cells a side, six percent apart
# Powers of the side that the indicators of solvers are multiplied by.
GRADIENT_POWERS, CURVATURE_POWERS = (1.0, 1.5, 2.0, 2.5, 3.0), (2.0, 3.0, 4.0)
# Those for which the indicator is the root of a cell's squared error, of interpolation by constants and bilinear.
GRADIENT, CURVATURE = "gradient_2", "curvature_3"


@final
@dataclass(frozen=True, kw_only=True)
class MeshSettings:
    """Everything that a repetition depends on, except for the number of labels and its seed."""

    data: str  # an .npz file
    budgets: tuple[int, ...]
    is_cubic: bool = False  # whether the reference is cubic between the simulation's cells; linear otherwise
    points: int = LATTICE  # a side, at which errors are measured

    def __post_init__(self) -> None:
        if not self.budgets or self.budgets[0] < 4**FIRST_LEVEL or (np.diff(self.budgets) <= 0).any():
            raise ValueError(
                f"budgets must be ascending numbers of cells from {4**FIRST_LEVEL} on, got {list(self.budgets)}"
            )

    def grids(self, indicator: Indicator) -> Iterator[tuple[int, Grid]]:
        """Grids by budget, each a refinement of the one before."""
        grid = uniform_grid(FIRST_LEVEL, deepest=DEEPEST)
        for budget in self.budgets:
            grid = refined(grid, indicator, budget)
            yield budget, grid
