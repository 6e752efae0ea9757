"""Short trainings of candidate settings, one after the other, on the same data and with the same random numbers."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import is_better
from lobal.mixture.adam.fit import adam_settings, gate_width, sparse_responses
from lobal.mixture.adam.objective import expert_shares
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import DivergedError, Trainer
from lobal.mixture.data import TrainingData
from lobal.mixture.gate import SoftmaxGate, gated_mean
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import Start
from lobal.mixture.tuning_record import End, Trial, Value

# Candidates are compared after shorter trainings than a final fit's: later epochs improve all of them similarly.
PATIENCE = 5
SMALLEST_RATE = 0.05
LONGEST = 150  # epochs
FIRST_STEPS = 10  # epochs: a learning rate is too small if the objective falls in all of them


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
        return self.squares is not None and other.squares is not None and is_better(other.squares, self.squares)

    def as_trial(self, value: Value, *, known: bool = False) -> Trial:
        """The entry of the tuning record; `known` if the candidate was trained at an earlier decision."""
        error = self.error if math.isfinite(self.error) else None
        return Trial(value, error, 0 if known else self.epochs, "known" if known else self.end)


@final
class CandidateTrainer:
    """Trains candidates."""

    def __init__(self, data: TrainingData, start: Start, generator: torch.Generator) -> None:
        self._data, self._start = data, start
        self._seed = int(torch.randint(2**31 - 1, (), generator=generator))

    def run(
        self,
        candidate: MixtureSettings,
        *,
        begin: State | None = None,
        untrained: bool = False,
        probe: bool = False,
    ) -> Outcome:
        """Train a candidate from a state with the same bandwidths, from pre-trained experts or, `untrained`, a prior.

        A `probe` is interrupted when its learning rate turns out too small.
        """
        responses = sparse_responses(self._data, self._start_of(candidate))
        with torch.no_grad():
            if untrained:
                _leaves(responses)[0].zero_()  # the prior mean
            for leaf, value in zip(
                _leaves(responses), [] if begin is None else begin.experts, strict=begin is not None
            ):
                leaf.copy_(value)
        if begin is None:
            gate = self._uniform_gate(candidate)
        else:  # a copy that may use all experts
            copies = {name: getattr(begin.gate, name).detach().clone() for name in ("means", "whitened_mean")}
            gate = replace(begin.gate, **copies, kappa=len(candidate.bandwidths))
        # Orders have a generator of their own, so that they are the same for every gate noise.
        trainer = Trainer(responses, gate, _shortened(candidate), self._generator(), self._generator(1))
        epochs: list[Epoch] = []
        try:
            for epoch in trainer.epochs():
                epochs.append(epoch)
                if probe and _only_falls(epochs):
                    return Outcome("interrupted", trainer.best_error(epochs), len(epochs))
        except DivergedError:
            return Outcome("diverged", math.inf, len(epochs))
        return _finished(responses, trainer.best_gate(), trainer.best_error(epochs), len(epochs))

    def _generator(self, offset: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed + offset)

    def _start_of(self, candidate: MixtureSettings) -> Start:
        return replace(self._start, settings=candidate, generator=self._generator())

    def _uniform_gate(self, candidate: MixtureSettings) -> SoftmaxGate:
        width, points = gate_width(self._start, candidate), self._data.for_training()
        features = self._start_of(candidate).gate_features(points, width)
        scale = adam_settings(candidate).gate_scale
        return SoftmaxGate.uniform(features, n_experts=len(candidate.bandwidths), scale=scale)


def _leaves(responses: SparseResponses) -> list[Tensor]:
    return [leaf for leaves in responses.leaves() for leaf in leaves]


def _only_falls(epochs: Sequence[Epoch]) -> bool:
    """Whether the objective has fallen in every one of the first epochs."""
    objectives = [epoch.objective for epoch in epochs]
    return len(objectives) == FIRST_STEPS and all(later < earlier for earlier, later in itertools.pairwise(objectives))


@torch.no_grad()
def _finished(responses: SparseResponses, gate: SoftmaxGate, error: float, epochs: int) -> Outcome:
    points, validation = responses.points, responses.validation
    prediction = gated_mean(gate(validation.X), responses.validation_mean())
    weight = validation.weight / validation.weight.mean()
    return Outcome(
        "finished",
        error,
        epochs,
        squares=weight * (validation.y - prediction).square(),
        shares=expert_shares(gate(points.X), points.weight),
        state=State(gate, [leaf.detach().clone() for leaf in _leaves(responses)]),
    )


def _shortened(candidate: MixtureSettings) -> AdamSettings:
    training = adam_settings(candidate)
    return replace(
        training,
        patience=min(training.patience, PATIENCE),
        smallest_rate=max(training.smallest_rate, SMALLEST_RATE),
        max_epochs=min(training.max_epochs, LONGEST),
    )
