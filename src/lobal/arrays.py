"""Shape aliases, device and dtype, and checks of what a user passes in."""

from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Scalar: TypeAlias = Float[Tensor, ""]
Inputs: TypeAlias = Float[Tensor, "n d"]
Bandwidths: TypeAlias = Float[Tensor, " L"]


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The device to compute on: `None` is the CPU, `"auto"` a GPU where there is one.

    Raises:
        ValueError: the name is no device, or names a GPU where none is available.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device or "cpu")
    except RuntimeError as error:
        raise ValueError(f"device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {device!r}") from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but no GPU is available; use device='auto' or 'cpu'")
    return resolved


def as_column(
    values: Any,  # noqa: ANN401 - array-likes of any kind are welcome
    *,
    name: str,
    length: int,
    positive: bool = False,
) -> Float[np.ndarray, " n"]:
    """`values` as finite float64 numbers of the given length, checked to be at least zero.

    A scalar stands for a constant column. With `positive`, every entry must exceed zero.
    """
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got {values!r}") from error
    if column.ndim == 0:
        column = np.full(length, column)
    if column.shape != (length,):
        raise ValueError(f"{name} must be a number or have shape ({length},), got shape {column.shape}")
    wrong = ~np.isfinite(column) | ((column <= 0) if positive else (column < 0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        bound = "above zero" if positive else "at least zero"
        raise ValueError(f"{name} must be finite and {bound}, got {column[first]} at row {first}")
    return column
