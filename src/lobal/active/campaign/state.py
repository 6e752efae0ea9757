"""The points of a campaign, what became of them, and the density they follow: in memory, or in a folder as well."""

import logging
import os
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.history import History, Step
from lobal.active.campaign.ledger import Event, Ledger
from lobal.active.campaign.storage import StepState, Stored, create_campaign, left_by
from lobal.active.failures import label_share
from lobal.active.scoring import positive
from lobal.core.density import density_at, normalised
from lobal.mixture.estimator import SMALLEST_TRAINING_SET

logger = logging.getLogger(__name__)

LAST = 1e-12  # weight of points that come when no others are left, relative to the largest


@final
class State:
    """What a campaign knows; every event is on disk, where there is a folder, before it counts.

    Attributes:
        begun: what the campaign was begun with.
        ledger: who was asked for, who has answered, who failed.
        history: the steps so far.
        density: p_k, at the candidates.
        complexity: LFC of the step before, at the candidates; none before there is one.
    """

    def __init__(self, begun: Stored) -> None:
        self.begun = begun
        self.candidates = begun.candidates
        self.ledger = Ledger(self.candidates.X.shape[1])
        self.history = History(())
        self.density = self.candidates.test_density.clone()  # p_0 <- q
        self.complexity: Float[Tensor, " N"] | None = None
        self._campaign: Campaign | None = None
        # What `save` would need, as long as nothing is kept on disk.
        self._events: list[Event] = []
        self._last: StepState | None = None

    @property
    def is_box(self) -> bool:
        """Whether points are inputs in a box rather than rows of a pool."""
        return self.candidates.cell is not None

    @property
    def is_kept(self) -> bool:
        """Whether there is a folder."""
        return self._campaign is not None

    # Points.

    def points(self, numbers: list[int]) -> Int[ndarray, " n"] | Float[ndarray, "n d"]:
        """Points by number, as a user knows them: rows of a pool, inputs in a box."""
        return self.ledger.inputs(numbers) if self.is_box else self.ledger.candidates(numbers)

    def check_left(self, n: int) -> None:
        """Refuse to ask for more points than a pool has left."""
        total = len(self.candidates)
        left = total - len(self.ledger.used_candidates)
        if n > left and not self.is_box:
            raise ValueError(
                f"{n} points are asked for, but only {left} of the pool's {total} are left; ask for fewer or begin "
                "with a larger pool"
            )

    def weights(self, proposal: Float[Tensor, " N"], n: int) -> Float[Tensor, " N"]:
        """Importance weights of n candidates: a pool's points never twice, a box's cells as often as need be."""
        weights = proposal / self.candidates.pool_density
        used = torch.as_tensor([] if self.is_box else self.ledger.used_candidates, dtype=torch.long)
        weights[used] = 0.0
        if int((weights > 0).sum()) < (1 if self.is_box else n):
            # Where there are labels enough no more are proposed; those points come when no others are left.
            wanted = self.candidates.test_density > 0
            weights[wanted] = weights[wanted].clamp_min(LAST * max(1.0, weights.max().item()))
            weights[used] = 0.0
        return weights

    def enter(self, candidates: list[int], inputs: Float[ndarray, "n d"]) -> list[int]:
        """The numbers of points; those that are new enter the campaign."""
        points = list(zip(candidates, map(tuple, inputs.tolist()), strict=True))
        new = list(dict.fromkeys(point for point in points if self._number(*point) is None))
        if new:
            entering = {"candidates": [candidate for candidate, _ in new], "inputs": [list(x) for _, x in new]}
            self._note({"event": "added", **entering})
        return [number for point in points if (number := self._number(*point)) is not None]

    def tell(self, numbers: list[int], labels: Float[ndarray, " n"]) -> None:
        """Labels of points; those that are not finite are failures, unless the point has a label already."""
        finite = np.isfinite(labels)
        good = [number for number, is_good in zip(numbers, finite, strict=True) if is_good]
        if good:
            self._note({"event": "told", "points": good, "labels": labels[finite].tolist()})
        bad = [number for number, is_good in zip(numbers, finite, strict=True) if not is_good]
        bad = [number for number in bad if self.ledger.entries[number].is_pending]
        if bad:
            self._note({"event": "failed", "points": bad})

    def go_on(self, step: Step, inputs: Float[ndarray, "n d"], left: StepState) -> None:
        """A step: what it leaves to the next is on disk before its points are asked for."""
        if self._campaign is not None:
            left.keep(self._campaign)
        self._note({"event": "asked", "step": step.to_fields(), "candidates": step.indices, "inputs": inputs.tolist()})
        self.density, self.complexity = left.density, left.complexity
        self._last = left if self._campaign is None else None

    def labelled_density(self) -> Float[Tensor, " n"]:
        """p_k at the labelled points, less where failures are frequent: the density of the labels themselves."""
        X, _, candidate = self.ledger.observations()
        density = self.density[torch.as_tensor(candidate)]
        drawn, is_labelled = self.ledger.outcomes()
        if (~is_labelled).sum() < SMALLEST_TRAINING_SET:
            return density
        return density * torch.as_tensor(label_share(X, drawn, is_labelled))

    def inducing_weights(self) -> Float[ndarray, " n"] | None:
        """sqrt(LFC / p_k) at the labelled points, which weighed so follow sqrt(p_k LFC); none without an LFC."""
        if self.complexity is None:
            return None
        rows = torch.as_tensor(self.ledger.observations().candidate)
        return (self.complexity[rows] / positive(self.labelled_density())).sqrt().numpy()

    def _number(self, candidate: int, x: tuple[float, ...]) -> int | None:
        return self.ledger.number_at(x) if self.is_box else self.ledger.number_of_candidate(candidate)

    # Events.

    def _note(self, event: Event) -> None:
        """An event: on disk first, then in force."""
        density = self._density_after(event)  # takes time, and whoever interrupts it has not been told anything
        if self._campaign is None:
            self._events.append(event)
        else:
            self._campaign.append(event)
        self.density = density
        self._take(event)

    def _take(self, event: Event) -> None:
        self.ledger.apply(event)
        if event["event"] == "asked":
            self.history = History((*self.history.steps, Step.from_fields(event["step"])))

    def _density_after(self, event: Event) -> Float[Tensor, " N"]:
        """p_k once the event is in force; a step says by itself what it leaves."""
        if event["event"] != "added":
            return self.density
        n, b = self.ledger.n_drawn, len(event["candidates"])
        return (n * self.density + b * self._density_of(event["inputs"])) / (n + b)

    def _density_of(self, inputs: list[list[float]]) -> Float[Tensor, " N"]:
        """The density of points nobody asked for: estimated, or taken to be the test density if they are few."""
        if len(inputs) < SMALLEST_TRAINING_SET:
            return self.candidates.test_density
        generator = torch.Generator().manual_seed(self.begun.settings["seed"])
        estimate = density_at(self.candidates.X, of=np.array(inputs), generator=generator)
        return normalised(estimate, self.candidates.pool_density)

    # Keeping it.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a folder, and keep it up to date from then on."""
        if self._campaign is not None:
            raise ValueError(f"this campaign is kept in {self._campaign.path} already, up to its last event")
        self._campaign = create_campaign(path, self.begun, self._events, self._last)
        if len(self.history) > 1:
            logger.warning(
                "%s has the points and labels of all %d steps, but density and model of the last only; give a path to "
                "ActiveLearner to keep those of every step",
                self._campaign.path,
                len(self.history),
            )
        self._events, self._last = [], None

    def close(self) -> None:
        """Let go of the folder."""
        if self._campaign is not None:
            self._campaign.close()

    @staticmethod
    def kept_in(campaign: Campaign, begun: Stored) -> "State":
        """The state after the campaign's last event."""
        state = State(begun)
        state._campaign = campaign
        steps = [i for i, event in enumerate(campaign.events) if event["event"] == "asked"]
        past = steps[-1] + 1 if steps else 0
        for event in campaign.events[:past]:
            state._take(event)
        if steps:
            left = left_by(campaign, len(steps) - 1)
            state.density, state.complexity = left.density, left.complexity
        for event in campaign.events[past:]:
            state.density = state._density_after(event)
            state._take(event)
        return state
