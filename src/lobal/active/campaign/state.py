"""The points of a campaign, what became of them, and the density they follow: in memory, or in a folder as well."""

import os
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.history import History, Step
from lobal.active.campaign.ledger import Event, Ledger, Observations
from lobal.active.campaign.steps import Setup, StepState, create_campaign
from lobal.active.candidates import Points
from lobal.active.draws import LAST
from lobal.active.oracles import is_complete
from lobal.core.density import normalised

SMALLEST_TRAINING_SET = 10  # labels; fewer say nothing about bandwidths, densities or failures


@final
class CampaignState:
    """What a campaign knows; where there is a folder, every event is on disk before it counts."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.candidates = setup.candidates
        self.ledger = Ledger(
            self.candidates.n_columns, is_box=self.candidates.is_box, keeps_repeats=self.candidates.keeps_repeats
        )
        self.history = History()
        # p_k, points told since the last step included; p_0 before the first.
        self.density = self.candidates.initial_density.clone()
        self.last = StepState(number=-1, density=self.density, complexity=None)
        self._campaign: Campaign | None = None
        self._events: list[Event] = []  # what `save` needs as long as nothing is on disk

    @property
    def is_saved(self) -> bool:
        """Whether there is a folder."""
        return self._campaign is not None

    # Points.

    def points(self, numbers: Sequence[int]) -> Points:
        """Candidates and recorded inputs of points by number."""
        return self.ledger.candidates(numbers).tolist(), self.ledger.inputs(numbers)

    def batch(self, numbers: Sequence[int]) -> ndarray:
        """Points by number, as a user knows them."""
        return self.candidates.batch(self.ledger.candidates(numbers), self.ledger.inputs(numbers))

    def model_inputs(self, numbers: Sequence[int]) -> ndarray:
        """Points by number, as models and oracles take them."""
        return self.candidates.model_inputs(self.ledger.candidates(numbers), self.ledger.inputs(numbers))

    def observations(self) -> Observations:
        """All labels with their points."""
        numbers, labels = self.ledger.labelled()
        return Observations(self.model_inputs(numbers), labels, self.ledger.candidates(numbers))

    def check_left(self, n: int) -> None:
        """Refuse to ask for more points than a pool has left."""
        total = len(self.candidates)
        left = total - len(self.ledger.used_candidates)
        if n > left and not self.candidates.is_box:
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

    def enter(self, points: Points) -> list[int]:
        """The numbers of points; those that are new enter the campaign."""
        pairs = list(zip(points[0], map(tuple, points[1].tolist()), strict=True))
        new = list(dict.fromkeys(pair for pair in pairs if self.ledger.number(*pair) is None))
        if new:
            entering = {"candidates": [candidate for candidate, _ in new], "inputs": [list(x) for _, x in new]}
            self._append({"event": "added", **entering})
        return [number for pair in pairs if (number := self.ledger.number(*pair)) is not None]

    def tell(self, numbers: Sequence[int], labels: Float[ndarray, "n *label"]) -> None:
        """Record labels of points; incomplete ones are failures, unless the point has a label already."""
        complete, points = is_complete(labels), np.array(numbers, dtype=np.int64)
        if complete.any():
            self._append({"event": "told", "points": points[complete].tolist(), "labels": labels[complete].tolist()})
        self.fail(points[~complete].tolist())

    def fail(self, numbers: Sequence[int]) -> None:
        """Record that pending points have no label and will have none; others stay as they are."""
        bad = [number for number in numbers if self.ledger.entries[number].is_pending]
        if bad:
            self._append({"event": "failed", "points": bad})

    def add_step(self, step: Step, inputs: Float[ndarray, "n d"], state: StepState) -> None:
        """Record a step: what it leaves to the next is on disk before its points are asked for."""
        if self._campaign is not None:
            state.save(self._campaign)
        self._append(
            {"event": "asked", "step": step.to_fields(), "candidates": step.indices, "inputs": inputs.tolist()}
        )
        self.density, self.last = state.density, state

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

    def _append(self, event: Event) -> None:
        """An event: on disk first, then in force."""
        density = self._density_after(event)  # may take a while, and nothing is recorded if it is interrupted
        if self._campaign is None:
            self._events.append(event)
        else:
            self._campaign.append(event)
        self.density = density
        self._apply(event)

    def _apply(self, event: Event) -> None:
        self.ledger.apply(event)
        if event["event"] == "asked":
            self.history = History((*self.history.steps, Step.from_fields(event["step"])))

    def _density_after(self, event: Event) -> Float[Tensor, " N"]:
        """p_k once the event is in force; a step says by itself what it leaves."""
        if event["event"] != "added":
            return self.density
        n, b = self.ledger.n_drawn, len(event["candidates"])
        return (n * self.density + b * self._density_of(event)) / (n + b)

    def _density_of(self, event: Event) -> Float[Tensor, " N"]:
        """The density of points nobody asked for: estimated, or taken to be the test density if they are few."""
        numbers = event["candidates"]
        if len(numbers) < SMALLEST_TRAINING_SET:
            return self.candidates.test_density
        inputs = np.array(event["inputs"], dtype=np.float64).reshape(len(numbers), self.candidates.n_columns)
        estimate = self.candidates.density_of(numbers, inputs, self.setup.settings.seed)
        return normalised(estimate, self.candidates.pool_density)

    # The folder.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a folder, and keep it up to date from then on."""
        if self._campaign is not None:
            raise ValueError(f"this campaign is kept in {self._campaign.path} already, up to its last event")
        last = self.last if len(self.history) else None
        self._campaign = create_campaign(path, self.setup, self._events, last)
        self._events = []

    def close(self) -> None:
        """Release the folder."""
        if self._campaign is not None:
            self._campaign.close()

    @staticmethod
    def opened(campaign: Campaign, setup: Setup, events: Sequence[Event]) -> "CampaignState":
        """The state after the last of the campaign's events."""
        state = CampaignState(setup)
        state._campaign = campaign
        steps = [position for position, event in enumerate(events) if event["event"] == "asked"]
        past = steps[-1] + 1 if steps else 0
        for event in events[:past]:
            state._apply(event)
        if steps:
            state.last = StepState.load(campaign, len(steps) - 1)
            state.density = state.last.density
        for event in events[past:]:
            state.density = state._density_after(event)
            state._apply(event)
        return state
