"""The ladder of bandwidths: extended where its ends are in use, cut where they are not (Algorithm 2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths

IN_USE = 0.02  # an end of the ladder that serves this share of the points asks for more beyond it
STEPS_BEYOND = 2
NOT_IN_USE = 0.005
FEWEST = 3
CHANGES = 6  # the most times the ladder is extended


def extended(
    bandwidths: Bandwidths, shares: Float[Tensor, " L"], largest: float = math.inf
) -> Float[Tensor, " longer"]:
    """The ladder with more steps beyond the ends that are in use; the same where neither is.

    `shares` are the experts' shares of the points. The new steps are as wide as the last one, none above `largest`.
    """
    above = _beyond(bandwidths, shares, -1)
    return torch.cat([_beyond(bandwidths, shares, 0), bandwidths, above[above <= largest]])


def trimmed(bandwidths: Bandwidths, shares: Float[Tensor, " L"]) -> Float[Tensor, " shorter"]:
    """The ladder without the ends that are not in use, but for one expert at either end that shows it is not."""
    first, last = 0, len(bandwidths)
    while last - first > FEWEST and shares[first : first + 2].sum() < NOT_IN_USE:
        first += 1
    while last - first > FEWEST and shares[last - 2 : last].sum() < NOT_IN_USE:
        last -= 1
    return bandwidths[first:last]


def in_use(bandwidths: Bandwidths, shares: Float[Tensor, " L"]) -> Float[Tensor, " shorter"]:
    """The ladder without any end that is not in use: for experts too dear to show that they are not."""
    used = (shares >= NOT_IN_USE).nonzero()[:, 0]
    return bandwidths[used[0] : used[-1] + 1]


def _beyond(bandwidths: Bandwidths, shares: Float[Tensor, " L"], end: int) -> Float[Tensor, " more"]:
    """The steps to add at one end, ascending; none where that end is hardly used."""
    if shares[end] < IN_USE or len(bandwidths) < 2:
        return bandwidths[:0]
    inner = 1 if end == 0 else -2
    step = bandwidths[end] / bandwidths[inner]
    powers = torch.arange(1, STEPS_BEYOND + 1, dtype=bandwidths.dtype, device=bandwidths.device)
    return (bandwidths[end] * step**powers).sort().values
