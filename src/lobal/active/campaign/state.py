"""The points of a campaign, what became of them, and the density they follow: in memory, or in a folder as well."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.folder import JOURNAL, Campaign, LostEventsError
from lobal.active.campaign.history import STEP, History, Step
from lobal.active.campaign.journal import NOTHING
from lobal.active.campaign.ledger import GROWN, Event, Ledger, Observations, with_nulls
from lobal.active.campaign.pools import FIELDS, Pools, grown_event
from lobal.active.campaign.steps import Setup, StepState, create_campaign, has_label_since, model_of_last_step, n_kept
from lobal.active.campaign.undoing import CONTINUES, impossible, in_force, last_call, n_steps, sentence_of, undoing
from lobal.active.candidates import Batch, Candidates, Points, UserInput
from lobal.active.draws import LAST
from lobal.active.surrogate import FittedSurrogate
from lobal.core.density import normalised
from lobal.core.interrupts import Uninterrupted

logger = logging.getLogger(__name__)

SMALLEST_TRAINING_SET = 10  # labels; fewer say nothing about bandwidths, densities or failures


class Revision(NamedTuple):
    """How far a campaign has come: what was computed at another revision is out of date."""

    told: int = 0  # events that brought labels
    events: int = 0  # all that are in force
    grown: int = 0  # events that brought other candidates


@final
class CampaignState:
    """What a campaign knows; where there is a folder, every event is on disk before it counts.

    Whoever reads or changes it holds `lock`. Between an event on disk and the event in force nothing is interrupted by
    Ctrl-C; if something else comes between, memory error or exception of another thread, the state refuses to go on.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.candidates = (
            setup.candidates
        )  # the present ones; while events are replayed, before the last growth, the first
        self._n_candidates = len(self.candidates)  # at any time
        self.ledger = Ledger(
            self.candidates.n_columns,
            is_box=self.candidates.is_box,
            keeps_repeats=self.candidates.keeps_repeats,
            allows_gaps=self.candidates.allows_gaps,
        )
        self.history = History()
        # p_k, points told since the last step included; p_0 before the first.
        self.density = self.candidates.initial_density.clone()
        self.last = StepState(number=-1, density=self.density, complexity=None)
        self.revision = Revision()
        self.lock = threading.RLock()
        self._campaign: Campaign | None = None
        self._events: list[Event] = []  # what `save` needs as long as nothing is on disk
        self._left: dict[int, StepState] = {}  # by the last steps, likewise
        self.events_in_force: list[Event] = []
        self._n_before = 0  # events that the folder had before, where an earlier format has other ones

    @property
    def is_saved(self) -> bool:
        """Whether there is a folder."""
        return self._campaign is not None

    # Points.

    def points(self, numbers: Sequence[int]) -> Points:
        """Candidates and recorded inputs of points by number."""
        return self.ledger.candidates(numbers).tolist(), self.ledger.inputs(numbers)

    def locate(self, batch: UserInput) -> Points:
        """Points as a user gives them; those that nearly equal pending ones may be these."""
        ledger, is_box = self.ledger, self.candidates.is_box
        return self.candidates.locate_among(
            batch, lambda: self.points(ledger.pending), lambda x: is_box and ledger.number(-1, x) is not None
        )

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Points by number, as a user knows them."""
        return self.candidates.batch(self.ledger.candidates(numbers), self.ledger.inputs(numbers))

    def model_inputs(self, numbers: Sequence[int]) -> ndarray:
        """Points by number, as models take them."""
        return self.candidates.model_inputs(self.ledger.candidates(numbers), self.ledger.inputs(numbers))

    def oracle_inputs(self, numbers: Sequence[int]) -> Batch:
        """Points by number, as oracles take them."""
        return self.candidates.oracle_inputs(self.ledger.candidates(numbers), self.ledger.inputs(numbers))

    def observations(self) -> Observations:
        """All labels with their points."""
        numbers, labels = self.ledger.labelled()
        return Observations(self.model_inputs(numbers), labels, self.ledger.candidates(numbers))

    def cost_of(self, numbers: Sequence[int]) -> float:
        """What points by number cost together."""
        return self.candidates.cost_of(self.ledger.candidates(numbers).tolist())

    def is_under_way(self, size: int) -> bool:
        """Whether a run, this one or one that was interrupted, has asked for its points to that size.

        Not if all of them were given up, so that others are asked for.
        """
        asked = max((step.target or 0 for step in self.history), default=0)
        batch = self.ledger.last_batch
        return size < asked or (size == asked and not all(self.ledger.entries[number].failed for number in batch))

    @property
    def is_answered(self) -> bool:
        """Whether the oracle of a run is known to work: points of its last batch have labels.

        Few points that make up for failures may all fail by chance, so that labels of the batch before them count.
        """
        batches, steps = self.ledger.batches, self.history.steps
        if not steps or steps[-1].target is None or len(batches[-1]) >= SMALLEST_TRAINING_SET:
            return bool(self.ledger.has_label(self.ledger.last_batch).any())
        same = [batch for batch, step in zip(batches, steps, strict=True) if step.target == steps[-1].target]
        return any(self.ledger.has_label(batch).any() for batch in same)

    def n_left(self, n: int) -> int:
        """How many of n points can be asked for."""
        return n if self.candidates.is_box else min(n, len(self.candidates) - len(self.ledger.used_candidates))

    def check_left(self, n: int) -> None:
        """Refuse to ask for more points than a pool has left."""
        total, left = len(self.candidates), self.n_left(n)
        if n > left:
            raise ValueError(
                f"{n} points are asked for, but only {left} of the pool's {total} are left; ask for fewer or begin "
                "with a larger pool"
            )

    def weights(self, proposal: Float[Tensor, " N"], n: int) -> Float[Tensor, " N"]:
        """Importance weights of n candidates: a pool's points never twice, a box's cells as often as need be."""
        is_box = self.candidates.is_box
        weights = proposal / self.candidates.pool_density
        used = torch.as_tensor([] if is_box else self.ledger.used_candidates, dtype=torch.long)
        weights[used] = 0.0
        if int((weights > 0).sum()) < (1 if is_box else n):
            # Where there are labels enough no more are proposed; those points come when no others are left.
            wanted = self.candidates.test_density > 0
            weights[wanted] = weights[wanted].clamp_min(LAST * max(1.0, weights.max().item()))
            weights[used] = 0.0
        return weights

    def enter(self, points: Points, labels: Float[ndarray, "n *label"] | None = None) -> list[int]:
        """The numbers of points; those that are new enter the campaign. Their labels are kept if that is refused."""
        pairs = _pairs(points)
        new = list(dict.fromkeys(pair for pair in pairs if self.ledger.number(*pair) is None))
        if new:
            entering = {"candidates": [candidate for candidate, _ in new], "inputs": [list(x) for _, x in new]}
            told = (
                {} if labels is None else {"candidates": points[0], "inputs": points[1], "labels": with_nulls(labels)}
            )
            self._append({"event": "added", **entering}, following=told)
        return self.known(points)

    def has(self, numbers: Sequence[int], points: Points) -> bool:
        """Whether these are the points of these numbers: others may have them once a step was undone."""
        entries, last = self.ledger.entries, max(numbers, default=-1)
        found = [(entries[number].candidate, entries[number].x) for number in numbers] if last < len(entries) else None
        return found == _pairs(points)

    def known(self, points: Points) -> list[int]:
        """The numbers of those points that the campaign has."""
        return [number for pair in _pairs(points) if (number := self.ledger.number(*pair)) is not None]

    def tell_points(self, points: Points, labels: Float[ndarray, "n *label"]) -> None:
        """Record labels of points by what they are; those that are new enter the campaign."""
        with Uninterrupted():
            before, numbers = self.ledger.n_drawn, self.enter(points, labels)
            self.tell(numbers, labels, continues=self.ledger.n_drawn > before)

    def tell(self, numbers: Sequence[int], labels: Float[ndarray, "n *label"], *, continues: bool = False) -> None:
        """Record labels of points; where there is none, the point failed, unless it has a label already.

        It `continues` the event before it if a single call made both.
        """
        is_label, points = self.candidates.has_label(labels), np.array(numbers, dtype=np.int64)
        with Uninterrupted():
            if is_label.any():
                told = {"points": points[is_label].tolist(), "labels": with_nulls(labels[is_label])}
                self._append({"event": "told", **told}, continues=continues)
            self.fail(points[~is_label].tolist(), continues=continues or bool(is_label.any()))

    def fail(self, numbers: Sequence[int], *, continues: bool = False) -> None:
        """Record that pending points have no label and will have none; others stay as they are."""
        bad = [number for number in numbers if self.ledger.entries[number].is_pending]
        if bad:
            self._append({"event": "failed", "points": bad}, continues=continues)

    def add_step(self, step: Step, inputs: Float[ndarray, "n d"], state: StepState) -> None:
        """Record a step: what it leaves to the next is on disk before its points are asked for."""
        with Uninterrupted():
            if self._campaign is not None:
                state.save(self._campaign, keep_models=self.setup.settings.keep_models)
            inputs_asked = {"candidates": list(step.indices), "inputs": inputs.tolist()}
            self._append({"event": "asked", "step": step.to_fields(), **inputs_asked}, leaves=state)

    def grow(self, candidates: Candidates, about: Mapping[str, Any]) -> None:
        """Let other candidates take the place of those nobody has asked for; the points so far are the first of them.

        The density p_k is estimated from these points, and what the last step said of the other candidates forgotten.
        """
        self.check_whole()
        event = {**grown_event(self.revision.grown + 1, candidates), "about": dict(about)}
        self.ledger.check(event, len(candidates))
        density = self._estimated(candidates, range(self.ledger.n_drawn))
        with Uninterrupted():
            if self._campaign is not None:
                self._campaign.save_pool(event["pool"], candidates.to_tensors()[0])
            event = self._record(event)
            self._left = {}
            self._replace_candidates(candidates, density)
            self._apply(event)

    def _replace_candidates(self, candidates: Candidates, density: Float[Tensor, " N"]) -> None:
        self.candidates, self.density = candidates, density
        self.last = replace(self.last, density=density, complexity=None)

    def labelled_density(self) -> Float[Tensor, " n"]:
        """p_k at the labelled points, less where failures are frequent: the density of the labels themselves."""
        numbers, _ = self.ledger.labelled()
        density = self.density[torch.as_tensor(self.ledger.candidates(numbers))]
        answered = self.ledger.answered
        has_label = self.ledger.has_label(answered)
        if (~has_label).sum() < SMALLEST_TRAINING_SET:
            return density
        share = self.candidates.label_share(self.points(numbers), self.points(answered), has_label)
        return density * torch.as_tensor(share)

    # Events.

    def check_whole(self) -> None:
        """Refuse to go on from an event that is recorded, but was interrupted before it was in force."""
        recorded = len(self._events) if self._campaign is None else len(self._campaign.events) - self._n_before
        if recorded != self.revision.events:
            path = None if self._campaign is None else self._campaign.path
            advice = "save it to a new folder and load that" if path is None else f"close it and load {path} again"
            raise RuntimeError(f"the campaign in memory was cut short while it recorded an event; {advice}")

    def _append(
        self,
        event: Event,
        leaves: StepState | None = None,
        *,
        continues: bool = False,
        following: Mapping[str, Any] = NOTHING,
    ) -> None:
        """An event: on disk first, then in force. A step says what it leaves, an entry what is to follow."""
        self.check_whole()
        event = event | ({CONTINUES: True} if continues else {})
        self.ledger.check(event, len(self.candidates))
        density = self._density_after(event)  # may take a while, and nothing is recorded if it is interrupted
        with Uninterrupted():
            event = self._record(event, following)
            self.density = density if leaves is None else leaves.density
            if leaves is not None:
                self._keep(leaves)
            self._apply(event)

    def _record(self, event: Event, following: Mapping[str, Any] = NOTHING) -> Event:
        """The event with the time, on disk or, where there is no folder, to be written later."""
        timed = event | {"time": max(0.0, round(time.time(), 3))}  # clocks may be wrong
        if self._campaign is None:
            self._events.append(timed)
        else:
            self._campaign.append(timed, following)
        return timed

    def _keep(self, leaves: StepState) -> None:
        """What a step leaves is the last; in memory, some before it are kept as files of a folder are."""
        if self._campaign is None:
            before, keep = self._left.get(leaves.number - 2), n_kept(len(self.candidates))
            kept = {number: left for number, left in self._left.items() if number > leaves.number - keep}
            without_model = {} if before is None else {before.number: replace(before, fitted=None)}
            self._left = {**kept, **without_model, leaves.number: leaves}
        self.last = leaves

    def undo(self) -> str:
        """Take back the events of the last call, on disk first; returns what they were, in words."""
        self.check_whole()
        call = last_call(self.events_in_force)
        left = self.events_in_force[: -len(call)]
        last = self._left_by(n_steps(left) - 1)
        before, pools = CampaignState(self.setup), Pools(total=self.revision.grown, last=self.candidates)
        for event in left:
            before._replay(event, n_steps(left), lambda: last, pools)
        with Uninterrupted():
            self._record(undoing(call))
            self.ledger, self.history, self.density = before.ledger, before.history, before.density
            self.last, self.events_in_force = last if n_steps(left) else before.last, left
            self.revision = Revision(self.revision.told + 1, self.revision.events + 1, self.revision.grown)
        return sentence_of(call)

    def _left_by(self, number: int) -> StepState:
        """What a step left, exactly."""
        if number in (-1, self.last.number):
            return self.last
        try:
            return (
                self._left[number]
                if self._campaign is None
                else StepState.load(self._campaign, number, len(self.candidates))
            )
        except (KeyError, ValueError, FileNotFoundError) as error:
            raise ValueError(
                f"the last ask cannot be undone: what was known after step {number} is not kept any more (that of the "
                f"last {n_kept(len(self.candidates))} steps is, if this version took them); to do without its points, "
                "learner.give_up()"
            ) from error

    def _apply(self, event: Event) -> None:
        self.ledger.apply(event)
        self.events_in_force.append(event)
        if event["event"] == "asked":
            self.history = History((*self.history.steps, Step.from_fields(event["step"])))
        if event["event"] == GROWN:
            self._n_candidates = event["n"]
        told, events, grown = self.revision
        self.revision = Revision(told + (event["event"] == "told"), events + 1, grown + (event["event"] == GROWN))

    def _density_after(self, event: Event) -> Float[Tensor, " N"]:
        """p_k once the event is in force; a step says by itself what it leaves."""
        if event["event"] != "added":
            return self.density
        n, b = self.ledger.n_drawn, len(event["candidates"])
        return (n * self.density + b * self._density_of(event)) / (n + b)

    def _density_of(self, event: Event) -> Float[Tensor, " N"]:
        """The density of points nobody asked for."""
        return self._estimated_at(self.candidates, event["candidates"], self._inputs_of(event))

    def _inputs_of(self, event: Event) -> Float[ndarray, "n d"]:
        """The recorded inputs of the points of an event."""
        shape = len(event["candidates"]), self.candidates.n_columns
        return np.array(event["inputs"], dtype=np.float64).reshape(shape)

    def _estimated(self, candidates: Candidates, numbers: Sequence[int]) -> Float[Tensor, " N"]:
        """The density of points by number, at candidates that are given by the same numbers."""
        return self._estimated_at(candidates, list(numbers), self.ledger.inputs(numbers))

    def _estimated_at(
        self, candidates: Candidates, numbers: list[int], inputs: Float[ndarray, "n d"]
    ) -> Float[Tensor, " N"]:
        """The density of points, estimated from them, or taken to be the test density if they are few."""
        if len(numbers) < SMALLEST_TRAINING_SET:
            return candidates.test_density
        estimate = candidates.density_of(numbers, inputs, self.setup.settings.seed)
        return normalised(estimate, candidates.pool_density)

    # The folder.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a folder, and keep it up to date from then on."""
        if self._campaign is not None:
            raise ValueError(f"this campaign is kept in {self._campaign.path} already, up to its last event")
        left = [self._left[number] for number in sorted(self._left) if number <= self.last.number]
        with Uninterrupted():
            grown = None if self.revision.grown == 0 else (self.revision.grown, self.candidates)
            self._campaign = create_campaign(path, self.setup, self._events, left, grown)
            self._events, self._left = [], {}

    def model_of_last_step(self) -> FittedSurrogate | None:
        """The model that the last step came from, if no label has come since; none also where it is not kept."""
        if self.last.fitted is None and self._campaign is not None:
            return model_of_last_step(self._campaign, self.events_in_force, self.setup.surrogate, self.candidates)
        return None if has_label_since(self.events_in_force) else self.last.fitted

    def close(self) -> None:
        """Release the folder."""
        if self._campaign is not None:
            self._campaign.close()

    @staticmethod
    def opened(campaign: Campaign, setup: Setup, events: Sequence[Event]) -> "CampaignState":
        """The state after the last of the campaign's events.

        Raises:
            ValueError: an event cannot be; names its line.
        """
        state = CampaignState(setup)
        counted = in_force(events, campaign.path / JOURNAL)
        total = n_steps([event for _, event in counted])
        pools = Pools(campaign, total=sum(event.get("event") == GROWN for _, event in counted))
        for number, event in counted:
            try:
                state._replay(event, total, lambda: state._left_by_last_step(campaign, pools), pools)
            except (ValueError, KeyError, TypeError) as error:
                raise impossible(campaign.path / JOURNAL, number, error) from error
        state._campaign, state._n_before = campaign, len(campaign.events) - len(events)
        state.revision = state.revision._replace(events=len(events))
        return state

    def _replay(self, event: Event, total: int, left_by_last_step: Callable[[], StepState], pools: Pools) -> None:
        """Bring an event of the past in force; densities before the last of so many steps do not matter any more."""
        self.ledger.check(event, self._n_candidates)
        if event["event"] in ("asked", "added"):
            self.candidates.check_recorded(self._inputs_of(event))
        if event["event"] == "told":
            labels = self.candidates.labels(event["labels"], len(event["points"]), name="labels")
            if not self.candidates.has_label(labels).all():
                raise ValueError(f"expected a label of every point, got none of {event['points']}")
        if event["event"] == "asked":
            STEP(event.get("step"), "step")
        if event["event"] == GROWN:
            self._replay_growth(event, pools)
        elif len(self.history) == total and self.revision.grown == pools.total:
            self.density = self._density_after(event)
        self._apply(event)
        if event["event"] == "asked":
            if self.history[-1].number != len(self.history) - 1:
                raise ValueError(f"expected step {len(self.history) - 1}, got {self.history[-1].number}")
            if len(self.history) == total:
                self.last = left_by_last_step()
                self.density = self.last.density

    def _replay_growth(self, event: Event, pools: Pools) -> None:
        """The last growth brings its candidates, those before it nothing but their number."""
        FIELDS(event, GROWN)
        number = self.revision.grown + 1
        if event["pool"] != number:
            raise ValueError(f"expected candidates number {number}, got {event['pool']}")
        if number == pools.total:
            drawn = range(self.ledger.n_drawn)
            candidates = pools.load(event, self.ledger.inputs(drawn))
            self._replace_candidates(candidates, self._estimated(candidates, drawn))

    def _left_by_last_step(self, campaign: Campaign, pools: Pools) -> StepState:
        """What the last step left, or as much of it as can be had without its file."""
        number = len(self.history) - 1
        try:
            return StepState.load(campaign, number, self._n_candidates)
        except LostEventsError:
            raise
        except (FileNotFoundError, ValueError, KeyError) as error:
            logger.warning(
                "%s cannot be read (%s): the density of the points so far is estimated anew, and the next points "
                "may be others than with the file",
                campaign.step_path(number),
                error,
            )
            if self.revision.grown < pools.total:  # estimated anew in any case
                return StepState(number=number, density=torch.ones(self._n_candidates), complexity=None)
            numbers, inputs = self.points(range(self.ledger.n_drawn))
            density = self._estimated_at(self.candidates, numbers, inputs)
            return StepState(number=number, density=density, complexity=None)


def _pairs(points: Points) -> list[tuple[int, tuple[float, ...]]]:
    """Candidate and recorded inputs of every point."""
    return list(zip(points[0], map(tuple, points[1].tolist()), strict=True))
