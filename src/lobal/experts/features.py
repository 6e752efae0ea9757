"""The features of a fixed set of inputs: stored if they fit into memory, otherwise recomputed in parts."""

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

# By default larger features are recomputed whenever they are needed.
CACHE_BYTES = 4 * 2**30


@final
class StoredFeatures:
    """Features of all experts at all training points."""

    def __init__(self, features: WhitenedFeatures, X: Inputs, cache_bytes: int | None = None) -> None:
        self.features, self.X = features, X
        shape = (len(features.bandwidths), len(X), len(features.points))
        size = torch.Size(shape).numel() * X.element_size()
        is_kept = size <= (CACHE_BYTES if cache_bytes is None else cache_bytes)
        action = "kept" if is_kept else "recomputed batch by batch"
        logger.info("features of shape %s take %.2f GiB: %s", shape, size / 2**30, action)
        self._kept = features.stacked(X) if is_kept else None
        self._single: Float[Tensor, "n L m"] | None = None
        self.explained = torch.cat([nystroem_diagonal(phi) for _, phi in self.slices()], dim=1)  # q, (L, n)

    def __getitem__(self, rows: Tensor | slice) -> Float[Tensor, "L b m"]:
        """Features of some of the points."""
        return self.features(self.X[rows]) if self._kept is None else self._kept[:, rows]

    def in_single_precision(self, rows: Int[Tensor, " b"] | slice) -> Float[Tensor, "L b m"]:
        """Features of some of the points for a step of Adam.

        In single precision a step takes half the time, and less if the features of a point are adjacent in memory.
        """
        if self._kept is None:
            return self.features(self.X[rows]).float()
        if self._single is None:
            self._single = self._kept.permute(1, 0, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return self._single[rows].permute(1, 0, 2)

    def slices(self) -> Iterator[tuple[slice, Float[Tensor, "L b m"]]]:
        """Consecutive rows and their features, in parts of bounded size."""
        L, m = len(self.features.bandwidths), len(self.features.points)
        rows = rows_at_once(L * m, self.X.device)
        for start in range(0, len(self.X), rows):
            part = slice(start, start + rows)
            yield part, self[part]
