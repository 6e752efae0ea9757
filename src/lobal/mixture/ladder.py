"""The ladder of bandwidths: extended where its ends are in use, cut where they are not (Algorithm 2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths

IN_USE = 0.02  # the ladder is extended beyond an end that serves at least this share of the points
STEPS_BEYOND = 2
NOT_IN_USE = 0.005
FEWEST = 3
CHANGES = 6  # the most times the ladder is extended
# A bandwidth of so many times the inputs' extent is as good as infinite.
FLAT = 10.0


def bandwidth_prices(L: int, penalty: float, like: Tensor) -> Float[Tensor, " L"]:
    """theta times 2 (L - l) / (L - 1) for each expert; their mean by the experts' shares is Eq. (eq:smallBWpenalty).

    That is theta at equal shares, zero if the largest bandwidth carries everything, 2 theta if the smallest does.
    """
    return 2.0 * penalty / max(L - 1, 1) * torch.arange(L - 1, -1, -1, dtype=like.dtype, device=like.device)


def extended(
    bandwidths: Bandwidths, shares: Float[Tensor, " L"], largest: float = math.inf
) -> Float[Tensor, " longer"]:
    """The ladder with more bandwidths beyond the ends that are in use; unchanged if neither is.

    `shares` are the experts' shares of the points. New bandwidths continue the last ratio, up to `largest`.
    """
    above = _beyond(bandwidths, shares, -1)
    return torch.cat([_beyond(bandwidths, shares, 0), bandwidths, above[above <= largest]])


def largest_useful(scaled: Float[Tensor, "n d"]) -> float:
    """The largest bandwidth worth having, from inputs in units of the shared bandwidth."""
    return FLAT * (scaled.amax(dim=0) - scaled.amin(dim=0)).max().item()


def trimmed(bandwidths: Bandwidths, shares: Float[Tensor, " L"]) -> Float[Tensor, " shorter"]:
    """The ladder without unused ends, except one unused expert at either end, which shows that no more are needed."""
    first, last = 0, len(bandwidths)
    while last - first > FEWEST and shares[first : first + 2].sum() < NOT_IN_USE:
        first += 1
    while last - first > FEWEST and shares[last - 2 : last].sum() < NOT_IN_USE:
        last -= 1
    return bandwidths[first:last]


def in_use(bandwidths: Bandwidths, shares: Float[Tensor, " L"]) -> Float[Tensor, " shorter"]:
    """The ladder without unused ends, for exact experts, which are too expensive to keep unused."""
    used = (shares >= NOT_IN_USE).nonzero()[:, 0]
    return bandwidths[used[0] : used[-1] + 1]


def _beyond(bandwidths: Bandwidths, shares: Float[Tensor, " L"], end: int) -> Float[Tensor, " more"]:
    """The bandwidths to add at one end, ascending; none if that end is hardly used."""
    if shares[end] < IN_USE or len(bandwidths) < 2:
        return bandwidths[:0]
    inner = 1 if end == 0 else -2
    step = bandwidths[end] / bandwidths[inner]
    powers = torch.arange(1, STEPS_BEYOND + 1, dtype=bandwidths.dtype, device=bandwidths.device)
    return (bandwidths[end] * step**powers).sort().values
