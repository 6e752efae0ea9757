"""Adam on many candidates: what they share is computed once, and who falls behind is abandoned.

Inducing points, features and pre-trained experts depend on the ladder of bandwidths alone, so candidates of the same
ladder share them. All train with the same random numbers, so that a difference is the candidate's own. Candidates that
differ in nothing that is read at every step train together, and each of them counts as one training. They are watched
as if they were alone, by comparison with who finished before them and not with each other: an early lead says little,
and who stays behind costs little.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures
from lobal.mixture.adam.responses import SparseResponses, zero_covariance
from lobal.mixture.adam.together import Candidate, JointTrainer
from lobal.mixture.adam.training import AdamSettings, Epoch, Trainer, elbo
from lobal.mixture.decisions import End, Trial, Value
from lobal.mixture.fit import GATE_WIDTH, MixtureSettings, Start, TrainingData, gate_features_at, sparse_responses
from lobal.mixture.gate import SoftmaxGate
from lobal.mixture.objective import expert_shares, gated_mean

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


@final
class _Lane:
    """What is seen of a training, and its end if the watch ends it."""

    def __init__(self, watch: Watch, terminal: int) -> None:
        self.end: End | None = None
        self.course: list[float] = []
        self._epochs: list[Epoch] = []
        self._watch, self._terminal = watch, terminal

    def goes_on(self, epoch: Epoch) -> bool:
        """Take note of an epoch; whether there shall be another."""
        self._epochs.append(epoch)
        error = epoch.validation_error if epoch.kappa <= self._terminal else math.inf
        self.course.append(min(error, self.course[-1] if self.course else math.inf))
        self.end = self._watch(self._epochs, self.course)
        return self.end is None

    def look(self, epoch: Epoch) -> None:
        """The same for a training that is alone."""
        if not self.goes_on(epoch):
            raise _Stopped

    def unfinished(self) -> Outcome:
        """The outcome where there is nothing to show: the watch ended the training, or else it diverged."""
        return Outcome(self.end or "diverged", tuple(self.course))


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
        self._gate_features: dict[tuple[float, ...], WhitenedFeatures] = {}

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
        prepared = self._ready(candidate, begin, untrained=untrained)
        entry = self._entry(candidate, begin)
        lane = _lane(entry, watch)
        try:
            trained = Trainer(prepared.responses, entry.gate, entry.settings, *self._generators()).run(lane.look)
        except (_Stopped, ValueError):  # the options were checked before: only a divergence is left
            return lane.unfinished()
        return _finished(prepared, trained, lane.course)

    def run_together(
        self,
        candidates: Sequence[MixtureSettings],
        watch: Watch = in_full,
        *,
        begin: State | None = None,
        untrained: bool = False,
    ) -> list[Outcome]:
        """The same for several candidates that can train together."""
        self.left -= len(candidates)
        prepared = self._ready(candidates[0], begin, untrained=untrained)
        entries = [self._entry(candidate, begin) for candidate in candidates]
        lanes = [_lane(entry, watch) for entry in entries]
        trainer = JointTrainer(prepared.responses, entries, *self._generators())
        outcomes = []
        for trained, lane in zip(trainer.run(lambda number, epoch: lanes[number].goes_on(epoch)), lanes, strict=True):
            if trained is None:
                outcomes.append(lane.unfinished())
                continue
            prepared.put_back(trained.experts)
            outcomes.append(_finished(prepared, trained.gate, lane.course))
        return outcomes

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed)

    def _generators(self) -> tuple[torch.Generator, torch.Generator]:
        """Of the orders, the same for candidates without noise, and of the noise."""
        return self._generator(), torch.Generator().manual_seed(self._seed + 1)

    def _ready(self, candidate: MixtureSettings, begin: State | None, *, untrained: bool) -> _Prepared:
        key = tuple(candidate.bandwidths.tolist()), untrained
        if key not in self._prepared:
            while len(self._prepared) >= LADDERS_KEPT:
                del self._prepared[next(iter(self._prepared))]
            responses = sparse_responses(self._data, self._start_at, candidate, self._generator())
            self._prepared[key] = _Prepared(responses, untrained=untrained)
        self._prepared[key] = self._prepared.pop(key)  # the last used is the last to go
        self._prepared[key].put_back(None if begin is None else begin.experts)
        return self._prepared[key]

    def _entry(self, candidate: MixtureSettings, begin: State | None) -> Candidate:
        gate = self._uniform_gate(candidate) if begin is None else _copied(begin.gate, candidate)
        return Candidate(gate, _shortened(candidate.training))

    def _uniform_gate(self, candidate: MixtureSettings) -> SoftmaxGate:
        width = candidate.gate_bandwidth
        width = GATE_WIDTH * self._start_at.global_bandwidth if width is None else width
        key = tuple(width.flatten().tolist())
        if key not in self._gate_features:
            points = self._data.known()
            self._gate_features[key] = gate_features_at(points, width, candidate, self._generator())
        features = self._gate_features[key]
        return SoftmaxGate.uniform(features, n_experts=len(candidate.bandwidths), scale=candidate.gate_scale)


def can_train_together(candidates: Sequence[MixtureSettings]) -> bool:
    """Whether there are several, of one ladder, with steps whose gradients are known in closed form."""
    return len(candidates) > 1 and all(
        torch.equal(candidate.bandwidths, candidates[0].bandwidths)
        and candidate.covariance is zero_covariance
        and _shortened(candidate.training).objective is elbo
        for candidate in candidates
    )


def _lane(entry: Candidate, watch: Watch) -> _Lane:
    return _Lane(watch, min(entry.settings.kappa, len(entry.gate.means)))


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
