"""The features of a fixed set of inputs: kept where they fit into memory, recomputed a part at a time where not."""

import logging
from collections.abc import Iterator
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.core.kernels import WhitenedFeatures, rows_at_once
from lobal.experts.svgp import nystroem_diagonal

logger = logging.getLogger(__name__)

# Features are kept if they take no more than this, unless told otherwise; else recomputed whenever they are needed.
CACHE_BYTES = 4 * 2**30


@final
class StoredFeatures:
    """Features of all experts at all training points."""

    def __init__(self, features: WhitenedFeatures, X: Inputs, cache_bytes: int | None = None) -> None:
        self.features, self.X = features, X
        self._kept = self._everything(CACHE_BYTES if cache_bytes is None else cache_bytes)
        self._single: Float[Tensor, "n L m"] | None = None
        self._gathered: Float[Tensor, "b L m"] | None = None  # memory is dear to ask for anew at every step
        self.explained = torch.cat([nystroem_diagonal(phi) for _, phi in self.slices()], dim=1)  # q, (L, n)

    def _everything(self, cache_bytes: int) -> Float[Tensor, "L n m"] | None:
        shape = (len(self.features.bandwidths), len(self.X), len(self.features.points))
        size = torch.Size(shape).numel() * self.X.element_size()
        if size > cache_bytes:
            logger.info("features of shape %s take %.1f GiB: recomputed batch by batch", shape, size / 2**30)
            return None
        logger.info("features of shape %s take %.2f GiB: kept", shape, size / 2**30)
        return self.features.stacked(self.X)

    def __getitem__(self, rows: Tensor | slice) -> Float[Tensor, "L b m"]:
        """Features of some of the points."""
        return self.features(self.X[rows]) if self._kept is None else self._kept[:, rows]

    def in_single_precision(self, rows: Int[Tensor, " b"] | slice) -> Float[Tensor, "L b m"]:
        """Features of some of the points, valid until others are asked for: for steps that only look for a direction.

        They are read at every step. Half as wide they take half the time, and less with those of a point side by side.
        """
        single = self.single
        if single is None:
            return self.features(self.X[rows]).float()
        if isinstance(rows, slice):
            return single[rows].permute(1, 0, 2)
        _, L, m = single.shape
        if self._gathered is None or len(self._gathered) != len(rows):
            self._gathered = single.new_empty(len(rows), L, m)
        return torch.index_select(single, 0, rows, out=self._gathered).permute(1, 0, 2)

    @property
    def single(self) -> Float[Tensor, "n L m"] | None:
        """All features in single precision, those of a point side by side, if they are kept."""
        if self._single is None and self._kept is not None:
            self._single = self._kept.permute(1, 0, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return self._single

    def slices(self) -> Iterator[tuple[slice, Float[Tensor, "L b m"]]]:
        """Consecutive rows and their features, a bounded number at a time."""
        L, m = len(self.features.bandwidths), len(self.features.points)
        rows = rows_at_once(L * m, self.X.device)
        for start in range(0, len(self.X), rows):
            part = slice(start, start + rows)
            yield part, self[part]
