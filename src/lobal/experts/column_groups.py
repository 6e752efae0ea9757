"""Columns that share one width, such as the indicator columns of the levels of one category.

With one width for all of them, the kernel between two different levels is the same for every pair (compound symmetry):
indicator columns that are a or zero put them at squared distance 2 a^2 / width^2, whatever the levels are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


@final
@dataclass(frozen=True)
class ColumnGroups:
    """Which columns share a width, such as those of the levels of one category; by default each has its own."""

    index: Int[Tensor, " d"] | None  # the width of every column
    n_widths: int

    @classmethod
    def of(cls, groups: Sequence[int] | None, unit: Float[Tensor, " d"]) -> "ColumnGroups":
        """The groups that columns of equal numbers are; their widths are in the order of the numbers."""
        if groups is None:
            return cls(None, len(unit))
        index = torch.unique(torch.as_tensor(groups, device=unit.device), return_inverse=True)[1]
        return cls(index, int(index.max()) + 1)

    def common(self, unit: Float[Tensor, " d"]) -> Float[Tensor, " d"]:
        """For every column, the root of the mean square of the units of its group."""
        if self.index is None:
            return unit
        sizes = self.summed(torch.ones_like(unit))
        return (self.summed(unit.square()) / sizes).sqrt()[self.index]

    def of_columns(self, widths: Float[Tensor, " k"]) -> Float[Tensor, " _"]:
        """The widths of all columns from those of the groups; a single one stays as it is."""
        return widths if self.index is None or len(widths) == 1 else widths[self.index]

    def first(self, values: np.ndarray) -> np.ndarray:
        """For every group, the value of its first column."""
        return values if self.index is None else values[np.unique(self.index.cpu().numpy(), return_index=True)[1]]

    def summed(self, values: Float[Tensor, " d"]) -> Float[Tensor, " k"]:
        """Sums of the values of every group, as the derivative by a shared width is."""
        return values if self.index is None else values.new_zeros(self.n_widths).index_add_(0, self.index, values)
