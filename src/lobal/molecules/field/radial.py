"""Radial kernels g(s) of the squared scaled distance s, with the two derivatives that forces take.

Scaled as in `lobal.core.kernels`: g(0) = 1, and s = r^2 / sigma^2. A kernel enters force fields if the process is
differentiable in mean square, that is if g' is finite at zero; g'' then is multiplied by differences that vanish
there, but is kept finite, for the formulas are evaluated there.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor


class Radial(NamedTuple):
    """g(s), g'(s) and g''(s)."""

    value: Float[Tensor, "*shape"]
    first: Float[Tensor, "*shape"]
    second: Float[Tensor, "*shape"]


# Distances of less than 1e-10 bandwidths are as good as none, and the root has no derivative at zero.
SMALLEST = 1e-20

RadialKernel: TypeAlias = Callable[[Float[Tensor, "*shape"]], Radial]


def gaussian(s: Float[Tensor, "*shape"]) -> Radial:
    """Gaussian kernel exp(-s / 2), the paper's."""
    value = torch.exp(-0.5 * s)
    return Radial(value, -0.5 * value, 0.25 * value)


def matern52(s: Float[Tensor, "*shape"]) -> Radial:
    """Matern kernel of order 5/2, (1 + t + t^2/3) exp(-t) with t = sqrt(5 s), that of the sgdml package."""
    t = math.sqrt(5.0) * s.clamp_min(SMALLEST).sqrt()
    decay = torch.exp(-t)
    return Radial((1.0 + t + t.square() / 3.0) * decay, (-5.0 / 6.0) * (1.0 + t) * decay, (25.0 / 12.0) * decay)


RADIAL_KERNELS: dict[str, RadialKernel] = {"gaussian": gaussian, "matern52": matern52}


def radial_kernel_named(name: str) -> RadialKernel:
    """The kernel of that name, one of `RADIAL_KERNELS`."""
    if name not in RADIAL_KERNELS:
        raise ValueError(f"the kernel of a force field must be one of {sorted(RADIAL_KERNELS)}, got {name!r}")
    return RADIAL_KERNELS[name]
