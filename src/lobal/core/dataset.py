"""Labelled data as the model sees it."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs


@final
@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """Inputs, labels, importance weights w and, where they are known, the variances of the labels' noise.

    `spread` weighs the points among which inducing points are chosen: a target density over the density of X.
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
        return LabelledSet(
            X=self.X[rows],
            y=self.y[rows],
            weight=self.weight[rows],
            noise=None if self.noise is None else self.noise[rows],
            spread=None if self.spread is None else self.spread[rows],
        )

    def to(self, device: torch.device | str) -> "LabelledSet":
        """The same on another device."""
        return LabelledSet(
            X=self.X.to(device),
            y=self.y.to(device),
            weight=self.weight.to(device),
            noise=None if self.noise is None else self.noise.to(device),
            spread=None if self.spread is None else self.spread.to(device),
        )

    @staticmethod
    def joined(first: "LabelledSet", second: "LabelledSet") -> "LabelledSet":
        """Both sets one after the other."""

        def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
            return None if a is None or b is None else torch.cat([a, b])

        return LabelledSet(
            X=torch.cat([first.X, second.X]),
            y=torch.cat([first.y, second.y]),
            weight=torch.cat([first.weight, second.weight]),
            noise=both(first.noise, second.noise),
            spread=both(first.spread, second.spread),
        )
