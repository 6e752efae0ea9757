"""Tensors read from a file, taken out by name and shape: sizes that have the same symbol must be equal.

    stored = StoredTensors(tensors)
    Z = stored.real("points", "m d")
    b = stored.real("whitened_mean", "m")  # as many as there are points

No size is zero, so that what is computed from the tensors is bounded by the bytes of the file.
"""

import math
import os
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from lobal.core.schema import LARGEST

KINDS = (torch.float32, torch.float64)


@final
class StoredTensors:
    """Named tensors of a file, and the sizes found so far."""

    def __init__(self, tensors: Mapping[str, Tensor], **sizes: int) -> None:
        self.tensors, self.sizes = tensors, sizes

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def real(
        self, name: str, *shapes: str, least: float = -LARGEST, most: float = LARGEST, positive: bool = False
    ) -> Tensor:
        """A tensor of finite numbers within the bounds, of one of the shapes, such as "m d" or "2 d"."""
        found = self._shaped(name, shapes)
        if found.dtype not in KINDS:
            raise ValueError(f"{name} must be of type float32 or float64, got {found.dtype}")
        least = 1.0 / most if positive else least
        wrong = ~((found >= least) & (found <= most))  # NaN is wrong as well
        if wrong.any():
            raise ValueError(f"{name} must be numbers from {least:g} to {most:g}, got {found[wrong][0].item()}")
        return found

    def whole(self, name: str, *shapes: str, least: int, most: int) -> Tensor:
        """A tensor of whole numbers within the bounds."""
        found = self._shaped(name, shapes)
        if found.dtype != torch.int64:
            raise ValueError(f"{name} must be of type int64, got {found.dtype}")
        if ((found < least) | (found > most)).any():
            raise ValueError(f"{name} must be from {least} to {most}, got {found.min()} to {found.max()}")
        return found

    def ascending(self, name: str, shape: str) -> Tensor:
        """A column of positive numbers, each larger than the one before."""
        found = self.real(name, shape, positive=True, most=math.sqrt(LARGEST))
        if not (found.diff() > 0).all():
            raise ValueError(f"{name} must ascend, got {found.tolist()[:8]}")
        return found

    def bandwidth(self, name: str, columns: str) -> Tensor:
        """A bandwidth: a number, one for each column, or a positive definite matrix."""
        found = self.real(name, "", columns, f"{columns} {columns}")
        smallest = torch.linalg.eigvalsh(found).min() if found.ndim == 2 else found.min()
        is_symmetric = found.ndim < 2 or torch.allclose(found, found.mT)
        if not (is_symmetric and smallest >= 1.0 / LARGEST):
            raise ValueError(f"{name} must be positive (definite), got {found.flatten().tolist()[:8]}")
        return found

    def check_one_type(self, *, but: str = " ") -> None:
        """All real numbers of the file have the same precision, but for names that begin so."""
        some = (tensor for name, tensor in self.tensors.items() if not name.startswith(but))
        found = {tensor.dtype for tensor in some if tensor.is_floating_point()}
        if len(found) > 1:
            raise ValueError(f"all numbers must be of one type, got {sorted(map(str, found))}")

    def _shaped(self, name: str, shapes: tuple[str, ...]) -> Tensor:
        if name not in self.tensors:
            raise ValueError(f"there must be a tensor {name!r}, got only {sorted(self.tensors)}")
        found = self.tensors[name]
        sizes = next((sizes for shape in shapes if (sizes := self._sizes(tuple(found.shape), shape)) is not None), None)
        if sizes is None:
            wanted = " or ".join(f"({self._described(shape)})" for shape in shapes)
            raise ValueError(f"{name} must have shape {wanted}, got {tuple(found.shape)}")
        self.sizes |= sizes
        return found

    def _sizes(self, found: tuple[int, ...], shape: str) -> dict[str, int] | None:
        """The sizes that the shape gives its symbols; None if it does not fit."""
        symbols, sizes = shape.split(), dict(self.sizes)
        if len(symbols) != len(found) or 0 in found:
            return None
        for symbol, size in zip(symbols, found, strict=True):
            if sizes.setdefault(symbol, int(symbol) if symbol.isdigit() else size) != size:
                return None
        return sizes

    def _described(self, shape: str) -> str:
        return ", ".join(str(self.sizes.get(symbol, symbol)) for symbol in shape.split())


def check_memory(n_numbers: int, what: str) -> None:
    """Refuse what this machine cannot hold, before anything is allocated."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**40
    if 8 * n_numbers > memory:
        raise ValueError(f"{what} would take {8 * n_numbers / 2**30:.0f} GiB, this machine has {memory / 2**30:.0f}")
