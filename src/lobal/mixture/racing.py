"""Adam on many candidates: what they share is computed once, and who falls behind is abandoned.

Inducing points, features and pre-trained experts depend on the ladder of bandwidths alone, so candidates of the same
ladder share them. All train with the same random numbers, so that a difference is the candidate's own.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.mixture.adam import AdamSettings, Epoch, Trainer
from lobal.mixture.decisions import End, Trial, Value
from lobal.mixture.fit import GATE_WIDTH, MixtureSettings, Start, TrainingData, gate_features_at, sparse_responses
from lobal.mixture.gate import SoftmaxGate
from lobal.mixture.objective import expert_shares, gated_mean
from lobal.mixture.responses import SparseResponses

# Candidates are compared after shorter trainings than a fit's: what comes later moves all of them alike.
PATIENCE = 5
SMALLEST_RATE = 0.05
LONGEST = 150  # epochs
# A candidate is abandoned at this epoch or later, once it has been behind for so many in a row.
EARLIEST, BEHIND = 20, 5
FIRST_STEPS = 10  # of the objective: if all go down, the learning rate can be larger
LADDERS_KEPT = 2  # the incumbent's and its challenger's

Watch: TypeAlias = Callable[[Sequence[Epoch], Sequence[float]], End | None]


class State(NamedTuple):
    """The values of all that is trained."""

    gate: SoftmaxGate
    experts: list[Tensor]


class Outcome(NamedTuple):
    """How the training of one candidate went."""

    end: End
    course: tuple[float, ...]  # the best validation error up to each epoch; infinite until kappa is terminal
    squares: Float[Tensor, " n"] | None = None  # squared validation errors in the end, times relative weights
    shares: Float[Tensor, " L"] | None = None  # of the points, by expert
    state: State | None = None

    @property
    def error(self) -> float:
        """The best validation error; infinite where training diverged."""
        return math.inf if self.end == "diverged" or not self.course else self.course[-1]

    def is_worse_than(self, other: "Outcome") -> bool:
        """Whether the squared errors are larger by more than the standard error of the mean difference."""
        if self.squares is None or other.squares is None:
            return self.error > other.error
        loss = self.squares - other.squares
        return bool(loss.mean() > loss.std() / math.sqrt(len(loss)))

    def as_trial(self, value: Value, *, known: bool = False) -> Trial:
        """The same for the record; `known` where it was measured before."""
        error = self.error if math.isfinite(self.error) else None
        return Trial(value, error, 0 if known else len(self.course), "known" if known else self.end)


def keeping_up(leader: Outcome | None) -> Watch:
    """Abandons a candidate that stays behind the leader at the same epochs."""

    def watch(_: Sequence[Epoch], course: Sequence[float]) -> End | None:
        if leader is None or len(course) < EARLIEST:
            return None
        ahead = [leader.course[min(number, len(leader.course) - 1)] for number in range(len(course))]
        is_behind = all(own > best for own, best in zip(course[-BEHIND:], ahead[-BEHIND:], strict=True))
        return "abandoned" if is_behind else None

    return watch


def in_full(_: Sequence[Epoch], __: Sequence[float]) -> End | None:
    """Lets training go on to its end."""
    return None


def probing(epochs: Sequence[Epoch], _: Sequence[float]) -> End | None:
    """Interrupts a training whose objective has only fallen so far: its learning rate is too small."""
    first = [epoch.objective for epoch in epochs]
    if len(first) != FIRST_STEPS or any(later >= earlier for earlier, later in itertools.pairwise(first)):
        return None
    return "interrupted"


class _Stopped(Exception):  # noqa: N818 - no error
    """Ends a training from within its progress report."""

    def __init__(self, end: End) -> None:
        self.end: End = end


@final
class _Prepared:
    """Responses whose experts can be put back to where training starts."""

    def __init__(self, responses: SparseResponses, *, untrained: bool) -> None:
        self.responses = responses
        self._start = self.values()
        if untrained:
            self._start[0].zero_()  # the inducing values, at the mean of their prior

    def _leaves(self) -> list[Tensor]:
        return [*self.responses.inducing_parameters(), *self.responses.hyperparameters()]

    def values(self) -> list[Tensor]:
        return [leaf.detach().clone() for leaf in self._leaves()]

    @torch.no_grad()
    def put_back(self, values: list[Tensor] | None) -> None:
        for leaf, value in zip(self._leaves(), self._start if values is None else values, strict=True):
            leaf.copy_(value)


@final
class Race:
    """Trainings on one set of data, `budget` of them at the most."""

    def __init__(self, data: TrainingData, start: Start, generator: torch.Generator, budget: int) -> None:
        self._data, self._start_at, self.left = data, start, budget
        self._seed = int(torch.randint(2**31 - 1, (), generator=generator))
        self._prepared: dict[tuple[tuple[float, ...], bool], _Prepared] = {}

    def run(
        self,
        candidate: MixtureSettings,
        watch: Watch = in_full,
        *,
        begin: State | None = None,
        untrained: bool = False,
    ) -> Outcome:
        """Train a candidate under the watch, from a state of the same ladder or from the beginning.

        The beginning is the pre-trained experts or, if `untrained`, their prior: a learning rate that has nothing to
        learn cannot be judged.
        """
        self.left -= 1
        prepared = self._ready(candidate, untrained=untrained)
        prepared.put_back(None if begin is None else begin.experts)
        gate = self._uniform_gate(candidate) if begin is None else _copied(begin.gate, candidate)
        trainer = Trainer(prepared.responses, gate, _shortened(candidate.training), self._generator())
        terminal = min(trainer.settings.kappa, len(candidate.bandwidths))
        epochs: list[Epoch] = []
        course: list[float] = []

        def look(epoch: Epoch) -> None:
            epochs.append(epoch)
            error = epoch.validation_error if epoch.kappa <= terminal else math.inf
            course.append(min(error, course[-1] if course else math.inf))
            end = watch(epochs, course)
            if end is not None:
                raise _Stopped(end)

        try:
            trained = trainer.run(look)
        except _Stopped as stopped:
            return Outcome(stopped.end, tuple(course))
        except ValueError:  # the options were checked before: only a divergence is left
            return Outcome("diverged", tuple(course))
        return _finished(prepared, trained, course)

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed)

    def _ready(self, candidate: MixtureSettings, *, untrained: bool) -> _Prepared:
        key = tuple(candidate.bandwidths.tolist()), untrained
        if key not in self._prepared:
            while len(self._prepared) >= LADDERS_KEPT:
                del self._prepared[next(iter(self._prepared))]
            responses = sparse_responses(self._data, self._start_at, candidate, self._generator())
            self._prepared[key] = _Prepared(responses, untrained=untrained)
        self._prepared[key] = self._prepared.pop(key)  # the last used is the last to go
        return self._prepared[key]

    def _uniform_gate(self, candidate: MixtureSettings) -> SoftmaxGate:
        width = candidate.gate_bandwidth
        width = GATE_WIDTH * self._start_at.global_bandwidth if width is None else width
        features = gate_features_at(self._data.known(), width, candidate, self._generator())
        return SoftmaxGate.uniform(features, n_experts=len(candidate.bandwidths), scale=candidate.gate_scale)


@torch.no_grad()
def _finished(prepared: _Prepared, gate: SoftmaxGate, course: Sequence[float]) -> Outcome:
    points, validation = prepared.responses.points, prepared.responses.validation
    prediction = gated_mean(gate(validation.X), prepared.responses.validation_mean())
    weight = validation.weight / validation.weight.mean()
    return Outcome(
        "finished",
        tuple(course),
        squares=weight * (validation.y - prediction).square(),
        shares=expert_shares(gate(points.X), points.weight),
        state=State(gate, prepared.values()),
    )


def _copied(gate: SoftmaxGate, candidate: MixtureSettings) -> SoftmaxGate:
    """The gate with tensors of its own, open to all experts again."""
    return replace(
        gate,
        means=gate.means.detach().clone(),
        whitened_mean=gate.whitened_mean.detach().clone(),
        kappa=len(candidate.bandwidths),
    )


def _shortened(training: object) -> AdamSettings:
    assert isinstance(training, AdamSettings)
    return replace(
        training,
        patience=min(training.patience, PATIENCE),
        smallest_rate=max(training.smallest_rate, SMALLEST_RATE),
        max_epochs=min(training.max_epochs, LONGEST),
    )
