"""Markov chains over the layers, bandwidths and noise of a deep Gaussian process (Sauer, Gramacy and Higdon 2023).

Hidden layers are moved by elliptical slice sampling and hyperparameters by Metropolis steps, as in their R package
deepgp, with the same priors. Two things differ, for chains that are a tenth as long: the weights of the layers are
sampled instead of their values, so that a layer moves the next ones with it, and chains start where gradient ascent
ends instead of at the identity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.baselines.deep_gp_layers import (
    Moments,
    OutputPosterior,
    SineBasis,
    Warped,
    moments,
    output_posterior,
    warped,
)
from lobal.baselines.slice_sampling import elliptical_slice, metropolis
from lobal.core.interrupts import prepare_optimisers

# Inputs are scaled to [-1/2, 1/2]; hidden layers have variance one.
FIRST = SineBasis(half_width=2.5, number=80, reach=0.5)
HIDDEN = SineBasis(half_width=5.0, number=40, reach=2.5)
OUTPUT = SineBasis(half_width=3.5, number=200, reach=2.5)
ONLY = SineBasis(half_width=1.5, number=200, reach=0.5)  # the output layer where there is no hidden one
# Rates of the gamma priors of deepgp, of shape 3/2, for twice the squared bandwidths from the first layer to the last.
SHAPE = 1.5
RATES = {1: (3.9 / 1.5,), 2: (3.9 / 4.0, 3.9 / 6.0), 3: (3.9 / 4.0, 3.9 / 12.0, 3.9 / 6.0)}
NOISE_RATE = 3.9
NOISE_BOUNDS = (1e-6, 10.0)  # in units of the output layer's variance
# Chains start from a first layer 3 x and an identity, which fill most of the reach, and from changes of these.
SLOPES, START_BANDWIDTHS, START_OUTPUT, START_NOISE = (3.0, 1.0), (0.3, 0.8), 0.15, 0.05
SPREAD = (0.3, 0.1)
LEARNING_RATE = 0.03  # of Adam, in units of the weights' standard deviations
PENALTY = 1e4  # on leaving the reach, during the ascent only
FEWEST_MOVING = 0.1  # share of the weights in a step of some of them


@final
@dataclass(frozen=True, kw_only=True)
class State:
    """Where the chains are."""

    weights: tuple[Float[Tensor, "C _"], ...]  # standardised, of every hidden layer
    scales: Float[Tensor, "C scales"]  # logarithms of the bandwidths and of the noise

    @property
    def bandwidths(self) -> Float[Tensor, "C layers"]:
        """Bandwidths from the first layer to the last."""
        return self.scales[:, :-1].exp()

    def copy(self) -> "State":
        """The same, sharing no memory."""
        return State(weights=tuple(each.clone() for each in self.weights), scales=self.scales.clone())


def joined(states: Sequence[State]) -> State:
    """All chains of several states."""
    weights = zip(*(state.weights for state in states), strict=True)
    return State(weights=tuple(map(torch.cat, weights)), scales=torch.cat([state.scales for state in states]))


@final
class Chains:
    """Chains over the deep Gaussian process of some labels.

    Args:
        x: inputs in [-1/2, 1/2].
        y: labels of mean zero and variance one.
        layers: their number, one to three.
    """

    def __init__(self, x: Float[Tensor, " n"], y: Float[Tensor, " n"], layers: int) -> None:
        self.x, self.y = x, y
        self.hidden: tuple[SineBasis, ...] = (FIRST, HIDDEN)[: layers - 1]
        self.output = OUTPUT if self.hidden else ONLY
        self._rates = (*RATES[layers], NOISE_RATE)
        self._bounds = [basis.bounds for basis in (*self.hidden, self.output)] + [NOISE_BOUNDS]

    def start(self, chains: int, generator: torch.Generator) -> State:
        """The first chain maps inputs to themselves; others are changes of it."""
        widths = START_BANDWIDTHS[: len(self.hidden)]
        weights = []
        for basis, slope, width, spread in zip(self.hidden, SLOPES, widths, SPREAD, strict=False):
            identity = basis.weights_of(slope, width).to(self.x.device).expand(chains, -1)
            change = torch.empty_like(identity, memory_format=torch.contiguous_format).normal_(generator=generator)
            change[0] = 0.0
            weights.append(identity + spread * change)
        output = START_OUTPUT if self.hidden else START_OUTPUT / SLOPES[0]
        scales = torch.tensor([*widths, output, START_NOISE], dtype=self.x.dtype, device=self.x.device).log()
        return State(weights=tuple(weights), scales=scales.repeat(chains, 1))

    def warp(self, state: State, x: Float[Tensor, " n"]) -> Warped:
        """Inputs passed through the hidden layers."""
        return warped(self.hidden, self.output, x, state.weights, state.bandwidths)

    def posterior(self, state: State) -> OutputPosterior:
        """The output layer given the hidden ones."""
        return self._given(moments(self.output, self.warp(state, self.x).places, self.y), state.scales)

    def ascend(self, state: State, steps: int) -> State:
        """The state after so many steps of Adam on the log posterior density; chains that leave the reach go back."""
        if not steps:
            return state
        moved = state.copy()
        parameters = [*moved.weights, moved.scales]
        for parameter in parameters:
            parameter.requires_grad_()
        prepare_optimisers()
        optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        with torch.enable_grad():
            for _ in range(steps):
                optimiser.zero_grad()
                (-self._relaxed_log_density(moved).sum()).backward()
                optimiser.step()
                with torch.no_grad():
                    self._clamp(moved.scales)
        for parameter in parameters:
            parameter.requires_grad_(False)
        possible = self.log_likelihood(moved).isfinite()[:, None]
        weights = tuple(torch.where(possible, *pair) for pair in zip(moved.weights, state.weights, strict=True))
        return State(weights=weights, scales=torch.where(possible, moved.scales, state.scales))

    def log_likelihood(self, state: State) -> Float[Tensor, " C"]:
        """Log evidence of the labels given hidden layers and hyperparameters; -inf beyond the reach."""
        places, is_inside, _ = self.warp(state, self.x)
        evidence = self._given(moments(self.output, places, self.y), state.scales).log_evidence
        return torch.where(is_inside, evidence, -math.inf)

    def sweep(self, state: State, generator: torch.Generator) -> State:
        """One step of everything: each hidden layer, some of its weights, all bandwidths and the noise."""
        level = self.log_likelihood(state)
        for layer, current in enumerate(state.weights):
            share = FEWEST_MOVING ** torch.rand(len(current), 1, device=current.device, generator=generator)
            some = torch.rand(current.shape, device=current.device, generator=generator) < share
            for moving in (None, some):
                likelihood = partial(self._with_weights, state, layer)
                new, level = elliptical_slice(state.weights[layer], level, likelihood, generator, moving=moving)
                state = _with_layer(state, layer, new)
        for number in range(len(self.hidden)):
            likelihood = partial(self._with_scale, state, number)
            new, level = self._scale_step(state, number, level, likelihood, generator)
            state = _with_number(state, number, new)
        sums = moments(self.output, self.warp(state, self.x).places, self.y)  # the last two do not change these
        for number in range(len(self.hidden), state.scales.shape[1]):
            likelihood = partial(self._of_moments, sums, state, number)
            new, level = self._scale_step(state, number, level, likelihood, generator)
            state = _with_number(state, number, new)
        return state

    def log_prior(self, number: int, log_scale: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
        """Log density of the logarithm of a bandwidth, or of the noise, which is the last; -inf out of bounds."""
        lower, upper = (math.log(bound) for bound in self._bounds[number])
        exponent = log_scale if number == len(self._bounds) - 1 else 2.0 * log_scale + math.log(2.0)
        density = SHAPE * exponent - self._rates[number] * exponent.exp()
        return torch.where((log_scale >= lower) & (log_scale <= upper), density, -math.inf)

    def _given(self, sums: Moments, scales: Float[Tensor, "C scales"]) -> OutputPosterior:
        return output_posterior(self.output, sums, scales[:, -2].exp(), scales[:, -1].exp())

    def _relaxed_log_density(self, state: State) -> Float[Tensor, " C"]:
        """Up to a constant, with a penalty instead of an end where layers leave the reach."""
        places, _, overshoot = self.warp(state, self.x)
        density = self._given(moments(self.output, places, self.y), state.scales).log_evidence - PENALTY * overshoot
        for standardised in state.weights:
            density = density - 0.5 * standardised.square().sum(1)
        for number in range(state.scales.shape[1]):
            density = density + self.log_prior(number, state.scales[:, number])
        return density

    def _clamp(self, scales: Float[Tensor, "C scales"]) -> None:
        for column, bounds in zip(scales.T, self._bounds, strict=True):
            lower, upper = (math.log(bound) for bound in bounds)
            column.clamp_(lower, upper)

    def _with_weights(self, state: State, layer: int, new: Float[Tensor, "C M"]) -> Float[Tensor, " C"]:
        return self.log_likelihood(_with_layer(state, layer, new))

    def _with_scale(self, state: State, number: int, new: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
        return self.log_likelihood(_with_number(state, number, new))

    def _of_moments(self, sums: Moments, state: State, number: int, new: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
        return self._given(sums, _with_number(state, number, new).scales).log_evidence

    def _scale_step(
        self, state: State, number: int, level: Tensor, likelihood: partial[Tensor], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        prior = partial(self.log_prior, number)
        return metropolis(state.scales[:, number], level, likelihood, prior, generator)


def _with_layer(state: State, layer: int, new: Float[Tensor, "C M"]) -> State:
    return replace(state, weights=(*state.weights[:layer], new, *state.weights[layer + 1 :]))


def _with_number(state: State, number: int, new: Float[Tensor, " C"]) -> State:
    scales = state.scales.clone()
    scales[:, number] = new
    return replace(state, scales=scales)
