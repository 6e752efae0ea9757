"""Short trainings of candidate settings, one after the other, on the same data and with the same random numbers.

Inducing points, features and pre-trained experts depend on the bandwidths only, and are kept for the next candidate
with the same bandwidths.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import is_better
from lobal.core.kernels import WhitenedFeatures
from lobal.mixture.adam.fit import adam_settings, gate_width, sparse_responses
from lobal.mixture.adam.objective import expert_shares
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import DivergedError, Trainer
from lobal.mixture.data import TrainingData
from lobal.mixture.gate import SoftmaxGate, gated_mean
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import Start, gate_features_at
from lobal.mixture.tuning_record import End, Trial, Value

# Candidates are compared after shorter trainings than a final fit's: later epochs improve all of them similarly.
PATIENCE = 5
SMALLEST_RATE = 0.05
LONGEST = 150  # epochs
FIRST_STEPS = 10  # epochs: a learning rate is too small if the objective falls in all of them
LADDERS_KEPT = 2  # those of the incumbent and of a candidate


class State(NamedTuple):
    """The values of all trained parameters."""

    gate: SoftmaxGate
    experts: list[Tensor]


class Outcome(NamedTuple):
    """The result of training one candidate."""

    end: End
    error: float  # the best validation error; infinite where training diverged
    epochs: int
    squares: Float[Tensor, " n"] | None = None  # squared validation errors at the end, times relative weights
    shares: Float[Tensor, " L"] | None = None  # of the points, by expert
    state: State | None = None

    def is_worse_than(self, other: "Outcome") -> bool:
        """Whether the squared errors are larger by more than the standard error of the mean difference."""
        if self.squares is None or other.squares is None:
            return self.error > other.error
        return is_better(other.squares, self.squares)

    def as_trial(self, value: Value, *, known: bool = False) -> Trial:
        """The entry of the tuning record; `known` if the candidate was trained at an earlier decision."""
        error = self.error if math.isfinite(self.error) else None
        return Trial(value, error, 0 if known else self.epochs, "known" if known else self.end)


@final
class _Prepared:
    """Responses whose experts can be reset to the start of training."""

    def __init__(self, responses: SparseResponses, *, untrained: bool) -> None:
        self.responses = responses
        self._start = self.values()
        if untrained:
            self._start[0].zero_()  # the inducing values, at their prior mean

    def _leaves(self) -> list[Tensor]:
        return [*self.responses.inducing_parameters(), *self.responses.hyperparameters()]

    def values(self) -> list[Tensor]:
        return [leaf.detach().clone() for leaf in self._leaves()]

    @torch.no_grad()
    def reset(self, values: list[Tensor] | None) -> None:
        for leaf, value in zip(self._leaves(), self._start if values is None else values, strict=True):
            leaf.copy_(value)


@final
class CandidateTrainer:
    """Trains candidates, at most `left` more of them."""

    def __init__(self, data: TrainingData, start: Start, generator: torch.Generator, budget: int) -> None:
        self._data, self._start, self.left = data, start, budget
        self._seed = int(torch.randint(2**31 - 1, (), generator=generator))
        self._prepared: dict[tuple[tuple[float, ...], bool], _Prepared] = {}
        self._gate_features: dict[tuple[float, ...], WhitenedFeatures] = {}

    def run(
        self,
        candidate: MixtureSettings,
        *,
        begin: State | None = None,
        untrained: bool = False,
        probe: bool = False,
    ) -> Outcome:
        """Train a candidate from a state with the same bandwidths or from the start.

        The start is the pre-trained experts or, if `untrained`, their prior: a learning rate cannot be judged on
        experts that have nothing to learn. A `probe` is interrupted when its learning rate turns out too small.
        """
        self.left -= 1
        prepared = self._ready(candidate, begin, untrained=untrained)
        gate = self._uniform_gate(candidate) if begin is None else _copied(begin.gate, candidate)
        # Orders have a generator of their own, so that they are the same for every gate noise.
        trainer = Trainer(prepared.responses, gate, _shortened(candidate), self._generator(), self._generator(1))
        epochs: list[Epoch] = []
        try:
            for epoch in trainer.epochs():
                epochs.append(epoch)
                if probe and _only_falls(epochs):
                    return Outcome("interrupted", trainer.best_error(epochs), len(epochs))
        except DivergedError:
            return Outcome("diverged", math.inf, len(epochs))
        return _finished(prepared, trainer.best_gate(), trainer.best_error(epochs), len(epochs))

    def _generator(self, offset: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed + offset)

    def _ready(self, candidate: MixtureSettings, begin: State | None, *, untrained: bool) -> _Prepared:
        key = tuple(candidate.bandwidths.tolist()), untrained
        if key not in self._prepared:
            while len(self._prepared) >= LADDERS_KEPT:
                del self._prepared[next(iter(self._prepared))]
            responses = sparse_responses(self._data, self._start, candidate, self._generator())
            self._prepared[key] = _Prepared(responses, untrained=untrained)
        self._prepared[key] = self._prepared.pop(key)  # the last used is the last to be deleted
        self._prepared[key].reset(None if begin is None else begin.experts)
        return self._prepared[key]

    def _uniform_gate(self, candidate: MixtureSettings) -> SoftmaxGate:
        width = gate_width(self._start, candidate)
        key = tuple(width.flatten().tolist())
        if key not in self._gate_features:
            points = self._data.for_training()
            self._gate_features[key] = gate_features_at(points, width, candidate, self._generator())
        features = self._gate_features[key]
        scale = adam_settings(candidate).gate_scale
        return SoftmaxGate.uniform(features, n_experts=len(candidate.bandwidths), scale=scale)


def _only_falls(epochs: Sequence[Epoch]) -> bool:
    """Whether the objective has fallen in every one of the first epochs."""
    objectives = [epoch.objective for epoch in epochs]
    return len(objectives) == FIRST_STEPS and all(later < earlier for earlier, later in itertools.pairwise(objectives))


@torch.no_grad()
def _finished(prepared: _Prepared, gate: SoftmaxGate, error: float, epochs: int) -> Outcome:
    points, validation = prepared.responses.points, prepared.responses.validation
    prediction = gated_mean(gate(validation.X), prepared.responses.validation_mean())
    weight = validation.weight / validation.weight.mean()
    return Outcome(
        "finished",
        error,
        epochs,
        squares=weight * (validation.y - prediction).square(),
        shares=expert_shares(gate(points.X), points.weight),
        state=State(gate, prepared.values()),
    )


def _copied(gate: SoftmaxGate, candidate: MixtureSettings) -> SoftmaxGate:
    """A copy of the gate that may use all experts."""
    return replace(
        gate,
        means=gate.means.detach().clone(),
        whitened_mean=gate.whitened_mean.detach().clone(),
        kappa=len(candidate.bandwidths),
    )


def _shortened(candidate: MixtureSettings) -> AdamSettings:
    training = adam_settings(candidate)
    return replace(
        training,
        patience=min(training.patience, PATIENCE),
        smallest_rate=max(training.smallest_rate, SMALLEST_RATE),
        max_epochs=min(training.max_epochs, LONGEST),
    )
