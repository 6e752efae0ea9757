"""Steps of Markov chains, for many chains at once: elliptical slice sampling and Metropolis."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LogDensity = Callable[[Tensor], Float[Tensor, " C"]]
NARROWEST = 0.01  # of the first brackets, as a share of the ellipse
# A bracket shrinks by half or so with every trial; after so many it is below rounding, and the chain stays.
MOST_TRIALS = 60
STEPS = (0.01, 1.0)  # smallest and largest standard deviation of a step of the Metropolis sampler


def elliptical_slice(
    current: Float[Tensor, "C M"],
    level: Float[Tensor, " C"],
    log_likelihood: LogDensity,
    generator: torch.Generator,
    *,
    moving: Bool[Tensor, "C M"] | None = None,
) -> tuple[Float[Tensor, "C M"], Float[Tensor, " C"]]:
    """A step that leaves invariant a standard normal prior times a likelihood (Murray, Adams and MacKay 2010).

    The first bracket is a piece of the ellipse of random length, placed at random around the current point: short ones
    save trials where the likelihood is narrow.

    Args:
        current: the chains' values.
        level: their log likelihoods.
        log_likelihood: of values; -inf where they are impossible.
        generator: of the chains' device.
        moving: which of the values to move, by default all; the others are given.

    Returns:
        The new values and their log likelihoods.
    """
    other = torch.empty_like(current).normal_(generator=generator)
    threshold = level + _uniform(level, generator).log()
    width = 2.0 * math.pi * NARROWEST ** _uniform(level, generator)
    upper = width * _uniform(level, generator)
    lower = upper - width
    new, reached, is_open = current.clone(), level.clone(), torch.ones_like(level, dtype=torch.bool)
    for _ in range(MOST_TRIALS):
        angle = lower + (upper - lower) * _uniform(level, generator)
        proposed = current * angle.cos()[:, None] + other * angle.sin()[:, None]
        if moving is not None:
            proposed = torch.where(moving, proposed, current)
        proposed = torch.where(is_open[:, None], proposed, new)
        found = log_likelihood(proposed)
        accepted = is_open & (found > threshold)
        new = torch.where(accepted[:, None], proposed, new)
        reached = torch.where(accepted, found, reached)
        is_open = is_open & ~accepted
        if not is_open.any():
            break
        lower, upper = torch.where(angle < 0.0, angle, lower), torch.where(angle < 0.0, upper, angle)
    return new, reached


def metropolis(
    current: Float[Tensor, " C"],
    level: Float[Tensor, " C"],
    log_likelihood: LogDensity,
    log_prior: LogDensity,
    generator: torch.Generator,
) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"]]:
    """A normal step of a length drawn anew, from small to large; the new values and their log likelihoods."""
    smallest, largest = (math.log(step) for step in STEPS)
    length = torch.exp(smallest + (largest - smallest) * _uniform(current, generator))
    proposed = current + length * torch.empty_like(current).normal_(generator=generator)
    prior = log_prior(proposed)
    # Impossible values are not looked at: the likelihood of the current ones stands in.
    found = log_likelihood(torch.where(prior > -math.inf, proposed, current))
    gain = found + prior - level - log_prior(current)
    accepted = gain > _uniform(current, generator).log()
    return torch.where(accepted, proposed, current), torch.where(accepted, found, level)


def _uniform(like: Float[Tensor, " C"], generator: torch.Generator) -> Float[Tensor, " C"]:
    return torch.rand(like.shape, dtype=like.dtype, device=like.device, generator=generator)
