"""The active learner: Algorithm 1, asked and told.

Everything random at step k is seeded by the campaign's seed and k, and every event is on disk before it counts, so a
campaign that dies at any instant goes on where it stopped and asks for the same points.
"""

import logging
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.base import clone
from torch import Tensor

from lobal.density import LARGEST_SAMPLE, density_at, importance_weights, normalised
from lobal.density import intrinsic_dimension as estimated_dimension
from lobal.estimator import SMALLEST_TRAINING_SET, MixtureRegressor, plain_parameters
from lobal.problems.oracles import labels_as_they_come
from lobal.problems.spaces import Box, Oracle, Pool
from lobal.record import Campaign, Event, History, Ledger, Observations, Step, load_record, save_record
from lobal.sampling import (
    Candidates,
    Draw,
    NextDensity,
    candidates_from,
    candidates_of,
    candidates_tensors,
    draw_low_dispersion,
    draw_random,
    located,
    next_density,
    place,
    with_exploration,
)
from lobal.scoring import Scores, positive

logger = logging.getLogger(__name__)

DRAWS: dict[str, Draw] = {"random": draw_random, "low_dispersion": draw_low_dispersion}
CANDIDATES_FILE = "candidates.lobal"

StoppingRule: TypeAlias = Callable[["ActiveLearner"], bool]
Callback: TypeAlias = Callable[["ActiveLearner"], None]


@final
class ActiveLearner:
    """Decides which points to label next, so that the whole training set follows the superior training density.

    Args:
        space: a `Pool` of candidates or a `Box` to choose from.
        seed: of everything random.
        path: folder to keep the campaign in, step by step; without it nothing is written until `save`.
        model: an unfitted `MixtureRegressor` whose options every fit takes; by default one without options.
        validation: inputs and labels that steer the fits and are used for nothing else.
        smoothness: alpha of the target.
        intrinsic_dimension: delta of the inputs; estimated from a pool, the number of columns of a box.
        exploration: share of the test density in what the learner aims for, so that no region starves on the evidence
            of a handful of labels.
        draw: "random" as in the paper, or "low_dispersion" for evenly spread draws of the same density.
    """

    def __init__(
        self,
        space: Pool | Box,
        *,
        seed: int = 0,
        path: str | os.PathLike[str] | None = None,
        model: MixtureRegressor | None = None,
        validation: tuple[Any, Any] | None = None,
        smoothness: float = math.inf,
        intrinsic_dimension: float | None = None,
        exploration: float = 0.1,
        draw: str = "random",
    ) -> None:
        candidates = candidates_of(space, seed=seed)
        template = MixtureRegressor() if model is None else clone(model)
        self.settings: dict[str, Any] = {
            "seed": seed,
            "smoothness": smoothness,
            "intrinsic_dimension": _dimension(candidates, seed) if intrinsic_dimension is None else intrinsic_dimension,
            "exploration": exploration,
            "draw": draw,
            "model": plain_parameters(template),
        }
        self._set_up(candidates, template, validation)
        if path is not None:
            self.save(path)

    def _set_up(self, candidates: Candidates, template: MixtureRegressor, validation: tuple[Any, Any] | None) -> None:
        if self.settings["draw"] not in DRAWS:
            raise ValueError(f"draw must be one of {sorted(DRAWS)}, got {self.settings['draw']!r}")
        if not 0.0 <= self.settings["exploration"] <= 1.0:
            raise ValueError(f"exploration must lie between zero and one, got {self.settings['exploration']}")
        self.candidates = candidates
        self._scores = Scores(
            candidates=candidates,
            smoothness=float(self.settings["smoothness"]),
            dimension=float(self.settings["intrinsic_dimension"]),
        )
        self.validation = validation
        self.history = History(())
        self._template = template
        self._ledger = Ledger(candidates.X.shape[1])
        self._events: list[Event] = []
        self._density = candidates.test_density.clone()  # p_0 <- q
        self._complexity: Float[Tensor, " N"] | None = None  # LFC of the step before, at the candidates
        self._model: MixtureRegressor | None = None
        self._campaign: Campaign | None = None

    # Asking and telling.

    def ask(self, n: int) -> Int[ndarray, " n"] | Float[ndarray, "n d"]:
        """The next n points to label: row numbers of a pool, inputs in a box.

        One pass through the loop of Algorithm 1. The points are pending until they are told; whoever asks again before
        that gets others, chosen as if the pending ones were labelled.
        """
        if n < 1:
            raise ValueError(f"ask for at least one point, got {n}")
        generator = torch.Generator().manual_seed(self._step_seed())
        following = self._following(n)
        # Before there is a model: X_n0 ~ p_0 = q.
        weights = self._weights(self._density if following is None else following.proposal)
        indices = DRAWS[self.settings["draw"]](weights, self.candidates.X, n, generator=generator)
        inputs = place(self.candidates, indices, generator=generator)
        step = Step(
            number=len(self.history),
            size=self._ledger.size,
            batch=n,
            indices=tuple(indices.tolist()),
            gamma_1=None if following is None else following.gamma_1,
            gamma_2=None if following is None else following.gamma_2,
            **self._findings(),
        )
        self._density = self._density if following is None else following.density
        self._keep_state(step.number)
        self._note({"event": "asked", "step": step.to_fields(), "candidates": step.indices, "inputs": inputs.tolist()})
        return inputs if self.is_box else indices.numpy()

    def tell(self, batch: Any, labels: Any) -> None:  # noqa: ANN401 - array-likes of any kind are welcome
        """Take labels of points: row numbers of a pool, or inputs in a box, in any order and number.

        NaN or infinite labels are failures: the point is neither learned from nor asked for again. A point may be
        told more than once, and points nobody asked for are welcome.
        """
        values = np.atleast_1d(np.asarray(labels, dtype=np.float64))
        candidates, inputs = located(self.candidates, batch)
        if values.shape != (len(candidates),):
            raise ValueError(f"{len(candidates)} points need as many labels, got labels of shape {values.shape}")
        numbers = self._numbers(candidates, inputs)
        finite = np.isfinite(values)
        if finite.any():
            good = [number for number, is_good in zip(numbers, finite, strict=True) if is_good]
            self._note({"event": "told", "points": good, "labels": values[finite].tolist()})
        bad = [number for number, is_good in zip(numbers, finite, strict=True) if not is_good]
        self._fail([number for number in bad if self._ledger.entries[number].is_pending])

    def run(
        self,
        oracle: Oracle,
        *,
        sizes: Sequence[int],
        executor: Executor | None = None,
        points_per_call: int | None = None,
        stop: Sequence[StoppingRule] = (),
        callbacks: Sequence[Callback] = (),
    ) -> History:
        """Ask the oracle until there are sizes[-1] labels, re-estimating at each of the sizes.

        Args:
            oracle: labels (m,) of inputs (m, d). If it raises, or returns NaN, the points it was called with failed.
            sizes: numbers of labels n_0 < n_1 < ... at which the model is estimated anew; those that are there
                already are passed over, so a campaign that was interrupted goes on with the same call.
            executor: where calls run side by side; any `concurrent.futures.Executor`.
            points_per_call: by default one where an executor or a path is given, so that each label is safe as soon
                as it is there, and else the whole batch.
            stop: rules that end the run early, looked at after every size.
            callbacks: called after every size, for progress and pictures.
        """
        if points_per_call is None:
            points_per_call = 1 if executor is not None or self._campaign is not None else max(sizes)
        for size in sizes:
            missing = size - self._ledger.size
            if missing > 0:
                self.ask(missing)
            if self._ledger.pending:
                self._answer(oracle, executor, points_per_call)
                for callback in callbacks:
                    callback(self)
            if any(rule(self) for rule in stop):
                break
        return self.history

    # What is known.

    @property
    def is_box(self) -> bool:
        """Whether points are inputs in a box rather than rows of a pool."""
        return self.candidates.cell is not None

    @property
    def labelled(self) -> Observations:
        """All labels and their inputs, in the order they were asked for."""
        return self._ledger.observations()

    @property
    def pending(self) -> Int[ndarray, " n"] | Float[ndarray, "n d"]:
        """Points asked for whose label is still to come."""
        numbers = self._ledger.pending
        return self._ledger.inputs(numbers) if self.is_box else self._ledger.candidates(numbers)

    @property
    def model(self) -> MixtureRegressor | None:
        """The mixture fitted to all labels so far; none while there are too few."""
        if self._model is None and self._ledger.n_labels >= SMALLEST_TRAINING_SET:
            self._model = self._fit()
        return self._model

    def local_complexity(self) -> Float[ndarray, " N"]:
        """LFC at every candidate, Eq. (eq:approxLFC), up to a constant factor."""
        return self._scored_complexity().numpy()

    def superior_density(self) -> Float[ndarray, " N"]:
        """The superior training density at every candidate, Eq. (eq:approxPOpt), at equal norm with the pool's."""
        return self._superior(self._scored_complexity()).numpy()

    def training_density(self) -> Float[ndarray, " N"]:
        """p_k at every candidate: what the labelled and pending points follow."""
        return self._density.numpy()

    def importance_weights(self) -> Float[ndarray, " n"]:
        """q / p_k at the labelled points: `sample_weight` for any model that is to serve under the test density."""
        rows = torch.as_tensor(self.labelled.candidate)
        return importance_weights(self.candidates.test_density[rows], self._density[rows]).numpy()

    def headroom(self) -> float:
        """The share of random labels that active learning needs for the same error, estimated from the complexity.

        One means there is nothing to gain, one half that half of the labels can be saved. The noise of the estimate
        itself makes it optimistic.
        """
        return self._scores.attainable(self._scored_complexity(), self._scores.noise(self._known_model()))

    # One step of Algorithm 1.

    def _step_seed(self) -> int:
        return int(np.random.SeedSequence([self.settings["seed"], len(self.history)]).generate_state(1)[0])

    def _fit(self) -> MixtureRegressor:
        """Train f_MoE on (X_nk, Y_nk), its inducing points drawn from sqrt(p_k LFC_k-1)."""
        X, y, candidate = self.labelled
        rows = torch.as_tensor(candidate)
        spread = None
        if self._complexity is not None:
            # Points that follow p_k follow sqrt(p_k LFC) when weighed by sqrt(LFC / p_k).
            spread = (self._complexity[rows] / positive(self._density[rows])).sqrt().numpy()
        model: MixtureRegressor = clone(self._template).set_params(
            random_state=self._step_seed(),
            smoothness=self.settings["smoothness"],
            intrinsic_dimension=self.settings["intrinsic_dimension"],
        )
        model.fit(X, y, sample_weight=self.importance_weights(), inducing_weight=spread, validation=self.validation)
        return model

    def _following(self, n: int) -> NextDensity | None:
        """p_k+1 for n more points and the density to draw them from; none before there is a model."""
        if self.model is None:
            return None
        self._complexity = self._scored_complexity()
        target = with_exploration(
            self._superior(self._complexity), self.candidates.test_density, self.settings["exploration"]
        )
        return next_density(self._density, target, self.candidates.pool_density, n=self._ledger.size, b=n)

    def _scored_complexity(self) -> Float[Tensor, " N"]:
        return self._scores.complexity(self._known_model(), self._density)

    def _superior(self, complexity: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        return self._scores.superior(complexity, self._scores.noise(self._known_model()))

    def _weights(self, proposal: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """Importance weights of the candidates: a pool's points never twice, a box's cells as often as need be."""
        weights = proposal / self.candidates.pool_density
        if not self.is_box:
            weights[torch.as_tensor(self._ledger.used_candidates, dtype=torch.long)] = 0.0
        return weights

    def _findings(self) -> dict[str, float | None]:
        """What the model of this step says about itself and about the candidates, for the record."""
        model, complexity = self._model, self._complexity
        if model is None or complexity is None:
            return {"validation_error": None, "noise": None, "attainable": None}
        attainable = self._scores.attainable(complexity, self._scores.noise(model))
        return {"validation_error": model.validation_error_, "noise": model.noise_, "attainable": attainable}

    def _known_model(self) -> MixtureRegressor:
        model = self.model
        if model is None:
            raise ValueError(
                f"the complexity is known from {SMALLEST_TRAINING_SET} labels on, there are {self._ledger.n_labels}; "
                "ask, and tell the labels"
            )
        return model

    # Labels.

    def _answer(self, oracle: Oracle, executor: Executor | None, points_per_call: int) -> None:
        """Label all pending points, each label on disk as soon as it is there."""
        numbers = self._ledger.pending
        calls = [numbers[i : i + points_per_call] for i in range(0, len(numbers), points_per_call)]
        failures: list[tuple[list[int], Exception]] = []
        for call, result in labels_as_they_come(oracle, [self._ledger.inputs(call) for call in calls], executor):
            if isinstance(result, Exception):
                failures.append((calls[call], result))
                continue
            self._tell_numbers(calls[call], result)
        if len(failures) == len(calls):
            raise RuntimeError(f"the oracle failed at all {len(numbers)} points; none is given up") from failures[-1][1]
        for points, error in failures:
            logger.warning("the oracle failed at points %s: %r", points, error)
            self._fail(points)

    def _tell_numbers(self, numbers: list[int], labels: Any) -> None:  # noqa: ANN401 - whatever an oracle returns
        points = self._ledger.inputs(numbers) if self.is_box else self._ledger.candidates(numbers)
        self.tell(points, labels)

    def _fail(self, numbers: list[int]) -> None:
        if numbers:
            self._note({"event": "failed", "points": numbers})

    def _numbers(self, candidates: list[int], inputs: Float[ndarray, "n d"]) -> list[int]:
        """The campaign's numbers of the points; those it does not know enter it."""
        points = list(zip(candidates, map(tuple, inputs.tolist()), strict=True))
        new = list(dict.fromkeys(point for point in points if self._known(*point) is None))
        if new:
            entering = {"candidates": [candidate for candidate, _ in new], "inputs": [list(x) for _, x in new]}
            self._note({"event": "added", **entering})
        return [number for point in points if (number := self._known(*point)) is not None]

    def _known(self, candidate: int, x: tuple[float, ...]) -> int | None:
        return self._ledger.number_at(x) if self.is_box else self._ledger.number_of_candidate(candidate)

    def _note(self, event: Event) -> None:
        """An event: on disk first, then in force."""
        if self._campaign is not None:
            self._campaign.append(event)
        self._events.append(event)
        self._take(event)

    def _take(self, event: Event) -> None:
        if event["event"] == "added":
            n, b = self._ledger.size, len(event["candidates"])
            self._density = (n * self._density + b * self._density_of(event["inputs"])) / (n + b)
        self._ledger.apply(event)
        if event["event"] == "asked":
            self.history = History((*self.history.steps, Step.from_fields(event["step"])))
        elif event["event"] == "told":
            self._model = None

    def _density_of(self, inputs: list[list[float]]) -> Float[Tensor, " N"]:
        """The density of points nobody asked for: estimated, or taken to be the test density if they are few."""
        if len(inputs) < SMALLEST_TRAINING_SET:
            return self.candidates.test_density
        generator = torch.Generator().manual_seed(self.settings["seed"])
        estimate = density_at(self.candidates.X, of=np.array(inputs), generator=generator)
        return normalised(estimate, self.candidates.pool_density)

    # Keeping it.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the campaign to a folder, which `load` reads and which is kept up to date from then on."""
        if self._campaign is not None:
            raise ValueError(f"this campaign is kept in {self._campaign.path} already, up to its last event")
        self._campaign = self._create(path)
        if self.history.steps:
            self._keep_state(self.history.steps[-1].number)
        for event in self._events:
            self._campaign.append(event)

    def close(self) -> None:
        """Let go of the campaign's folder, so that another process may open it."""
        if self._campaign is not None:
            self._campaign.close()

    def __enter__(self) -> "ActiveLearner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ActiveLearner":
        """The campaign of that folder as it was at its last event; it goes on there."""
        campaign = Campaign.open(path)
        try:
            return cls._opened(campaign)
        except BaseException:
            campaign.close()
            raise

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "ActiveLearner":
        """The same without taking hold of it: for a look at a campaign that another process is running."""
        return cls._opened(Campaign.read(path))

    @classmethod
    def _opened(cls, campaign: Campaign) -> "ActiveLearner":
        learner = cls.__new__(cls)
        tensors, _ = load_record(campaign.path / CANDIDATES_FILE)
        validation = tuple(tensors[name].numpy() for name in ("validation.X", "validation.y") if name in tensors)
        learner.settings = campaign.header["settings"]
        learner._set_up(
            candidates_from(tensors, campaign.header["memory_mapped"]),
            MixtureRegressor(**learner.settings["model"]),
            (validation[0], validation[1]) if validation else None,
        )
        last = max((i for i, event in enumerate(campaign.events) if event["event"] == "asked"), default=None)
        for i, event in enumerate(campaign.events):
            learner._take(event)
            learner._events.append(event)
            if i == last:
                state, _ = campaign.load_step(len(learner.history) - 1)
                learner._density, learner._complexity = state["density"], state.get("complexity")
        learner._campaign = campaign
        return learner

    def _create(self, path: str | os.PathLike[str]) -> Campaign:
        tensors, memory_mapped = candidates_tensors(self.candidates)
        if self.validation is not None:
            X, y = (torch.tensor(np.asarray(part), dtype=torch.float64) for part in self.validation)
            tensors |= {"validation.X": X, "validation.y": y}
        # The candidates come first: a folder is a campaign, and can be loaded, as soon as its header is there.
        Path(path).mkdir(parents=True, exist_ok=True)
        if not (Path(path) / "header.json").exists():
            save_record(Path(path) / CANDIDATES_FILE, tensors, {})
        return Campaign.create(path, {"settings": self.settings, "memory_mapped": memory_mapped})

    def _keep_state(self, number: int) -> None:
        """What the next step needs of this one, and the model it came from, before its points are asked for."""
        if self._campaign is None:
            return
        tensors = {"density": self._density}
        if self._complexity is not None:
            tensors["complexity"] = self._complexity
        self._campaign.save_step(number, tensors, {})
        if self._model is not None:
            self._model.save(self._campaign.path / "steps" / f"{number:04d}.model")


def target_error(rmse: float) -> StoppingRule:
    """Stop when the validation error is at most this."""

    def reached(learner: ActiveLearner) -> bool:
        return learner.model is not None and learner.model.validation_error_ <= rmse

    return reached


def no_further_gain(share: float = 0.95) -> StoppingRule:
    """Stop when active learning would need more than this share of the labels that random ones need."""

    def exhausted(learner: ActiveLearner) -> bool:
        return learner.model is not None and learner.headroom() > share

    return exhausted


def _dimension(candidates: Candidates, seed: int) -> float:
    """The intrinsic dimension of a sample of the pool; of a box, the number of its columns."""
    if candidates.cell is not None:
        return float(candidates.X.shape[1])
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(candidates.X), generator=generator)[:LARGEST_SAMPLE].sort().values
    sample = torch.tensor(np.asarray(candidates.X[rows.numpy()]), dtype=torch.float64)
    return estimated_dimension(sample, generator=generator)
