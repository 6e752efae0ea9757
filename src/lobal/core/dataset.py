"""Labelled data as the models see them."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs


@final
@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """Inputs, labels, importance weights w and, if known, the variances of the labels' noise.

    `spread` weights the points among which inducing points are chosen: a target density divided by the density of X.
    """

    X: Inputs
    y: Float[Tensor, " n"]
    weight: Float[Tensor, " n"]
    noise: Float[Tensor, " n"] | None = None
    spread: Float[Tensor, " n"] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Tensor | slice) -> "LabelledSet":
        """The labelled points in the given rows."""
        return _changed(lambda column: column[rows], self)

    def to(self, device: torch.device | str) -> "LabelledSet":
        """The same data on another device."""
        return _changed(lambda column: column.to(device), self)

    @staticmethod
    def joined(first: "LabelledSet", second: "LabelledSet") -> "LabelledSet":
        """Both sets one after the other; `noise` and `spread` are None unless both sets have them."""
        return _changed(lambda *columns: torch.cat(columns), first, second)


def _changed(change: Callable[..., Tensor], *sets: LabelledSet) -> LabelledSet:
    """The set whose columns are computed from those of the given sets, None where one of them is."""
    columns: dict[str, Any] = {}
    for name in (each.name for each in fields(LabelledSet)):
        parts = [getattr(data, name) for data in sets]
        columns[name] = None if any(part is None for part in parts) else change(*parts)
    return LabelledSet(**columns)
